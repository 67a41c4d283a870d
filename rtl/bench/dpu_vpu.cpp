// Runs lists of VEC words on dpu_vpu with scratchpads and refused ports: a C interface for ctypes (tests/rtl/vpu.py).
// What a read port shows in a cycle without an answer is noise, and so is what lies beyond the end of PARAM.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

extern "C" {

// Everything a run is given and gives; the same fields, in order, in tests/rtl/vpu.py.
struct Run {
  // given
  uint64_t words;
  const uint8_t* word;   // 64 bytes each
  const uint8_t* drain;  // of each word: wait until all before are done
  uint64_t cols, lanes;
  uint8_t *act, *acc, *vbuf, *param;
  uint64_t act_words, acc_words, vbuf_words, param_words;
  const uint8_t* tables;  // 2 images of 4160 bytes; null: as they are
  uint64_t reset;
  uint64_t hold_acc, hold_param, hold_start;  // of 256 cycles, how many are refused
  uint64_t seed;
  uint64_t stop_at;  // raise stop_i in this cycle; 0: never
  uint64_t limit;    // cycles
  // got
  uint64_t* started;  // cycle of each word's start, done
  uint64_t* done;
  uint64_t done_count, cycles, busy, stall, overflows, nans;
  uint64_t acc_reads, vbuf_reads, param_reads, red_reads, param_writes;
  uint64_t fault, fault_code, fault_index, fault_address;
  char text[256];
};
}

namespace {

std::unique_ptr<VerilatedContext> context;
std::unique_ptr<Vtop> top;
uint64_t noise_state = 1;

uint32_t noise() {
  noise_state ^= noise_state << 13;
  noise_state ^= noise_state >> 7;
  noise_state ^= noise_state << 17;
  return static_cast<uint32_t>(noise_state >> 24);
}

template <typename Port>
void show(Port& port, const uint8_t* data, size_t bytes) {
  std::memcpy(&port, data, bytes);
}

template <typename Port>
void show_noise(Port& port, size_t bytes) {
  uint8_t data[4096];
  for (size_t k = 0; k < bytes; k += 4) {
    const uint32_t x = noise();
    std::memcpy(data + k, &x, 4);
  }
  std::memcpy(&port, data, bytes);
}

template <typename Port>
void take(const Port& port, uint8_t* data, size_t bytes) {
  std::memcpy(data, &port, bytes);
}

void clock(bool level) {
  top->clk_i = level;
  top->eval();
  context->timeInc(1);
}

void idle() {
  top->stop_i = 0;
  top->start_valid_i = 0;
  top->acc_rd_ready_i = 0;
  top->param_wr_ready_i = 0;
  top->table_wr_valid_i = 0;
}

void load_tables(const uint8_t* images) {
  for (int slot = 0; slot < 2; ++slot) {
    const uint8_t* image = images + slot * 4160;
    if (image[0] == 0) continue;
    for (int k = -1; k < 256; ++k) {
      top->table_wr_valid_i = 1;
      top->table_wr_slot_i = slot;
      top->table_wr_header_i = k < 0;
      top->table_wr_index_i = k < 0 ? 0 : k;
      show(top->table_wr_data_i, k < 0 ? image : image + 64 + 16 * k, 16);
      clock(false);
      clock(true);
    }
  }
  top->table_wr_valid_i = 0;
}

struct Read {
  bool valid = false;
  uint64_t address = 0;
};

}  // namespace

