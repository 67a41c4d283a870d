// Drives dpu_vectors_tb from arrays: a C interface for ctypes (tests/rtl/vectors.py).
#include <cstdint>
#include <cstring>

#include "Vtop.h"
#include "verilated.h"

namespace {

Vtop& top() {
  static VerilatedContext context;
  static Vtop instance{&context};
  return instance;
}

void clock(Vtop& t) {
  t.clk_i = 0;
  t.eval();
  t.clk_i = 1;
  t.eval();
}

// xorshift: a stream of arguments with holes in it.
uint32_t next(uint32_t& s) {
  s ^= s << 13;
  s ^= s >> 17;
  s ^= s << 5;
  return s;
}

}  // namespace

extern "C" {

// y[k] = op(a[k], b[k]), each function without a clock; `sign` (bit 32 of a) may be null.
void vectors_combinational(int op, uint64_t n, const uint32_t* a, const uint32_t* b, const uint8_t* sign, uint32_t* y) {
  Vtop& t = top();
  t.op_i = static_cast<uint8_t>(op);
  for (uint64_t k = 0; k < n; ++k) {
    t.a_i = a[k];
    t.b_i = b[k];
    t.sign_i = sign ? sign[k] : 0;
    t.eval();
    y[k] = t.y_o;
  }
}

void vectors_reset() {
  Vtop& t = top();
  t.rst_ni = 0;
  t.func_valid_i = t.recip_valid_i = t.table_wr_valid_i = 0;
  clock(t);
  t.rst_ni = 1;
  clock(t);
}

// Write a table image of 64 + 256 * 16 bytes into a slot.
void vectors_table(int slot, const uint8_t* image) {
  Vtop& t = top();
  t.table_wr_valid_i = 1;
  t.table_wr_slot_i = static_cast<uint8_t>(slot);
  t.table_wr_header_i = 1;
  std::memcpy(&t.table_wr_data_i, image, 16);
  clock(t);
  t.table_wr_header_i = 0;
  for (int k = 0; k < 256; ++k) {
    t.table_wr_index_i = static_cast<uint8_t>(k);
    std::memcpy(&t.table_wr_data_i, image + 64 + 16 * k, 16);
    clock(t);
  }
  t.table_wr_valid_i = 0;
}

// Arguments through a unit (0: dpu_func, 1: dpu_recip) with their codes (func, or rsqrt) and slots. `holes` of 256
// cycles bring no argument. Returns 0, or 1 + the cycle in which valid_o was not valid_i FuncLatency cycles before.
uint64_t vectors_unit(int unit, uint64_t n, const uint8_t* code, const uint8_t* slot, const uint32_t* x, int holes,
                      uint32_t* y) {
  Vtop& t = top();
  const uint64_t latency = t.latency_o;
  uint64_t sent = 0, got = 0, cycle = 0, history = 0;
  uint32_t seed = 2463534242u;
  for (; got < n; ++cycle) {
    const bool valid = sent < n && (holes == 0 || static_cast<int>(next(seed) >> 24) >= holes);
    t.func_valid_i = valid && unit == 0;
    t.recip_valid_i = valid && unit == 1;
    if (valid) {
      t.func_i = code[sent];
      t.rsqrt_i = code[sent] & 1;
      t.slot_i = slot[sent];
      t.x_i = x[sent++];
    } else {
      t.x_i = next(seed);
    }
    history = (history << 1) | (valid ? 1 : 0);
    clock(t);
    const bool out = unit == 0 ? t.func_valid_o : t.recip_valid_o;
    if (out != ((history >> (latency - 1)) & 1)) return 1 + cycle;
    if (out) y[got++] = unit == 0 ? t.func_y_o : t.recip_y_o;
  }
  t.func_valid_i = t.recip_valid_i = 0;
  return 0;
}

}  // extern "C"
