// The MXU: the equations of rtl/doc/dpu_mxu.md, whose names they keep. As timing_mxu.py.

#ifndef DPU_TIMING_MXU_HPP
#define DPU_TIMING_MXU_HPP

#include <algorithm>

#include "ports.hpp"

namespace dpu::timing {

// Cycles of one word.
struct MmTimes {
  Time next;  // the next word may start
  Time first;  // its first row enters
  Time after;  // the row behind its last could enter
  Time done;
};

// One tile's MXU. It never waits for a port, so all of a word is known when it starts.
class Mxu {
 public:
  Mxu(const Config& c, const Stream& stream, SharedPort* ports, ParamWrites& param)
      : c_(c), stream_(stream), ports_(ports), param_(param) {}

  // Word `i` starts; its use of ports is booked.
  MmTimes start(Time i, Time now) {
    const MmWork& w = stream_.mm[stream_.slot[i]];
    const Time r = c_.rows, g = c_.blocks;
    const Time moved = std::max(now + c_.mxu_check, release_);
    const Time taken = std::max(moved + 1, last_row_);
    Time t0 = std::max({t0_ + r, t1_ + g, moved + 1});
    const Time behind = last_acc_ - w.first;
    const Time gap = w.accumulate && 0 <= behind && behind <= 1 ? 3 : 1;
    Time t1 = std::max({t0 + 1 + (w.column ? c_.column : g), last_row_ + gap, taken + 1});
    const Time first = t1, each = std::max(w.rows, r);
    for (Time left = w.tiles - 1; left > 0;) {
      const Time next0 = std::max(t0 + r, t1 + g), next1 = std::max(next0 + 1 + g, t1 + w.rows);
      const bool even = next0 - t0 == next1 - t1 && next0 - t0 == each;  // from here on, all tiles take the same
      const Time steps = even ? left : 1;
      t0 += steps * (next0 - t0);
      t1 += steps * (next1 - t1);
      left -= steps;
    }
    t0_ = t0;
    t1_ = t1;
    last_row_ = t1 + w.rows - 1;
    last_acc_ = w.last;
    release_ = std::max(t0 + r - 1, taken);
    book(i, w, now, first, each);
    return {moved, first, t1 + each, last_row_ + c_.drain};
  }

 private:
  void book(Time i, const MmWork& w, Time now, Time first, Time each) {
    const Time end = t1_ + each;
    if (const Spans spans = spans_of(stream_, i, kActRead)) ports_[kActRead].walk(now, first, end, each, true, w, spans);
    if (w.adds || w.k > 1)
      if (const Spans spans = spans_of(stream_, i, kAccRead)) {
        const Time late = c_.rows + c_.blocks;
        ports_[kAccRead].walk(now, first + late, end + late, each, false, w, spans);
      }
    if (w.maxima) param_.book(end + c_.drain, each, w);
  }

  const Config& c_;
  const Stream& stream_;
  SharedPort* ports_;
  ParamWrites& param_;
  Time release_ = -1;  // the loader may take another word
  Time t0_ = -kUnknown, t1_ = -kUnknown;  // of the latest weight tile: first weight address, first ACT address
  Time last_row_ = -1;
  Time last_acc_ = -1;  // ACC address of that row
};

}  // namespace dpu::timing

#endif
