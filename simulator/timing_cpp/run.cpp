// See run.hpp.

#include "run.hpp"

#include <algorithm>
#include <functional>

namespace dpu::timing {

namespace {

const Port kMoves[2][2] = {{kActWrite, kVbufWrite}, {kActRead, kVbufRead}};  // of LOAD, of STORE
constexpr Time kPerTile = 4;  // ports of a tile at the DRAM, numbered as its engines
constexpr int kInstructions = kMxu;  // the one that instructions come through
constexpr Time kNoStride[3] = {0, 0, 0}, kOneRun[3] = {1, 1, 1};

const Port* ports_of(const EngineState& e) { return kMoves[e.kind == kStore]; }

Time key_of(const EngineState& e) { return e.tile * kPerTile + e.kind; }

// Calls `f` with each bit that is set, the lowest first, until it returns false.
template <class F>
bool each_bit(std::uint32_t mask, F&& f) {
  for (int bit = 0; mask; ++bit, mask >>= 1)
    if (mask & 1 && !f(bit)) return false;
  return true;
}

// The semaphore of a bit of a `wait` field: bit 4 * producer + k.
Time wait_id(int bit, int consumer) { return (bit / 4 * kEngines + consumer) * 4 + bit % 4; }

// And of a `signal` field: bit 4 * consumer + k.
Time signal_id(int bit, int producer) { return (producer * kEngines + bit / 4) * 4 + bit % 4; }

}  // namespace

Run::Run(const Config& config, double rate, const dram::Config* dram, const Stream* streams)
    : c_(config),
      dram_cycle_(dram ? dram->cycle : 1),
      latency_(std::max<Time>(1, config.latency)),
      answer_(std::max<Time>(1, config.response) + config.store_answer) {
  if (dram)
    bursts = std::make_unique<BurstMemory>(*dram);
  else if (config.memory)
    fluid = std::make_unique<FairMemory>(rate);
  else
    fluid = std::make_unique<IdealMemory>();
  for (int t = 0; t < c_.tiles; ++t) tiles.emplace_back(t, streams[t], c_);
}

void Run::push(Time time, Kind kind, int tile, int engine, Time what) {
  heap_.push_back({time, static_cast<std::uint64_t>(kind) << 56 | ++count_, tile, engine, what});
  std::push_heap(heap_.begin(), heap_.end(), std::greater<Event>());
}

// Whether the DRAM has something to do before, or in the cycle of, the next event.
bool Run::due() const {
  if (!bursts || bursts->model.idle()) return false;
  return heap_.empty() || bursts->model.next() <= heap_.front().time * dram_cycle_;
}

Time Run::run() {
  for (TileState& tile : tiles) {
    for (std::size_t b = 0; b < tile.fetch.asks.size(); ++b) ask(tile, b);
    dispatch(tile, 0);
    for (EngineState& e : tile.engines) try_start(e, 0);
  }
  while (true) {
    if (due()) {
      burst(bursts->step(heap_.empty() ? kUnknown : heap_.front().time));
      continue;
    }
    if (heap_.empty()) break;
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<Event>());
    const Event event = heap_.back();
    heap_.pop_back();
    handle(event);
  }
  Time last = 0;
  for (TileState& tile : tiles) {
    for (EngineState& e : tile.engines)
      if (!e.queue.empty()) return -1;
    last = std::max(last, *std::max_element(tile.stream.visible, tile.stream.visible + tile.stream.words));
  }
  return last + c_.end;
}

void Run::handle(const Event& event) {
  const Time now = event.time;
  const Kind kind = static_cast<Kind>(event.order >> 56);
  if (kind == kMemoryEvent) {
    if (now != memory_at_) return;  // replaced by an earlier one
    memory_at_ = -1;
    for (const Time key : fluid->finish(now))
      end_data(tiles[static_cast<std::size_t>(key / kPerTile)].engines[key % kPerTile], now);
    next_memory();
    return;
  }
  TileState& tile = tiles[static_cast<std::size_t>(event.tile)];
  EngineState& e = tile.engines[event.engine];
  switch (kind) {
    case kStart:
      return try_start(e, now);
    case kSignal:
      return signal(e, event.what, now);
    case kBeats:
      return end_beats(e, now);
    case kData:
      return begin_data(e, now);
    case kFilled:
      return end_data(e, now);
    case kDone:
      --e.outstanding;
      return try_start(e, now);
    default:
      ++tile.remote[static_cast<std::size_t>(event.what)];
      return try_start(tile.engines[kLoad], now);
  }
}

