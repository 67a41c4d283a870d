// The timing model of timing.py in C++: what all its parts share. timing.py states the rules, timing_loop.py and its
// neighbours are the same algorithm in Python, number for number; a test holds the two against each other.
//
// Times are whole cycles of the tile's clock; tiles start in cycle 0. Costs come from ir/cost.py through `Config` and
// the records of plan.py: no number of the hardware is written down here.

#ifndef DPU_TIMING_HPP
#define DPU_TIMING_HPP

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../dram/dram_model.hpp"

namespace dpu::timing {

using Time = std::int64_t;

constexpr Time kUnknown = Time{1} << 62;  // a cycle that is not known yet

// Numbered as in ir/isa.py and ir/cost.py; timing_native.py checks it.
enum Engine : int { kLoad, kMxu, kVpu, kStore, kCtrl, kEngines };
enum Port : int { kActRead, kActWrite, kAccRead, kVbufRead, kVbufWrite, kPorts };

// Why an engine waits, in the order of `REASONS` in timing_native.py.
enum Reason : int {
  kNone = -1,
  kDispatch,
  kMemory,
  kDrain,
  kSemaphore,  // and the number of the producing engine
  kRemote = kSemaphore + kEngines,
  kPort,
  kQueueFull,  // and the number of the engine
  kFetch = kQueueFull + kEngines,
  kReasons
};

// One word a field, in the order of `CONFIG` in timing_native.py. The first part are constants of ir/cost.py.
struct Config {
  Time beat_bytes, words_outstanding, fetch_burst, fetch_words, read_address;
  Time mxu_check;
  Time vpu_check, vpu_fetch, vpu_ahead, vpu_read, vpu_drain, vpu_words, vpu_sums, vpu_result, vpu_rows, vpu_columns;
  Time dma_check, dma_address, load_ring_beats, load_write, store_read, store_beat, store_answer;
  Time word_bytes;
  Time end;  // cycles from the end of the last word, or the dispatch of END, to the end of the run
  Time tiles, rows, blocks, drain, column;  // MXU: weight rows, activation blocks, cycles to leave, to read a column
  Time latency, response, remote_signal;
  Time depth[4];  // of the queues
  Time bank_words[kPorts];
  Time memory;  // 0 ideal, 1 simple, 2 bursts
};

constexpr std::size_t kFields = sizeof(Config) / sizeof(Time);

// The records of plan.py, field for field.
struct MmWork {
  Time tiles, rows, column, first, last, accumulate, adds, k, maxima, an, act, nx, sx, sy, nc, sc, nkx, skx, sky;
};

struct VecWork {
  Time scalars, entry, fetch, lane, gap, more, tail, reads, behind, between, drain, ways, fills, acc, vbuf, out, beats;
};

struct DmaWork {
  Time phase, steps, lead, bytes, bursts, alone, cached, address, inner;
  Time n[3], stride[3];
  double cap;
};

struct Span {  // addresses [lo, hi) at a shared port
  Time port, lo, hi;
};

// One tile's words, and where their times go. Arrays have an element a word unless they say something else.
struct Stream {
  Time words;
  Time address;  // in DRAM
  const std::uint8_t* engine;
  const std::uint8_t* drain;
  const std::uint16_t* wait;
  const std::uint16_t* signal;
  const std::uint32_t* remote;
  const std::int32_t* slot;  // place among the records of the word's kind
  const MmWork* mm;
  const VecWork* vec;
  const DmaWork* dma;
  const std::int32_t* span_at;  // words + 1: where the spans of each word begin
  const Span* spans;
  Time *start, *begin, *issued, *visible;
};

// What a word uses of one port: the spans [first, last), in the order of its operands.
struct Spans {
  const Span *first, *last;
  explicit operator bool() const { return first != last; }
};

inline Spans spans_of(const Stream& s, Time word, Port port) {
  const Span *at = s.spans + s.span_at[word], *stop = s.spans + s.span_at[word + 1];
  while (at != stop && at->port != port) ++at;
  const Span* first = at;
  while (at != stop && at->port == port) ++at;
  return {first, at};
}

}  // namespace dpu::timing

#endif
