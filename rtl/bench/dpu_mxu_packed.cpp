// Drives dpu_mxu_packed_tb: batches of activation rows against one set of weights, both results to the caller.

#include <cstdint>
#include <cstring>

#include "Vtop.h"
#include "verilated.h"

extern "C" {

// `weights` are rows x 2 int8, `acts` count x rows int8, `sums` count x 2 int32 from above. Results: count x 2 int32.
void packed_run(int64_t rows, const uint8_t* weights, int64_t count, const uint8_t* acts, const uint32_t* sums,
                uint32_t* packed, uint32_t* cells) {
  static Vtop t;
  auto tick = [] {
    t.clk_i = 0;
    t.eval();
    t.clk_i = 1;
    t.eval();
  };
  t.valid_i = t.swap_i = 0;
  for (int64_t r = 0; r < rows; r++) {
    t.load_i = 1 << r;
    t.wgt_i = weights[2 * r] | weights[2 * r + 1] << 8;
    tick();
  }
  t.load_i = 0;
  t.swap_i = 1;
  tick();
  t.swap_i = 0;
  for (int64_t i = 0; i < count + rows; i++) {
    t.valid_i = i < count;
    if (i < count) {
      std::memcpy(&t.act_i, acts + i * rows, rows);
      std::memcpy(&t.sum_i, sums + 2 * i, 8);
    }
    tick();
    if (i >= rows) {
      std::memcpy(packed + 2 * (i - rows), &t.packed_o, 8);
      std::memcpy(cells + 2 * (i - rows), &t.cells_o, 8);
    }
  }
}

}  // extern "C"
