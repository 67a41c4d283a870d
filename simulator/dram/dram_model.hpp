// DRAM timing, one burst at a time in closed form: banks, bus turnaround, refresh, and the DMA ports in front.
//
// README.md of this folder states the rules; core.py is the same algorithm in Python, integer for integer. Two users:
// the timing simulator asks for whole transfers of a port (`request`, `open`), a bench asks for bursts (`submit`).
// Both then call `step` until it has nothing to report. Times at the interface are cycles of the user's clock; inside
// they are units, the least common multiple of that clock and the DRAM clock, so that nothing is rounded.

#ifndef DPU_DRAM_MODEL_HPP
#define DPU_DRAM_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

namespace dpu::dram {

using Time = std::int64_t;

constexpr Time kNever = Time{1} << 60;

// One word a field, in the order of `FIELDS` in params.py. Times are DRAM clocks (ticks) unless said otherwise.
struct Config {
  Time tick;  // units a DRAM clock
  Time cycle;  // units a user cycle
  Time channels, banks, groups, stripe, access, page, interleave, rows;
  Time bank_major, bank_xor, channel_hash;
  Time bl, rl, wl, rcd_read, rcd_write, rp, ras, rc, rtp, wr, rrd_s, rrd_l, faw, ccd_s, ccd_l, wtr_s, wtr_l, rtw;
  Time refresh_groups, refresh_interval, rfc, stagger;
  Time window, batch, reorder;
  Time request, response;  // units
  Time beat, burst, outstanding, buffer, ports;  // bytes, bytes, bursts, bytes
  Time pbr2pbr, pbr2act;
  Time one_bus, act_clocks;  // the command bus
};

constexpr std::size_t kFields = sizeof(Config) / sizeof(Time);
static_assert(kFields == 49, "the order and number of fields is that of params.py");

enum class Note : int { kNone, kFirst, kLast, kResponse, kDone };

struct Report {
  Note note = Note::kNone;
  Time cycle = 0;
  Time who = 0;  // the port; of kDone, the tag
};

struct Counters {
  Time bytes_read, bytes_written, hits, misses, conflicts, refreshes, refresh_wait, turnaround, turns, last;
};

constexpr std::size_t kCounters = sizeof(Counters) / sizeof(Time);

class Model {
 public:
  explicit Model(const Config& config);

  // A port moves `n` runs of `inner` bytes from `address`, in at least `floor` cycles. A write starts to flow at once;
  // the data of a read waits at the port (kFirst) until it is opened.
  void request(Time cycle, int port, bool write, Time floor, Time address, Time inner, const Time n[3],
               const Time stride[3]);
  void open(Time cycle, int port);

  // One burst past the ports; kDone with `tag` when its data (read) or response (write) is back.
  void submit(Time cycle, Time address, Time bytes, bool write, Time tag);

  // Advance to `limit` or to the first thing to report, whichever is earlier.
  Report step(Time limit);

  // The first cycle at which `step` has something to do; kNever when idle.
  Time due() const {
    if (hot_valid_) return up(hot_.time, config_.cycle);
    return heap_.empty() ? kNever : up(heap_.top().time, config_.cycle);
  }

  Counters counters(int channel) const { return channels_[static_cast<std::size_t>(channel)].counters; }

