// Drives a Verilated dpu_mxu over memories of the caller: words in, cycles of start, rows, and done out.
// Memories answer as dpu_scratchpad and dpu_param do: data in the next cycle, the old word on a write in that cycle.

#include <cstdint>
#include <cstring>

#include "Vtop.h"
#include "verilated.h"

namespace {

struct Shape {
  int64_t cols, lanes, act, wgt, acc, param;
};

struct Bench {
  Shape shape;
  uint8_t *act, *wgt;
  uint32_t *acc, *param;
  Vtop top;
  int64_t cycle = 0;
};

}  // namespace

extern "C" {

// What a run reports beside the cycles of each word.
struct Report {
  int64_t cycles, rows, acc_writes, param_writes, last_write, bad_access;
  int64_t fault, code, index, address, fault_cycle;
  int64_t busy, stall;
};

Bench* mxu_new(const Shape* shape, uint8_t* act, uint8_t* wgt, uint32_t* acc, uint32_t* param) {
  return new Bench{*shape, act, wgt, acc, param};
}

void mxu_free(Bench* b) { delete b; }

void mxu_reset(Bench* b) {
  Vtop& t = b->top;
  t.rst_ni = 0;
  t.clk_i = 0;
  t.stop_i = 0;
  t.start_valid_i = 0;
  for (int i = 0; i < 4; i++) {
    t.clk_i = i & 1;
    t.eval();
  }
  t.clk_i = 0;
  t.rst_ni = 1;
  t.eval();
}

// Runs `count` words of 64 bytes. Word i is offered from `gap[i]` cycles after the previous start on, with `drain[i]`
// only when all earlier ones are done. Per word: start, done, and the PARAM and ACC writes up to its done. Per row, for
// the first `row_room`: the cycle of its ACT address. Ends when all are done, on a fault, or after `limit` cycles.
void mxu_run(Bench* b, const uint8_t* words, int64_t count, const int64_t* gap, const uint8_t* drain, int64_t limit,
             int64_t* start, int64_t* done, int64_t* acc_at_done, int64_t* param_at_done, int64_t* row,
             int64_t row_room, Report* r) {
  Vtop& t = b->top;
  const Shape& s = b->shape;
  const size_t word = s.cols, sums = s.cols * 4;
  std::memset(r, 0, sizeof *r);
  r->last_write = -1;
  int64_t started = 0, finished = 0, last_start = 0, idle = 0;
  for (int64_t cycle = 0; cycle < limit; cycle++) {
    const bool offer = started < count && cycle >= last_start + gap[started] &&
                       (!drain[started] || finished == started) && !r->fault;
    t.start_valid_i = offer;
    if (offer) {
      std::memcpy(&t.word_i, words + 64 * started, 64);
      t.index_i = started;
    }
    t.clk_i = 0;
    t.eval();
    if (offer && t.start_ready_o) {
      start[started++] = last_start = cycle;
    }
    // Reads see memory as it was before this cycle's writes.
    const bool act = t.act_rd_valid_o, wgt = t.wgt_rd_valid_o, acc = t.acc_rd_valid_o, param = t.param_rd_valid_o;
    const int64_t act_at = t.act_rd_addr_o, wgt_at = t.wgt_rd_addr_o, acc_at = t.acc_rd_addr_o;
    const int64_t param_at = t.param_rd_addr_o;
    uint8_t act_word[128], wgt_word[128];
    uint32_t acc_word[128], param_word[128];
    if (act) {
      if (act_at >= s.act) r->bad_access++;
      else std::memcpy(act_word, b->act + act_at * word, word);
      if (r->rows < row_room) row[r->rows] = cycle;
      r->rows++;
    }
    if (wgt) {
      if (wgt_at >= s.wgt) r->bad_access++;
      else std::memcpy(wgt_word, b->wgt + wgt_at * word, word);
    }
    if (acc) {
      if (acc_at >= s.acc) r->bad_access++;
      else std::memcpy(acc_word, b->acc + acc_at * s.cols, sums);
    }
    if (param) {
      if (param_at >= s.param) r->bad_access++;
      for (int64_t i = 0; i < s.lanes; i++)
        param_word[i] = param_at + i < s.param ? b->param[param_at + i] : 0xdeadbeef;
    }
    if (t.acc_wr_valid_o) {
      if (t.acc_wr_addr_o >= s.acc) r->bad_access++;
      else std::memcpy(b->acc + t.acc_wr_addr_o * s.cols, &t.acc_wr_data_o, sums);
      r->acc_writes++;
      r->last_write = cycle;
    }
    if (t.param_wr_valid_o) {
      if (t.param_wr_addr_o >= s.param) r->bad_access++;
      else b->param[t.param_wr_addr_o] = t.param_wr_data_o;
      r->param_writes++;
      r->last_write = cycle;
    }
    if (t.done_o && finished < count) {
      done[finished] = cycle;
      acc_at_done[finished] = r->acc_writes;
      param_at_done[finished++] = r->param_writes;
    }
    r->busy += t.busy_o;
    r->stall += t.stall_o;
    // fault_o: valid, code, index, address, from the top bit down
    if ((t.fault_o[3] >> 8 & 1) && !r->fault) {
      r->fault = 1;
      r->code = t.fault_o[3] & 0xff;
      r->index = t.fault_o[2];
      r->address = (int64_t)t.fault_o[1] << 32 | t.fault_o[0];
      r->fault_cycle = cycle;
    }
    t.clk_i = 1;
    t.eval();
    // What was read stays on the port for one cycle; then it is anything.
    if (act) std::memcpy(&t.act_rd_data_i, act_word, word);
    else std::memset(&t.act_rd_data_i, 0x5a, word);
    if (wgt) std::memcpy(&t.wgt_rd_data_i, wgt_word, word);
    else std::memset(&t.wgt_rd_data_i, 0xa5, word);
    if (acc) std::memcpy(&t.acc_rd_data_i, acc_word, sums);
    else std::memset(&t.acc_rd_data_i, 0x77, sums);
    if (param) std::memcpy(&t.param_rd_data_i, param_word, s.lanes * 4);
    else std::memset(&t.param_rd_data_i, 0x7e, s.lanes * 4);
    if (r->fault) t.stop_i = 1;
    r->cycles = cycle + 1;
    // Some cycles more, in which nothing may be written.
    if (finished == count || r->fault) {
      if (++idle == 200) break;
    }
  }
  t.start_valid_i = 0;
}

}  // extern "C"
