// Runs words on dpu_dma_tb with a DRAM, scratchpads and back-pressure: a C interface for ctypes (tests/rtl/dma.py).
// Rules of AXI and of the scratchpad ports are checked in every cycle; the first breach ends the run with its text.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vtop.h"
#include "verilated.h"

extern "C" {

// Everything a run is given and gives; the same fields, in order, in tests/rtl/dma.py.
struct Run {
  // given
  uint64_t store;      // 0: LOAD, 1: STORE
  uint64_t words;
  const uint8_t* word;  // 64 bytes each
  uint64_t cols, lanes;
  uint8_t* dram;
  uint64_t dram_base, dram_bytes;
  const uint64_t* regions;  // limit, base of each of the 8
  uint8_t *act, *wgt, *vbuf, *param;
  uint8_t* tables;          // 2 x (16 + 4096)
  uint64_t latency;         // cycles from address to first data, last data to response
  uint64_t hold_address, hold_data, hold_port, hold_start;  // of 256 cycles, how many are refused
  uint64_t seed;
  uint64_t bad_low, bad_high;  // addresses that answer SLVERR
  uint64_t stop_at;            // raise stop_i in this cycle; 0: never
  uint64_t limit;              // cycles
  // got
  uint64_t* started;  // cycle of each word's start, done; words written (LOAD) by then
  uint64_t* done;
  uint64_t* written_by_done;
  uint64_t done_count, cycles, bursts, beats, bytes;
  uint64_t first_address, last_data;  // cycles
  uint64_t busy, stall;
  uint64_t fault, fault_code, fault_index, fault_address, fault_cycle;
  uint64_t dropped;  // beats without strobes
  char text[256];
};
}

namespace {

struct Burst {
  uint64_t address, beats, ready, sent;
};

struct Random {
  uint64_t s;
  uint32_t next() {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    return static_cast<uint32_t>(s >> 24);
  }
  bool refused(uint64_t of256) { return of256 && (next() & 255) < of256; }
};

class Bench {
 public:
  explicit Bench(Run& run) : r(run), random{run.seed * 2654435761u + 88172645463325252u} {}

  void go() {
    reset();
    uint64_t sent = 0, stopped = 0;
    for (uint64_t c = 1; c <= r.limit; ++c) {
      cycle = c;
      if (r.stop_at && c == r.stop_at) t.stop_i = 1, stopped = c;
      inputs(sent);
      t.eval();
      const bool fire = r.store ? t.store_start_valid_i && t.store_start_ready_o
                                : t.load_start_valid_i && t.load_start_ready_o;
      if (fire) {
        r.started[sent] = c;
        if (t.stop_i) return fail("a word is taken under stop_i");
      }
      outputs(stopped);
      if (r.text[0]) return;
      edge();
      if (fire) ++sent;
      start_held = !fire && (r.store ? t.store_start_valid_i : t.load_start_valid_i);
      r.cycles = c;
      // A fault stops the tile a little later.
      if (r.fault && !t.stop_i && c > r.fault_cycle + 2) t.stop_i = 1, stopped = c;
      const bool idle = reads.empty() && writes.empty() && responses.empty() && !ar.valid && !aw.valid;
      still = idle ? still + 1 : 0;
      if (stopped) {
        if (still > 8) {  // words without a burst may still leave, a cycle each
          if (!(t.load_quiet_o && t.store_quiet_o)) fail("not quiet although nothing is open");
          if (c > stopped + 40) return;
        }
      } else if (r.done_count == r.words && ++after > 20) {
        if (!idle) return fail("done, but a burst is open");
        if (!(t.load_quiet_o && t.store_quiet_o)) fail("done, but not quiet");
        if (t.load_busy_o || t.load_stall_o || t.store_busy_o || t.store_stall_o) fail("done, but busy");
        return;
      }
    }
    fail("the limit of cycles was reached");
  }

 private:
  void fail(const char* what) {
    if (!r.text[0]) std::snprintf(r.text, sizeof r.text, "cycle %llu: %s", (unsigned long long)cycle, what);
  }

  void reset() {
    t.rst_ni = 1;
    t.clk_i = 0;
    t.eval();
    t.rst_ni = 0;
    t.stop_i = 0;
    t.load_start_valid_i = t.store_start_valid_i = t.r_valid_i = t.b_valid_i = 0;
    t.eval();
    for (int i = 0; i < 2; ++i) {
      t.clk_i = 1;
      t.eval();
      t.clk_i = 0;
      t.eval();
    }
    t.rst_ni = 1;
    std::memcpy(&t.regions_i, r.regions, 128);
    t.eval();
  }

