// Ports that two engines share: when the one that goes first uses a bank, what the other gets. As timing_ports.py.

#ifndef DPU_TIMING_PORTS_HPP
#define DPU_TIMING_PORTS_HPP

#include <algorithm>
#include <cmath>

#include "walk.hpp"

namespace dpu::timing {

constexpr double kRounding = 1e-6;  // of a cycle

// One port of a buffer of one tile.
class SharedPort {
 public:
  explicit SharedPort(Time bank_words) : bank_words_(bank_words) {}

  Time working = -1;  // since when the engine that goes second works, or -1

  // Book `words` accesses, spread evenly over the cycles and over the addresses. Returns the number of the booking.
  std::size_t use(Time now, Time begin, Time end, double words, Spans spans) {
    forget(now);
    const double rate = words / static_cast<double>(std::max<Time>(1, end - begin));
    Use& u = uses_.grow();
    u.begin = begin;
    u.end = end;
    u.walk.work = nullptr;
    u.banks.clear();
    each_bank(spans, [&](Time bank, double part) {
      for (Bank& b : u.banks) {
        if (b.number != bank) continue;
        b.rate += part * rate;
        return;
      }
      u.banks.push_back({bank, part * rate});
    });
    return uses_.end() - 1;
  }

  // Book the reads of an MM word, cycle by cycle; the spans are where they may be.
  void walk(Time now, Time begin, Time end, Time each, bool act, const MmWork& work, Spans spans) {
    forget(now);
    Time lo = spans.first->lo, hi = spans.first->hi;
    for (const Span* s = spans.first + 1; s != spans.last; ++s) lo = std::min(lo, s->lo), hi = std::max(hi, s->hi);
    Use& u = uses_.grow();
    u.begin = begin;
    u.end = end;
    u.walk = {&work, end, each, lo / bank_words_, (hi - 1) / bank_words_, bank_words_, act};
  }

  // A booking lasts longer, if it still matters.
  void extend(std::size_t number, Time cycles) {
    if (number >= uses_.begin()) uses_[number].end += cycles;
  }

  // When work ends that would take `cycles`, if its `words` accesses get what is left of each bank in turn. `held` cycles
  // of work have been read ahead, up to `room` can be: so much waiting does not show.
  Time finish(Time begin, Time cycles, Time words, Spans spans, double held, double room) const {
    if (uses_.empty() || !cycles) return begin + cycles;
    const double need = static_cast<double>(words) / static_cast<double>(cycles);
    const double gain = 1.0 / need - 1.0;  // cycles of work that are read ahead in a free cycle
    double t = static_cast<double>(begin);
    each_bank(spans, [&](Time bank, double part) {
      double work = part * static_cast<double>(cycles);
      for (std::size_t i = uses_.begin(); i != uses_.end(); ++i) {
        const Use& u = uses_[i];
        const double first = static_cast<double>(u.begin), last = static_cast<double>(u.end);
        if (last <= t) continue;
        const Bank* used = u.walk.work ? nullptr : u.find(bank);
        if (u.walk.work ? !u.walk.touches(bank) : !used) continue;
        if (work <= first - t) break;
        if (first > t) {
          held = std::min(room, held + (first - t) * gain);
          work -= first - t;
          t = first;
        }
        if (used) {
          const double rate = std::min(1.0, std::max(0.0, 1.0 - used->rate) / need);
          if (work <= rate * (last - t)) {
            work /= rate;
            break;
          }
          work -= rate * (last - t);
          t = last;
          continue;
        }
        bool through = false;
        while (t < last && !through) {
          const Walk::Segment s = u.walk.segment(static_cast<Time>(t));
          const double until = static_cast<double>(std::min(s.until, u.end));
          const bool taken = s.bank == bank;
          const double most = taken ? std::min(held, until - t) : until - t;
          if (work <= most) {
            through = true;
            continue;
          }
          work -= most;
          held = taken ? held - most : std::min(room, held + most * gain);
          t = until;
        }
        if (through) break;
      }
      t += work;
    });
    return static_cast<Time>(std::ceil(t - kRounding));
  }

