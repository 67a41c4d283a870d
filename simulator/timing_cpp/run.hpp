// The event loop. As timing_loop.py, whose sections and names it keeps.

#ifndef DPU_TIMING_RUN_HPP
#define DPU_TIMING_RUN_HPP

#include <deque>
#include <memory>

#include "memory.hpp"
#include "state.hpp"

namespace dpu::timing {

class Run {
 public:
  // `rate`: bytes a cycle of a `simple` memory. `dram`: only with a DRAM of bursts.
  Run(const Config& config, double rate, const dram::Config* dram, const Stream* streams);

  // Run to the end; the cycle in which everything is done and known to be, or -1 if engines wait for ever.
  Time run();

  // What the oldest word of an engine waits for: a semaphore number, kSemaphores + a tile, or -1. For deadlocks.
  static constexpr Time kSemaphores = kEngines * kEngines * 4;
  Time missing(EngineState& e) const;

  std::deque<TileState> tiles;
  std::unique_ptr<Fluid> fluid;
  std::unique_ptr<BurstMemory> bursts;

 private:
  // Kinds of events; in one cycle, smaller numbers go first.
  enum Kind : int { kMemoryEvent, kFilled, kSignal, kRemoteToken, kDone, kBeats, kData, kStart };

  struct Event {
    Time time;
    std::uint64_t order;  // the kind, then the number of the event
    int tile, engine;
    Time what;
    bool operator>(const Event& o) const { return time != o.time ? time > o.time : order > o.order; }
  };

  void push(Time time, Kind kind, int tile, int engine, Time what = 0);
  void push(Time time, Kind kind, const EngineState& e, Time what = 0) { push(time, kind, e.tile, e.kind, what); }
  void handle(const Event& event);

  void ask(TileState& tile, std::size_t burst);
  void dispatch(TileState& tile, Time now);
  void dispatched(TileState& tile, Time cycle, Time here);

  int hindrance(EngineState& e, Time now);
  void try_start(EngineState& e, Time now);
  void complete(EngineState& e, Time i, Time done);
  void signal(EngineState& e, Time i, Time now);

  void start_mm(EngineState& e, Time i, Time now);
  void start_vec(EngineState& e, Time i, Time now);
  void end_beats(EngineState& e, Time now);

  void start_move(EngineState& e, Time i, Time now);
  void begin_data(EngineState& e, Time now);
  void next_memory();
  void end_data(EngineState& e, Time now);
  void done(EngineState& e, Time i, Time cycle);
  void burst(const dram::Report& r);
  void answered(EngineState& e, Time now);

  static const DmaWork& move(const TileState& tile, Time i) { return tile.stream.dma[tile.stream.slot[i]]; }
  TileState& tile_of(const EngineState& e) { return tiles[static_cast<std::size_t>(e.tile)]; }
  const TileState& tile_of(const EngineState& e) const { return tiles[static_cast<std::size_t>(e.tile)]; }
  bool due() const;

  const Config c_;
  const Time dram_cycle_;  // units of the DRAM model a cycle
  const Time latency_, answer_;
  Time memory_at_ = -1;  // the one valid kMemoryEvent
  std::vector<Event> heap_;
  std::uint64_t count_ = 0;
};

}  // namespace dpu::timing

#endif