  void inputs(uint64_t sent) {
    const bool start = sent < r.words && (start_held || !random.refused(r.hold_start));
    t.load_start_valid_i = start && !r.store;
    t.store_start_valid_i = start && r.store;
    if (start) {
      std::memcpy(&t.word_i, r.word + 64 * sent, 64);
      t.index_i = static_cast<uint32_t>(1000 + sent);
    }
    t.ar_ready_i = !random.refused(r.hold_address);
    t.aw_ready_i = !random.refused(r.hold_address);
    t.w_ready_i = !random.refused(r.hold_data);
    t.act_wr_ready_i = !random.refused(r.hold_port);
    t.wgt_wr_ready_i = !random.refused(r.hold_port);
    t.vbuf_wr_ready_i = !random.refused(r.hold_port);
    t.param_wr_ready_i = !random.refused(r.hold_port);
    t.act_rd_ready_i = !random.refused(r.hold_port);
    t.vbuf_rd_ready_i = !random.refused(r.hold_port);
    t.param_rd_ready_i = !random.refused(r.hold_port);
    // R: valid stays until it is taken.
    if (!t.r_valid_i && !reads.empty() && cycle >= reads.front().ready && !random.refused(r.hold_data)) {
      const Burst& b = reads.front();
      const uint64_t at = b.address + 64 * b.sent;
      t.r_valid_i = 1;
      t.r_resp_i = bad(at) ? 2 : 0;
      t.r_last_i = b.sent + 1 == b.beats;
      beat(at, reinterpret_cast<uint8_t*>(&t.r_data_i));
    }
    if (!t.b_valid_i && !responses.empty() && cycle >= responses.front().ready && !random.refused(r.hold_data)) {
      const Burst& b = responses.front();
      t.b_valid_i = 1;
      t.b_resp_i = b.address < r.bad_high && b.address + 64 * b.beats > r.bad_low ? 2 : 0;
    }
  }

  bool bad(uint64_t at) const { return at >= r.bad_low && at < r.bad_high; }

  void beat(uint64_t at, uint8_t* to) {
    for (int i = 0; i < 64; ++i) {
      const uint64_t k = at + i - r.dram_base;
      to[i] = k < r.dram_bytes ? r.dram[k] : static_cast<uint8_t>(random.next());
    }
  }

  struct Held {
    bool valid = false;
    uint64_t addr = 0, len = 0;
  };

  void addresses(bool valid, bool ready, uint64_t addr, uint64_t len, Held& held, std::deque<Burst>& to,
                 uint64_t stopped) {
    if (held.valid && (!valid || addr != held.addr || len != held.len)) fail("an address changed before it was taken");
    if (valid) {
      if (addr & 63) fail("an address is not that of a beat");
      if (len > 63) fail("more than 64 beats");
      if ((addr & 4095) + 64 * (len + 1) > 4096) fail("a burst crosses 4 KiB");
      if (addr + 64 <= r.dram_base || addr + 64 * len >= r.dram_base + r.dram_bytes) fail("a burst outside the DRAM");
      if (stopped && cycle > stopped + 1 && !held.valid) fail("an address was sent under stop_i");
    }
    if (valid && ready) {
      to.push_back({addr, len + 1, cycle + r.latency, 0});
      ++r.bursts;
      if (!r.first_address) r.first_address = cycle;
    }
    held = {valid && !ready, addr, len};
  }

  void write(bool valid, bool ready, uint64_t addr, const void* data, uint64_t bytes, uint64_t unit, uint8_t* to) {
    if (!valid || !ready) return;
    std::memcpy(to + addr * unit, data, bytes);
    ++written;
  }