extern "C" void vpu_run(Run* r) {
  if (!top) {
    context = std::make_unique<VerilatedContext>();
    top = std::make_unique<Vtop>(context.get());
    r->reset = 1;
  }
  noise_state = r->seed * 2654435761u + 88172645463325252ull;
  r->text[0] = 0;
  auto fail = [&](const std::string& s) {
    if (!r->text[0]) std::snprintf(r->text, sizeof r->text, "cycle %llu: %s",
                                   static_cast<unsigned long long>(r->cycles), s.c_str());
  };
  idle();
  if (r->reset) {
    top->rst_ni = 0;
    clock(false);
    clock(true);
    clock(false);
    top->rst_ni = 1;
  }
  if (r->tables) load_tables(r->tables);

  const size_t acc_bytes = 4 * r->cols, vbuf_bytes = 2 * r->cols, act_bytes = r->cols, line = 4 * r->lanes;
  uint64_t next = 0;
  r->cycles = r->done_count = r->busy = r->stall = r->overflows = r->nans = r->fault = 0;
  r->acc_reads = r->vbuf_reads = r->param_reads = r->red_reads = r->param_writes = 0;
  bool offered = false;
  uint64_t after = 0;
  while (r->cycles < r->limit && !r->text[0] && (r->done_count < r->words || after < 4) && after < 400) {
    const bool may = next < r->words && (offered || noise() % 256 >= r->hold_start) &&
                     (!r->drain[next] || r->done_count == next);
    offered = may;
    top->start_valid_i = may;
    if (may) {
      show(top->word_i, r->word + 64 * next, 64);
      top->index_i = static_cast<uint32_t>(next);
    }
    top->acc_rd_ready_i = noise() % 256 >= r->hold_acc;
    top->param_wr_ready_i = noise() % 256 >= r->hold_param;
    top->stop_i = (r->stop_at && r->cycles >= r->stop_at) || r->fault;
    clock(false);
    // Sample.
    if (top->start_valid_i && top->start_ready_o) {
      if (r->started) r->started[next] = r->cycles;
      ++next;
      offered = false;
    }
    if (top->done_o) {
      if (r->done_count >= next) fail("done without a word");
      else if (r->done) r->done[r->done_count] = r->cycles;
      ++r->done_count;
    }
    r->busy += top->busy_o;
    r->stall += top->stall_o;
    r->overflows += top->overflows_o;
    r->nans += top->nans_o;
    if (r->done_count == r->words || r->fault) ++after;
    if (r->done_count == r->words && top->done_o == 0 && after > 1 && top->busy_o) fail("busy after the last done");
    // Fault is a packed struct: valid, code (8), index (32), address (64).
    {
      uint8_t f[16] = {};
      take(top->fault_o, f, 14);
      if (f[13] & 1) {
        if (r->fault) fail("two faults");
        r->fault = 1;
        std::memcpy(&r->fault_address, f, 8);
        r->fault_index = f[8] | f[9] << 8 | f[10] << 16 | static_cast<uint64_t>(f[11]) << 24;
        r->fault_code = f[12];
      }
    }
    Read acc, vbuf, param, red;
    auto inside = [&](const char* name, uint64_t at, uint64_t n, uint64_t words) {
      if (at + n > words) fail(std::string(name) + " address " + std::to_string(at));
      return at + n <= words;
    };
    if (top->acc_rd_valid_o && top->acc_rd_ready_i) {
      acc = {inside("ACC", top->acc_rd_addr_o, 1, r->acc_words), top->acc_rd_addr_o};
      ++r->acc_reads;
    }
    if (top->vbuf_rd_valid_o) {
      vbuf = {inside("VBUF", top->vbuf_rd_addr_o, 1, r->vbuf_words), top->vbuf_rd_addr_o};
      ++r->vbuf_reads;
    }
    if (top->param_rd_valid_o) {
      param = {inside("PARAM", top->param_rd_addr_o, 1, r->param_words), top->param_rd_addr_o};
      ++r->param_reads;
    }
    if (top->red_rd_valid_o) {
      red = {inside("PARAM", top->red_rd_addr_o, 1, r->param_words), top->red_rd_addr_o};
      ++r->red_reads;
    }
    std::vector<uint8_t> acc_data(acc_bytes), vbuf_data(vbuf_bytes), param_data(line), red_data(line);
    if (acc.valid) std::memcpy(acc_data.data(), r->acc + acc.address * acc_bytes, acc_bytes);
    if (vbuf.valid) std::memcpy(vbuf_data.data(), r->vbuf + vbuf.address * vbuf_bytes, vbuf_bytes);
    auto scalars = [&](const Read& read, std::vector<uint8_t>& data) {
      for (uint64_t l = 0; l < r->lanes; ++l) {
        uint32_t x = noise();
        if (read.address + l < r->param_words) std::memcpy(&x, r->param + 4 * (read.address + l), 4);
        std::memcpy(data.data() + 4 * l, &x, 4);
      }
    };
    if (param.valid) scalars(param, param_data);
    if (red.valid) scalars(red, red_data);
    if (top->vbuf_wr_valid_o && inside("VBUF write", top->vbuf_wr_addr_o, 1, r->vbuf_words)) {
      take(top->vbuf_wr_data_o, r->vbuf + top->vbuf_wr_addr_o * vbuf_bytes, vbuf_bytes);
    }
    if (top->act_wr_valid_o && inside("ACT write", top->act_wr_addr_o, 1, r->act_words)) {
      take(top->act_wr_data_o, r->act + top->act_wr_addr_o * act_bytes, act_bytes);
    }
    if (top->param_wr_valid_o && top->param_wr_ready_i) {
      ++r->param_writes;
      const uint64_t n = top->param_wr_count_o;
      if (n == 0 || n > r->lanes) fail("a PARAM write of " + std::to_string(n));
      else if (inside("PARAM write", top->param_wr_addr_o, n, r->param_words)) {
        take(top->param_wr_data_o, r->param + 4 * top->param_wr_addr_o, 4 * n);
      }
    }
    clock(true);
    if (acc.valid) show(top->acc_rd_data_i, acc_data.data(), acc_bytes);
    else show_noise(top->acc_rd_data_i, acc_bytes);
    if (vbuf.valid) show(top->vbuf_rd_data_i, vbuf_data.data(), vbuf_bytes);
    else show_noise(top->vbuf_rd_data_i, vbuf_bytes);
    if (param.valid) show(top->param_rd_data_i, param_data.data(), line);
    else show_noise(top->param_rd_data_i, line);
    if (red.valid) show(top->red_rd_data_i, red_data.data(), line);
    else show_noise(top->red_rd_data_i, line);
    ++r->cycles;
  }
  if (r->cycles >= r->limit) fail("no end");
}
