// Ports that two engines share: when the one that goes first uses a bank, what the other gets. As timing_ports.py.

#ifndef DPU_TIMING_PORTS_HPP
#define DPU_TIMING_PORTS_HPP

#include <algorithm>
#include <cmath>

#include "walk.hpp"

namespace dpu::timing {

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
  static constexpr double kRounding = 1e-6;  // of a cycle

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

}  // namespace dpu::timing

#endif