 private:
  struct Bank {
    Time number;
    double rate;
  };
  struct Use {  // the engine that goes first takes, in these cycles, that part of each bank's, or walks
    Time begin = 0, end = 0;
    Walk walk;
    std::vector<Bank> banks;
    const Bank* find(Time bank) const {
      for (const Bank& b : banks)
        if (b.number == bank) return &b;
      return nullptr;
    }
  };

  void forget(Time now) {
    const Time before = working >= 0 ? working : now;
    while (!uses_.empty() && uses_.front().end < before) uses_.pop();
  }

  // The banks under the intervals in turn, each with its part of all that is used: `Ports.banks` of ir/cost.py.
  template <class F>
  void each_bank(Spans spans, F&& f) const {
    Time total = 0;
    for (const Span* s = spans.first; s != spans.last; ++s) total += s->hi - s->lo;
    for (const Span* s = spans.first; s != spans.last; ++s)
      for (Time bank = s->lo / bank_words_; bank <= (s->hi - 1) / bank_words_; ++bank) {
        const Time lo = std::max(s->lo, bank * bank_words_), hi = std::min(s->hi, (bank + 1) * bank_words_);
        f(bank, static_cast<double>(hi - lo) / static_cast<double>(total));
      }
  }

  Time bank_words_;
  Ring<Use> uses_;
};

// The write port of PARAM of one tile: a row maximum a cycle, and the VPU's results, which wait for them. Only results
// that take all banks do here: what has fewer scalars finds its banks free before long.
class ParamWrites {
 public:
  // Book the row maxima of an MM word: `rows` cycles in the last of each `k` tiles of `each` cycles. `end` is one past
  // the last tile, seen from this port.
  void book(Time end, Time each, const MmWork& w) {
    for (Time n = w.tiles / w.k; n > 0; --n) {
      const Time begin = end - ((n - 1) * w.k + 1) * each;
      if (!maxima_.empty() && maxima_[maxima_.end() - 1].end == begin)
        maxima_[maxima_.end() - 1].end = begin + w.rows;
      else
        maxima_.push({begin, begin + w.rows});
    }
  }

  struct Last {
    Time written;
    Time later;  // than it would be made
  };

  // When the last of `writes` results is written that are there evenly from cycle `first` to `last`, and how much later
  // it is made: nothing is while `room` results wait.
  Last last(Time first, Time last, Time writes, Time room) {
    first = std::min(first, last + 1 - writes);
    while (!maxima_.empty() && maxima_.front().end <= first) maxima_.pop();
    const double rate = static_cast<double>(writes) / static_cast<double>(last + 1 - first);
    const double most = static_cast<double>(room);
    double stop = static_cast<double>(last + 1), t = static_cast<double>(std::max(first, late_ + 1));
    // Results that are there before cycle t, and not written.
    double waiting = std::min(most, rate * (std::min(t, stop) - static_cast<double>(first)));
    for (std::size_t i = maxima_.begin(); i != maxima_.end(); ++i) {
      const double begin = static_cast<double>(maxima_[i].begin), end = static_cast<double>(maxima_[i].end);
      if (end <= t) continue;
      if (begin > t) {
        const double more = std::max(0.0, std::min(begin, stop) - t);
        waiting = std::max(0.0, waiting - (1.0 - rate) * more);
        t += more;
        if (t >= stop && waiting <= begin - t) break;
        waiting -= begin - t;
        t = begin;
      }
      const double more = std::max(0.0, std::min(end, stop) - t);
      const double held = std::max(0.0, more - (most - waiting) / rate);
      waiting += rate * (more - held);
      stop += held;
      t = end;
    }
    if (t < stop) {
      waiting = std::max(0.0, waiting - (1.0 - rate) * (stop - t));
      t = stop;
    }
    const Time done = static_cast<Time>(std::ceil(t + waiting - kRounding)) - 1;
    if (done > last) late_ = done;
    return {done, static_cast<Time>(std::ceil(stop - kRounding)) - last - 1};
  }

 private:
  struct Maxima {
    Time begin, end;  // one past the last cycle
  };
  Ring<Maxima> maxima_;
  Time late_ = -1;  // the last write that had to wait
};

}  // namespace dpu::timing

#endif