// CTRL

// A burst of instructions is asked for.
void Run::ask(TileState& tile, std::size_t burst) {
  const Time at = tile.fetch.asks[burst] + c_.read_address;
  if (!bursts) return tile.fetch.arrive(at + latency_);
  const Time words = tile.fetch.length(burst), bytes = c_.fetch_burst * c_.word_bytes;
  const Time address = tile.stream.address + static_cast<Time>(burst) * bytes;
  bursts->start(at, tile.number * kPerTile + kInstructions, false, words, address, words * c_.word_bytes, kOneRun,
                kNoStride);
}

// Put words into queues until one is full. Runs ahead of time: each word carries the cycle it may start in.
void Run::dispatch(TileState& tile, Time now) {
  const Stream& s = tile.stream;
  while (tile.at < s.words) {
    const Time i = tile.at, here = tile.fetch.ready(i);
    const int kind = s.engine[i];
    if (here == kUnknown) {
      tile.starved = true;
      return;
    }
    const Time ready = std::max(tile.clock + 1, here);
    if (kind == kCtrl) {  // END: the last word; the tile is done when all is visible
      dispatched(tile, ready, here);
      s.start[i] = s.begin[i] = s.issued[i] = s.visible[i] = ready;
      return;
    }
    EngineState& e = tile.engines[kind];
    if (static_cast<Time>(e.queue.size()) >= e.depth) {
      tile.blocked = kind;
      return;
    }
    Time enters = ready;
    if (tile.blocked == kind) {
      enters = std::max(ready, now + 1);
      tile.ctrl_stalls.book(kQueueFull + kind, enters - ready);
      tile.blocked = -1;
    }
    e.queue.push({i, enters + 1});
    if (e.queue.size() == 1) push(enters + 1, kStart, e);
    dispatched(tile, enters, here);
  }
}

// The next word goes to its queue in this cycle.
void Run::dispatched(TileState& tile, Time cycle, Time here) {
  if (here > tile.clock + 1) tile.ctrl_stalls.book(kFetch, here - tile.clock - 1);
  tile.clock = cycle;
  if (tile.fetch.dispatched(tile.at, cycle)) ask(tile, tile.fetch.asks.size() - 1);
  ++tile.at;
}

// Starting words

Time Run::missing(EngineState& e) const {
  const TileState& tile = tile_of(e);
  const Time i = e.queue.front().number;
  Time found = -1;
  const auto look = [&](const Time* tokens, Time at, Time name) {
    if (tokens[at]) return true;
    found = name;
    return false;
  };
  const bool all = each_bit(tile.stream.wait[i], [&](int bit) {
    const Time k = wait_id(bit, e.kind);
    return look(tile.tokens, k, k);
  });
  if (all && e.kind == kLoad)
    each_bit(tile.stream.remote[i], [&](int bit) { return look(tile.remote.data(), bit, kSemaphores + bit); });
  return found;
}

// Why the oldest word cannot start now; kNone when it can.
int Run::hindrance(EngineState& e, Time now) {
  TileState& tile = tile_of(e);
  if (e.queue.empty()) return e.left ? kDispatch : kNone;
  const Time i = e.queue.front().number;
  if (e.queue.front().cycle > now) return kDispatch;
  if (e.outstanding >= c_.words_outstanding) return kMemory;
  if (tile.stream.drain[i] && (e.outstanding || e.last >= now || (e.kind == kVpu && !tile.vpu.idle()))) {
    if (e.last >= now) push(e.last + 1, kStart, e);
    return kDrain;
  }
  if (!tile.stream.wait[i] && !(tile.stream.remote[i] && e.kind == kLoad)) return kNone;
  const Time k = missing(e);
  return k < 0 ? kNone : k >= kSemaphores ? kRemote : kSemaphore + static_cast<int>(k / (4 * kEngines));
}

// Start the oldest word if it can start in this cycle.
void Run::try_start(EngineState& e, Time now) {
  if (e.free > now) return;
  const int reason = hindrance(e, now);
  e.wait(now, reason);
  if (reason != kNone || e.queue.empty()) return;
  const Time i = e.queue.front().number;
  e.queue.pop();
  TileState& tile = tile_of(e);
  --e.left;
  each_bit(tile.stream.wait[i], [&](int bit) {
    --tile.tokens[wait_id(bit, e.kind)];
    return true;
  });
  tile.stream.start[i] = now;
  if (e.kind == kMxu) {
    start_mm(e, i, now);
  } else if (e.kind == kVpu) {
    start_vec(e, i, now);
  } else {
    if (e.kind == kLoad)
      each_bit(tile.stream.remote[i], [&](int bit) {
        --tile.remote[static_cast<std::size_t>(bit)];
        return true;
      });
    start_move(e, i, now);
  }
  if (e.free < kUnknown) {
    push(e.free, kStart, e);
    if (!e.queue.empty() && e.queue.front().cycle > e.free) push(e.queue.front().cycle, kStart, e);
  }
  if (tile.blocked == e.kind) dispatch(tile, now);
}

