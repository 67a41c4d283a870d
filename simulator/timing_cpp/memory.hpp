// How transfers share DRAM: `ideal`, `simple`, or bursts on banks. As memory.py.

#ifndef DPU_TIMING_MEMORY_HPP
#define DPU_TIMING_MEMORY_HPP

#include <algorithm>
#include <cmath>

#include "timing.hpp"

namespace dpu::timing {

constexpr Time kNoTransfer = -1;

// A fluid: a transfer is a number of bytes, and rates change when one begins or ends. A key names one at a time.
class Fluid {
 public:
  struct Rate {  // bytes a cycle from then on
    Time cycle;
    double rate;
  };

  virtual ~Fluid() = default;

  // Begin to move `size` bytes at no more than `cap` bytes a cycle.
  virtual void start(Time now, Time key, Time size, double cap) = 0;

  // The cycle at which a transfer ends if nothing else begins before, or kNoTransfer.
  virtual Time next() const = 0;

  // Keys of the transfers that have ended by `now`, in the order in which they began.
  virtual const std::vector<Time>& finish(Time now) = 0;

  std::vector<Rate> log = {{0, 0.0}};

 protected:
  static constexpr double kEpsilon = 1e-6;  // bytes: a remainder that is only rounding
  std::vector<Time> done_;
};

// Every transfer runs at its own cap.
class IdealMemory : public Fluid {
 public:
  void start(Time now, Time key, Time size, double cap) override {
    const Time end = now + static_cast<Time>(std::ceil(static_cast<double>(size) / cap - kEpsilon));
    ends_.push_back({end, count_++, key, cap});
    std::push_heap(ends_.begin(), ends_.end(), later);
    log.push_back({now, log.back().rate + cap});
  }

  Time next() const override { return ends_.empty() ? kNoTransfer : ends_.front().end; }

  const std::vector<Time>& finish(Time now) override {
    done_.clear();
    while (!ends_.empty() && ends_.front().end <= now) {
      const Transfer t = ends_.front();
      std::pop_heap(ends_.begin(), ends_.end(), later);
      ends_.pop_back();
      done_.push_back(t.key);
      log.push_back({now, ends_.empty() ? 0.0 : std::max(0.0, log.back().rate - t.cap)});
    }
    return done_;
  }

 private:
  struct Transfer {
    Time end, number, key;
    double cap;
  };
  static bool later(const Transfer& a, const Transfer& b) {
    return a.end != b.end ? a.end > b.end : a.number > b.number;
  }

  std::vector<Transfer> ends_;
  Time count_ = 0;
};

// One rate for all transfers together, shared max-min fairly: nobody gets more than its cap, and what one leaves is
// divided equally among the others.
class FairMemory : public Fluid {
 public:
  explicit FairMemory(double rate) : rate_(rate) {}

  void start(Time now, Time key, Time size, double cap) override {
    advance(now);
    active_.push_back({key, static_cast<double>(size), cap, 0.0});
    share();
  }

  Time next() const override {
    if (active_.empty()) return kNoTransfer;
    Time soonest = kUnknown;
    for (const Transfer& t : active_)
      soonest = std::min(soonest, std::max<Time>(0, static_cast<Time>(std::ceil((t.left - kEpsilon) / t.rate))));
    return now_ + soonest;
  }

  const std::vector<Time>& finish(Time now) override {
    advance(now);
    done_.clear();
    for (const Transfer& t : active_)
      if (t.left <= kEpsilon) done_.push_back(t.key);
    const auto ended = [](const Transfer& t) { return t.left <= kEpsilon; };
    active_.erase(std::remove_if(active_.begin(), active_.end(), ended), active_.end());
    if (!done_.empty()) share();
    return done_;
  }

 private:
  struct Transfer {
    Time key;
    double left, cap, rate;
  };

  void advance(Time now) {
    for (Transfer& t : active_) t.left -= t.rate * static_cast<double>(now - now_);
    now_ = now;
  }

  void share() {
    by_cap_.clear();
    for (std::size_t i = 0; i != active_.size(); ++i) {  // by cap, then by age
      std::size_t at = by_cap_.size();
      while (at && active_[by_cap_[at - 1]].cap > active_[i].cap) --at;
      by_cap_.insert(by_cap_.begin() + static_cast<std::ptrdiff_t>(at), i);
    }
    double left = rate_;
    std::size_t waiting = active_.size();
    for (const std::size_t i : by_cap_) {
      active_[i].rate = std::min(active_[i].cap, left / static_cast<double>(waiting));
      left -= active_[i].rate;
      --waiting;
    }
    log.push_back({now_, active_.empty() ? 0.0 : rate_ - left});
  }

  double rate_;
  Time now_ = 0;
  std::vector<Transfer> active_;
  std::vector<std::size_t> by_cap_;
};

// Bursts of the ports of all tiles on the channels of a DRAM: the model of `dram/`, and which transfers flowed when.
class BurstMemory {
 public:
  struct Flow {
    Time begin, end, size;
  };

  explicit BurstMemory(const dram::Config& config)
      : model(config), flowing_(static_cast<std::size_t>(config.ports)) {}

  dram::Model model;
  std::vector<Flow> flows;  // data phases, in the order in which they ended

  // Begin to move runs in no fewer than `floor` cycles; `cached`: through the L2, if there is one.
  void start(Time now, Time key, bool write, Time floor, Time address, Time inner, const Time n[3],
             const Time stride[3], bool cached = false) {
    if (write) flowing_[static_cast<std::size_t>(key)] = {now, 0, inner * n[0] * n[1] * n[2]};
    model.request(now, static_cast<int>(key), write, floor, address, inner, n, stride, cached);
  }

  // The scratchpad takes the data of the port's oldest read, `size` bytes, from now on.
  void open(Time now, Time key, Time size) {
    flowing_[static_cast<std::size_t>(key)] = {now, 0, size};
    model.open(now, static_cast<int>(key));
  }

  // Advance to cycle `limit`, or to the first thing to report.
  dram::Report step(Time limit) {
    const dram::Report r = model.step(std::min(limit, kLimit));
    if (r.note == dram::Note::kLast) {
      const Flow& f = flowing_[static_cast<std::size_t>(r.who)];
      flows.push_back({f.begin, r.cycle, f.size});
    }
    return r;
  }

 private:
  static constexpr Time kLimit = Time{1} << 44;  // cycles; its units fit 64 bits

  std::vector<Flow> flowing_;
};

}  // namespace dpu::timing

#endif