  void outputs(uint64_t stopped) {
    const uint64_t c = r.cols;
    r.busy += r.store ? t.store_busy_o : t.load_busy_o;
    r.stall += r.store ? t.store_stall_o : t.load_stall_o;
    r.bytes += r.store ? t.store_bytes_o : t.load_bytes_o;
    // Before the writes of this cycle: done_o speaks of those before it, or in it.
    addresses(t.ar_valid_o, t.ar_ready_i, t.ar_addr_o, t.ar_len_o, ar, reads, stopped);
    addresses(t.aw_valid_o, t.aw_ready_i, t.aw_addr_o, t.aw_len_o, aw, writes, stopped);
    if (t.r_valid_i && t.r_ready_o) {
      ++r.beats;
      r.last_data = cycle;
      if (++reads.front().sent == reads.front().beats) reads.pop_front();
      else reads.front().ready = 0;
      taken = true;
    }
    if (w_held && (!t.w_valid_o || t.w_last_o != w_last || t.w_strb_o != w_strb ||
                   std::memcmp(&t.w_data_o, w_data, 64) != 0)) {
      fail("a write beat changed before it was taken");
    }
    w_held = t.w_valid_o && !t.w_ready_i;
    w_last = t.w_last_o;
    w_strb = t.w_strb_o;
    std::memcpy(w_data, &t.w_data_o, 64);
    if (t.w_valid_o && t.w_ready_i) {
      ++r.beats;
      r.last_data = cycle;
      if (writes.empty()) return fail("a write beat before its address");
      Burst& b = writes.front();
      const uint64_t at = b.address + 64 * b.sent++;
      if (t.w_last_o != (b.sent == b.beats)) fail("w_last is wrong");
      if (!t.w_strb_o) {
        ++r.dropped;
        if (!t.stop_i && !r.fault) fail("a beat without strobes");
      }
      for (int i = 0; i < 64; ++i) {
        if (!(t.w_strb_o >> i & 1)) continue;
        const uint64_t k = at + i - r.dram_base;
        if (k >= r.dram_bytes) return fail("a byte outside the DRAM is written");
        if (!bad(at)) r.dram[k] = reinterpret_cast<const uint8_t*>(&t.w_data_o)[i];
      }
      if (b.sent == b.beats) {
        responses.push_back({b.address, b.beats, cycle + std::max<uint64_t>(r.latency, 1), 0});
        writes.pop_front();
      }
    }
    if (t.b_valid_i && t.b_ready_o) {
      responses.pop_front();
      r.last_data = cycle;
      b_taken = true;
    }
    // The scratchpads. A word that was read is there for one cycle.
    write(t.act_wr_valid_o, t.act_wr_ready_i, t.act_wr_addr_o, &t.act_wr_data_o, c, c, r.act);
    write(t.wgt_wr_valid_o, t.wgt_wr_ready_i, t.wgt_wr_addr_o, &t.wgt_wr_data_o, c, c, r.wgt);
    write(t.vbuf_wr_valid_o, t.vbuf_wr_ready_i, t.vbuf_wr_addr_o, &t.vbuf_wr_data_o, 2 * c, 2 * c, r.vbuf);
    if (t.param_wr_valid_o && (t.param_wr_count_o < 1 || t.param_wr_count_o > r.lanes)) fail("param_wr_count_o");
    write(t.param_wr_valid_o, t.param_wr_ready_i, t.param_wr_addr_o, &t.param_wr_data_o, 4 * t.param_wr_count_o, 4,
          r.param);
    if (t.table_wr_valid_o) {
      uint8_t* table = r.tables + (16 + 4096) * t.table_wr_slot_o;
      std::memcpy(t.table_wr_header_o ? table : table + 16 + 16 * t.table_wr_index_o, &t.table_wr_data_o, 16);
    }
    if (t.load_done_o || t.store_done_o) {
      if ((r.store ? t.load_done_o : t.store_done_o) || r.done_count >= r.words) return fail("done_o without a word");
      r.done[r.done_count] = cycle;
      r.written_by_done[r.done_count++] = written;
    }
    if (t.load_fault_valid_o || t.store_fault_valid_o) {
      if (r.fault) return fail("a second fault");
      r.fault = 1;
      r.fault_cycle = cycle;
      r.fault_code = r.store ? t.store_fault_code_o : t.load_fault_code_o;
      r.fault_index = r.store ? t.store_fault_index_o : t.load_fault_index_o;
      r.fault_address = r.store ? t.store_fault_address_o : t.load_fault_address_o;
    }
    read_now[0] = {t.act_rd_valid_o && t.act_rd_ready_i, t.act_rd_addr_o};
    read_now[1] = {t.vbuf_rd_valid_o && t.vbuf_rd_ready_i, t.vbuf_rd_addr_o};
    read_now[2] = {t.param_rd_valid_o && t.param_rd_ready_i, t.param_rd_addr_o};
  }

  // The clock edge, and after it the data of reads.
  void edge() {
    t.clk_i = 1;
    t.eval();
    t.clk_i = 0;
    const uint64_t c = r.cols;
    uint8_t* data[3] = {reinterpret_cast<uint8_t*>(&t.act_rd_data_i), reinterpret_cast<uint8_t*>(&t.vbuf_rd_data_i),
                        reinterpret_cast<uint8_t*>(&t.param_rd_data_i)};
    const uint8_t* from[3] = {r.act, r.vbuf, r.param};
    const uint64_t unit[3] = {c, 2 * c, 4}, bytes[3] = {c, 2 * c, 4 * r.lanes};
    for (int k = 0; k < 3; ++k) {
      if (read_now[k].first) std::memcpy(data[k], from[k] + unit[k] * read_now[k].second, bytes[k]);
      else std::memset(data[k], 0xA5, bytes[k]);
    }
    if (taken) t.r_valid_i = 0;
    if (b_taken) t.b_valid_i = 0;
    taken = b_taken = false;
  }

  Run& r;
  Vtop& t = top();
  Random random;
  uint64_t cycle = 0, written = 0, after = 0, still = 0;
  bool start_held = false, taken = false, b_taken = false, w_held = false, w_last = false;
  uint64_t w_strb = 0;
  uint8_t w_data[64] = {};
  Held ar, aw;
  std::deque<Burst> reads, writes, responses;
  std::pair<bool, uint64_t> read_now[3];

  static Vtop& top() {
    static VerilatedContext context;
    static Vtop instance{&context};
    return instance;
  }
};

}  // namespace

extern "C" void dma_run(Run* run) { Bench(*run).go(); }
