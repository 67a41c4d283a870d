// The timing model for ctypes: timing_native.py calls these.

#include <algorithm>
#include <cstring>

#include "run.hpp"

using dpu::timing::Config;
using dpu::timing::EngineState;
using dpu::timing::Run;
using dpu::timing::Stalls;
using dpu::timing::Stream;
using dpu::timing::TileState;
using dpu::timing::Time;

extern "C" {

// Sizes of what is passed by memory, for the caller to compare: Config, MmWork, VecWork, DmaWork, Span, Stream, and the
// number of reasons.
void dpu_timing_sizes(Time* out) {
  const std::size_t sizes[] = {sizeof(Config),
                               sizeof(dpu::timing::MmWork),
                               sizeof(dpu::timing::VecWork),
                               sizeof(dpu::timing::DmaWork),
                               sizeof(dpu::timing::Span),
                               sizeof(Stream),
                               dpu::timing::kReasons};
  std::copy(std::begin(sizes), std::end(sizes), out);
}

// `streams` has one a tile; its arrays must live as long as the run. `dram` is null without a DRAM of bursts.
void* dpu_timing_new(const Time* config, double rate, const Time* dram, const Stream* streams) {
  Config c;
  std::memcpy(&c, config, sizeof(c));
  dpu::dram::Config d;
  if (dram) std::memcpy(&d, dram, sizeof(d));
  return new Run(c, rate, dram ? &d : nullptr, streams);
}

void dpu_timing_free(void* run) { delete static_cast<Run*>(run); }

// Fills `start`, `begin`, `issued` and `visible` of all streams. -1: engines wait for ever.
Time dpu_timing_run(void* run) { return static_cast<Run*>(run)->run(); }

// Of one tile: `busy` 5 engines; `cycles` and `order` 5 engines x reasons, `order` -1 behind the last reason.
void dpu_timing_tile(void* run, Time tile, Time* busy, Time* cycles, Time* order) {
  const TileState& t = static_cast<Run*>(run)->tiles[static_cast<std::size_t>(tile)];
  std::copy(std::begin(t.busy), std::end(t.busy), busy);
  for (int e = 0; e < dpu::timing::kEngines; ++e) {
    const Stalls& s = e == dpu::timing::kCtrl ? t.ctrl_stalls : t.engines[e].stalls;
    std::copy(std::begin(s.cycles), std::end(s.cycles), cycles + e * dpu::timing::kReasons);
    for (Time k = 0; k < dpu::timing::kReasons; ++k)
      order[e * dpu::timing::kReasons + k] = k < s.count ? s.order[k] : -1;
  }
}

// What waits for ever: of each of 4 engines its oldest word or -1, and what that waits for (`Run::missing`).
void dpu_timing_waiting(void* run, Time tile, Time* word, Time* missing) {
  Run& r = *static_cast<Run*>(run);
  for (EngineState& e : r.tiles[static_cast<std::size_t>(tile)].engines) {
    word[e.kind] = e.queue.empty() ? -1 : e.queue.front().number;
    missing[e.kind] = e.queue.empty() ? -1 : r.missing(e);
  }
}

// The log of a fluid (cycle, rate), or the data phases of bursts (begin, end, size): how many, and a copy.
Time dpu_timing_log_size(void* run) {
  const Run& r = *static_cast<Run*>(run);
  return static_cast<Time>(r.bursts ? r.bursts->flows.size() : r.fluid->log.size());
}

void dpu_timing_log(void* run, Time* cycles, double* rates) {
  for (const auto& entry : static_cast<Run*>(run)->fluid->log) {
    *cycles++ = entry.cycle;
    *rates++ = entry.rate;
  }
}

void dpu_timing_flows(void* run, Time* out) {
  const auto& flows = static_cast<Run*>(run)->bursts->flows;
  if (!flows.empty()) std::memcpy(out, flows.data(), flows.size() * sizeof(flows[0]));
}

void dpu_timing_channel(void* run, Time channel, Time* out) {
  const dpu::dram::Counters c = static_cast<Run*>(run)->bursts->model.counters(static_cast<int>(channel));
  std::memcpy(out, &c, sizeof(c));
}

void dpu_timing_l2(void* run, Time* out) {
  const dpu::dram::L2Counters& c = static_cast<Run*>(run)->bursts->model.l2();
  std::memcpy(out, &c, sizeof(c));
}

}
