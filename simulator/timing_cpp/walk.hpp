// Where an MM word reads in each cycle: the walk of rtl/doc/dpu_mxu.md, computed when asked for. As timing_walk.py.

#ifndef DPU_TIMING_WALK_HPP
#define DPU_TIMING_WALK_HPP

#include <algorithm>

#include "timing.hpp"

namespace dpu::timing {

// The reads of one MM word at the port of ACT or of ACC: an address a cycle, weight tile after weight tile. Reductions
// are walked innermost, over (ky, kx, c), then columns; a tile reads `rows` addresses, (y, x), and takes `each` cycles.
// ACC is read only for tiles that add to sums that are there.
struct Walk {
  struct Segment {
    Time bank;  // that is read, or -1
    Time until;  // from this cycle on it may be another one
  };

  const MmWork* work = nullptr;
  Time end = 0;  // cycle behind the last tile
  Time each = 0;
  Time low = 0, high = 0;  // banks that the word touches
  Time size = 0;  // words of a bank
  bool act = false;  // else ACC

  bool touches(Time bank) const { return low <= bank && bank <= high; }

  // The bank that is read in cycle `t`.
  Segment segment(Time t) const {
    const MmWork& w = *work;
    Time start = end - w.tiles * each;
    const Time j = std::min(std::max<Time>(t - start, 0) / each, w.tiles - 1);
    start += j * each;
    const Time row = std::max<Time>(t - start, 0);
    const Time n = j / w.k, k = j % w.k;
    if (!act && !w.adds && !k) return {-1, start + each};
    if (row >= w.rows) return {-1, start + each};
    if (low == high) {
      if (w.rows < each) return {low, start + w.rows};
      return {low, act || w.adds ? end : start + (w.k - k) * each};
    }
    if (!act) {
      const Time first = w.first + n * w.an, bank = (first + row) / size;
      return {bank, start + std::min(w.rows, (bank + 1) * size - first)};
    }
    const Time c = k % w.nc, rest = k / w.nc;
    const Time base = w.act + c * w.sc + rest % w.nkx * w.skx + rest / w.nkx * w.sky;
    const Time y = row / w.nx, x = row % w.nx;
    const Time line = base + y * w.sy, reach = (w.nx - 1) * w.sx;
    const Time bank = (line + x * w.sx) / size, limit = (bank + 1) * size;
    if (line + reach >= limit)  // the bank changes in this line
      return {bank, start + row + (limit - line - x * w.sx + w.sx - 1) / w.sx};
    if (line < bank * size) return {bank, start + (y + 1) * w.nx};  // it did
    Time last = w.rows / w.nx - 1;
    if (w.sy) last = std::min(last, (limit - 1 - reach - base) / w.sy);
    return {bank, start + (last + 1) * w.nx};
  }
};

}  // namespace dpu::timing

#endif