 private:
  struct Burst {
    Time bytes = 0, end = 0, tag = 0;
    int left = 0;  // pieces not yet served (write, bench) or not yet delivered (read)
    int transfer = 0;
  };
  struct Piece {  // what one channel serves in one go: part of one row
    Time arrival = 0, bank = 0, row = 0, first = 0, count = 0, bytes = 0, done = -1;
    int burst = 0, port = -1, skipped = 0;
    bool write = false;
  };
  struct Transfer {
    Time floor = 0, total = 0, moved = 0, start = 0, address = 0, run = 0, end = 0;  // floor, start, end: units
    Time n[3] = {}, stride[3] = {}, at[3] = {}, offset = 0;  // where issuing has come to
    int bursts = 0;  // issued, not done (write)
    bool write = false, opened = false, issued = false, announced = false;
  };
  struct Port {
    std::deque<int> issuing, moving;  // transfers
    std::deque<int> flight;  // bursts
    std::deque<int> pieces;  // reads, in order of delivery
    Time bytes = 0, clock = 0, free = 0, response = 0, event = kNever;
    bool blocked = false;
  };
  struct Refresh {  // one that later commands can still meet
    std::size_t from = 0, to = 0;  // banks
    Time floor = 0, ready = 0, sent = 0;  // floor: not before, for what was there before
    std::vector<Time> precharges;  // clocks
  };
  struct Channel {
    std::deque<int> queue[2];  // reads, writes, by arrival
    std::vector<Time> row, act, pre_ok, ready, group_act, group_col, group_write;
    std::vector<Time> acts, cols;  // rings: the last four activations, the last columns of the window
    std::size_t act_at = 0, col_at = 0;
    Time last_act, last_col, last_read, last_write, next_refresh, event = kNever, run = 0;
    std::uint64_t refreshed = 0;  // groups of banks that have had their turn in this round, a bit each
    std::deque<Refresh> refs;
    Time last_ref;
    std::vector<Time> used;  // of a bank, the last column of the last piece in it
    Time newest = 0;  // a bank of the piece that entered last
    std::deque<std::uint64_t> bus;  // taken slots of the bus that rows' commands go over, a bit a clock from `base` on
    Time base = 0;
    bool write = false;
    Counters counters = {};
  };
  enum Kind : int { kIssue, kPick, kNote };
  struct Event {
    Time time, sequence, who;
    int kind, note;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
  };

  static Time up(Time a, Time b) { return (a + b - 1) / b; }
  void push(Time time, int kind, Time who, int note = 0);
  template <class T>
  static int take(std::vector<T>& pool, std::vector<int>& spare);

  void wake(int port, Time time);
  void issue(int port, Time now);
  void emit(int port, int transfer, Time now, Time address, Time bytes);
  void enqueue(Time arrival, Time address, Time bytes, bool write, int burst, int port);
  void schedule(int channel, Time time);
  void pick(int channel, Time now);
  bool hit(const Channel& c, const Piece& p) const;
  void refresh(Channel& c, Time now);
  void forget(Channel& c, Time now);
  static bool mark(Channel& c, Time at);  // whether the slot was free
  static void clear(Channel& c, Time at);
  static Time free_slot(const Channel& c, Time at);
  static Time take_slot(Channel& c, Time at, Time slots = 1);
  void send(Channel& c, Refresh& r);
  void give_way(Channel& c);
  Time activate(Channel& c, Time at);
  Time serve(Channel& c, const Piece& p, Time now);
  void served(int piece, Time done);
  void deliver(int port);

  Config config_;
  std::vector<Port> ports_;
  std::vector<Channel> channels_;
  std::vector<Burst> bursts_;
  std::vector<Piece> pieces_;
  std::vector<Transfer> transfers_;
  std::vector<int> spare_bursts_, spare_pieces_, spare_transfers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> heap_;
  std::vector<Time> cols_, met_;  // of the piece being served: columns, and those whose slots were taken
  Event hot_ = {};  // when valid, earlier than all of the heap: most events are the next to come
  bool hot_valid_ = false;
  Time sequence_ = 0;
  Time now_ = 0;  // of the event or call being worked on
};

}  // namespace dpu::dram

// The same for C and ctypes. `config` has kFields words. Calls that change the model return `due()`.
extern "C" {
void* dpu_dram_new(const std::int64_t* config, std::int64_t fields);  // null when the number of fields differs
void dpu_dram_free(void* model);
std::int64_t dpu_dram_request(void* model, std::int64_t cycle, std::int64_t port, std::int64_t write,
                              std::int64_t floor, std::int64_t address, std::int64_t inner, std::int64_t n1,
                              std::int64_t n2, std::int64_t n3, std::int64_t s1, std::int64_t s2, std::int64_t s3);
std::int64_t dpu_dram_open(void* model, std::int64_t cycle, std::int64_t port);
std::int64_t dpu_dram_submit(void* model, std::int64_t cycle, std::int64_t address, std::int64_t bytes,
                             std::int64_t write, std::int64_t tag);
std::int64_t dpu_dram_step(void* model, std::int64_t limit, std::int64_t* out);  // out: note, cycle, who
void dpu_dram_counters(void* model, std::int64_t channel, std::int64_t* out);  // kCounters words
}

#endif