// Word `i` is done in this cycle, a cycle after the one before it at the earliest.
void Run::complete(EngineState& e, Time i, Time done) {
  const Stream& s = tile_of(e).stream;
  e.last = s.visible[i] = std::max(e.last + 1, done);
  if (s.signal[i] || (e.kind == kStore && s.remote[i])) push(e.last + 1, kSignal, e, i);
}

void Run::signal(EngineState& e, Time i, Time now) {
  TileState& tile = tile_of(e);
  bool consumers[kCtrl] = {};
  each_bit(tile.stream.signal[i], [&](int bit) {
    ++tile.tokens[signal_id(bit, e.kind)];
    return consumers[bit / 4] = true;
  });
  for (int c = 0; c < kCtrl; ++c)
    if (consumers[c]) try_start(tile.engines[c], now);
  if (e.kind == kStore)
    each_bit(tile.stream.remote[i], [&](int bit) {
      push(now + c_.remote_signal, kRemoteToken, bit, kLoad, tile.number);
      return true;
    });
}

// MXU and VPU

void Run::start_mm(EngineState& e, Time i, Time now) {
  TileState& tile = tile_of(e);
  const MmTimes times = tile.mxu.start(i, now);
  const MmWork& w = tile.stream.mm[tile.stream.slot[i]];
  e.free = times.next;
  tile.stream.begin[i] = times.first;
  tile.stream.issued[i] = times.after;
  tile.busy[kMxu] += w.tiles * std::max(w.rows, c_.rows);
  complete(e, i, times.done);
}

void Run::start_vec(EngineState& e, Time i, Time now) {
  Vpu& vpu = tile_of(e).vpu;
  e.free = vpu.start(i, now);
  if (vpu.size() == 1) push(vpu.begin(now), kBeats, e);
}

// The oldest word has had its last beat, if the MXU has not come between.
void Run::end_beats(EngineState& e, Time now) {
  TileState& tile = tile_of(e);
  Vpu& vpu = tile.vpu;
  if (vpu.again() > now) return push(vpu.last, kBeats, e);
  const Time i = vpu.oldest();
  tile.stream.begin[i] = vpu.first;
  tile.stream.issued[i] = now + 1;
  tile.busy[kVpu] += vpu.alone;
  e.book(kPort, now + 1 - vpu.first - vpu.alone);
  complete(e, i, vpu.end());
  vpu.left(i, e.last);
  if (const Time free = vpu.offer(); free >= 0) {
    e.free = free;
    push(free, kStart, e);
  }
  if (!vpu.idle()) push(vpu.begin(now), kBeats, e);
  try_start(e, now);
}

// LOAD and STORE

void Run::start_move(EngineState& e, Time i, Time now) {
  const DmaWork& w = move(tile_of(e), i);
  ++e.outstanding;
  e.free = now + 1;
  Time ready;
  if (e.kind == kStore) {
    ready = now + c_.store_read;
  } else if (!w.bytes) {
    ready = now + c_.dma_check;
  } else {
    ready = std::max(now + c_.dma_address + c_.read_address, e.address);
    e.address = ready + w.bursts;
    if (!bursts)  // padding before the first data is written while they are on their way
      ready = std::max(now + c_.dma_check, ready + latency_ - w.lead);
    else
      bursts->start(ready, key_of(e), false, w.alone, w.address, w.inner, w.n, w.stride, w.cached != 0);
  }
  e.pending.push({i, ready});
  begin_data(e, now);
}

