// Instruction fetch: bursts of a tile's stream, ahead of dispatch and ahead of LOAD's data. As timing_fetch.py.

#ifndef DPU_TIMING_FETCH_HPP
#define DPU_TIMING_FETCH_HPP

#include <algorithm>

#include "timing.hpp"

namespace dpu::timing {

// When bursts of words are asked for, and when they come: one word a cycle through the tile's read channel.
class Fetch {
 public:
  Fetch(const Config& c, Time words) : c_(c), words_(words), bursts_((words + c.fetch_burst - 1) / c.fetch_burst) {
    const Time ahead = std::min(c.fetch_words / c.fetch_burst, bursts_);
    asks.reserve(static_cast<std::size_t>(bursts_));
    arrives.reserve(static_cast<std::size_t>(bursts_));
    for (Time k = 0; k < ahead; ++k) asks.push_back(1 + k);  // the tile starts in cycle 0
  }

  std::vector<Time> asks;
  std::vector<Time> arrives;  // first word of each burst

  // Words of a burst.
  Time length(std::size_t burst) const {
    return std::min(c_.fetch_burst, words_ - static_cast<Time>(burst) * c_.fetch_burst);
  }

  // A word leaves the buffer. Whether a burst is asked for: room for one comes with the last word of another.
  bool dispatched(Time word, Time cycle) {
    if ((word + 1) % c_.fetch_burst || static_cast<Time>(asks.size()) >= bursts_) return false;
    asks.push_back(std::max(asks.back() + 1, cycle + 1));
    return true;
  }

  // The first word of the next burst is here, or as soon as those before have passed.
  void arrive(Time cycle) {
    arrives.push_back(arrives.empty() ? cycle : std::max(cycle, arrives.back() + c_.fetch_burst));
  }

  // The first cycle in which the word can be dispatched.
  Time ready(Time word) const {
    const auto burst = static_cast<std::size_t>(word / c_.fetch_burst);
    return burst < arrives.size() ? arrives[burst] + word % c_.fetch_burst + 1 : kUnknown;
  }

  // The first cycle from this one on in which no instruction passes.
  Time after(Time cycle) const {
    std::size_t k = latest(cycle);
    if (k) --k;
    for (; k < arrives.size() && arrives[k] <= cycle; ++k) cycle = std::max(cycle, arrives[k] + length(k));
    return cycle;
  }

  // How much later a LOAD's data from `begin` to `end` are through, because instructions go first. Where the scratchpad
  // is slower than the bus, LOAD's ring has data for a while.
  Time delay(Time begin, Time end, Time beats) const {
    const Time spare = end - begin <= beats ? 0 : c_.load_ring_beats * (end - begin) / beats;
    Time late = 0;
    for (std::size_t k = latest(begin); k < arrives.size() && arrives[k] < end + late; ++k)
      if (end + late - arrives[k] > spare) late += std::max<Time>(0, length(k) - spare);
    return late;
  }

 private:
  // How many bursts have begun to arrive by then. Questions are about the recent past: look from the end.
  std::size_t latest(Time cycle) const {
    std::size_t k = arrives.size();
    for (int near = 0; near < 8; ++near, --k)
      if (!k || arrives[k - 1] <= cycle) return k;
    const auto stop = arrives.begin() + static_cast<std::ptrdiff_t>(k);
    return static_cast<std::size_t>(std::upper_bound(arrives.begin(), stop, cycle) - arrives.begin());
  }

  const Config& c_;
  Time words_, bursts_;
};

}  // namespace dpu::timing

#endif