// Begin the data phase of the oldest started word, if it can begin in this cycle.
void Run::begin_data(EngineState& e, Time now) {
  if (e.active >= 0 || e.pending.empty()) return;
  const Time i = e.pending.front().number, ready = e.pending.front().cycle;
  if (ready > now) return push(ready, kData, e);
  TileState& tile = tile_of(e);
  const DmaWork& w = move(tile, i);
  if (e.kind == kLoad && w.bytes) {
    const Time here = bursts ? e.arrived : ready;
    if (here < 0) return;
    if (const Time free = tile.fetch.after(here); free > now) return push(free, kData, e);
  }
  e.pending.pop();
  e.active = i;
  e.through = -1;
  tile.stream.begin[i] = now;
  for (int k = 0; k < 2; ++k)
    if (spans_of(tile.stream, i, ports_of(e)[k])) tile.ports[ports_of(e)[k]].working = now;
  if (w.bytes && bursts) {
    if (e.kind == kLoad) {
      e.arrived = -1;
      bursts->open(now, key_of(e), w.bytes);
    } else {
      bursts->start(now, key_of(e), true, w.alone, w.address, w.inner, w.n, w.stride);
    }
  } else if (w.bytes) {
    fluid->start(now, key_of(e), w.bytes, w.cap);
    next_memory();
  } else if (w.phase || e.kind == kLoad) {
    push(now + std::max<Time>(1, w.phase), kFilled, e);
  } else {
    end_data(e, now);
  }
}

void Run::next_memory() {
  const Time time = fluid->next();
  if (time == kNoTransfer || time == memory_at_) return;
  memory_at_ = time;
  push(time, kMemoryEvent, 0, 0);
}

// The data of the active word are through, if the ports have let them.
void Run::end_data(EngineState& e, Time now) {
  TileState& tile = tile_of(e);
  const Time i = e.active, begin = tile.stream.begin[i];
  const DmaWork& w = move(tile, i);
  if (e.through < 0) {
    if (e.kind == kLoad && w.bytes && e.late < 0) {
      e.late = tile.fetch.delay(begin, now, w.bytes / c_.beat_bytes);
      if (e.late) return push(now + e.late, kFilled, e);
    }
    e.late = -1;
    e.through = now;
  }
  const Time took = e.through - begin;
  for (int k = 0; k < 2; ++k) {
    SharedPort& port = tile.ports[ports_of(e)[k]];
    const Spans spans = spans_of(tile.stream, i, ports_of(e)[k]);
    if (!spans) continue;
    const Time early = e.kind == kStore ? c_.store_beat : 0;
    const Time end = early + port.finish(begin - early, took, std::min(took, w.steps), spans, 0.0, 0.0);
    if (end > now)
      return push(end, kFilled, e);
    port.working = -1;
  }
  e.active = -1;
  tile.stream.issued[i] = now;
  const Time alone = w.bytes ? w.alone : took;
  tile.busy[e.kind] += alone;
  e.book(kMemory, took - alone);
  e.book(kPort, now - e.through);
  if (e.kind == kLoad) {
    done(e, i, now + c_.load_write);
  } else if (bursts && (w.bytes || !e.unanswered.empty())) {
    e.unanswered.push(i);
    if (e.early >= 0) {
      const Time lag = e.early;
      e.early = -1;
      answered(e, now + lag);
    }
  } else {
    done(e, i, w.bytes ? now + answer_ : now);
  }
  begin_data(e, now);
}

void Run::done(EngineState& e, Time i, Time cycle) {
  complete(e, i, cycle);
  push(e.last + 1, kDone, e);
}

// What a DRAM of bursts reports.
void Run::burst(const dram::Report& r) {
  if (r.note == dram::Note::kNone) return;
  TileState& tile = tiles[static_cast<std::size_t>(r.who / kPerTile)];
  const int port = static_cast<int>(r.who % kPerTile);
  if (port == kInstructions) {
    if (r.note != dram::Note::kFirst) return;
    bursts->open(r.cycle, r.who, tile.fetch.length(tile.fetch.arrives.size()) * c_.word_bytes);
    tile.fetch.arrive(r.cycle);
    if (!tile.starved) return;
    tile.starved = false;
    return dispatch(tile, r.cycle);
  }
  EngineState& e = tile.engines[port];
  if (r.note == dram::Note::kFirst) {
    e.arrived = r.cycle;
    begin_data(e, r.cycle);
  } else if (r.note == dram::Note::kLast) {
    end_data(e, r.cycle);
  } else {
    answered(e, r.cycle);
  }
}

// The oldest STORE is in DRAM, and with it the words behind it that store nothing.
void Run::answered(EngineState& e, Time now) {
  if (e.unanswered.empty()) {  // the DRAM has it, but its reads had to wait
    e.early = now - e.through;
    return;
  }
  while (true) {
    const Time i = e.unanswered.front();
    e.unanswered.pop();
    done(e, i, now + c_.store_answer);
    if (e.unanswered.empty() || move(tile_of(e), e.unanswered.front()).bytes) return;
  }
}

}  // namespace dpu::timing
