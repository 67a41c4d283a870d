// The Verilated dpu_top as a library: clock, host bus, memory, the times of each word. The C functions below are all.
//
// One cycle: inputs change while the clock is low, the model settles, handshakes are read, the clock rises. A failed
// assertion, or a broken rule of AXI, ends the run: the function returns its error value and `dpu_problem` says what.

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "memory.hpp"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace {

struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Bits of a port, whatever type its width has given it.
template <class T>
std::uint64_t bits(const T& port, int low, int width) {
  return (static_cast<std::uint64_t>(port) >> low) & (~std::uint64_t{0} >> (64 - width));
}

template <std::size_t N>
std::uint64_t bits(const VlWide<N>& port, int low, int width) {
  std::uint64_t value = 0;
  const int word = low / 32, shift = low % 32;
  for (int i = 0; i < 3 && word + i < static_cast<int>(N); ++i) {
    const std::uint64_t part = port.m_storage[word + i];
    const int at = i * 32 - shift;
    if (at < 64) value |= at < 0 ? part >> -at : part << at;
  }
  return value & (~std::uint64_t{0} >> (64 - width));
}

template <class T>
void put(T& port, int low, int width, std::uint64_t value) {
  const std::uint64_t mask = (~std::uint64_t{0} >> (64 - width)) << low;
  port = static_cast<T>((static_cast<std::uint64_t>(port) & ~mask) | (value << low & mask));
}

template <std::size_t N>
void put(VlWide<N>& port, int low, int width, std::uint64_t value) {  // within a word
  EData& word = port.m_storage[low / 32];
  const auto mask = static_cast<EData>((~std::uint64_t{0} >> (64 - width)) << low % 32);
  word = (word & ~mask) | (static_cast<EData>(value << low % 32) & mask);
}

template <std::size_t N>
std::uint8_t* bytes(VlWide<N>& port) {
  return reinterpret_cast<std::uint8_t*>(port.m_storage);  // words are little-endian, as the host is
}

constexpr int kEngines = 4, kEventBits = 66;

struct Record {
  std::int64_t words = 0;
  std::int64_t *start = nullptr, *done = nullptr;  // [words]
};

class Harness {
 public:
  Harness(int tiles, const dpu::rtl::Timing& timing, const dpu::dram::Config* bursts)
      : tiles_(tiles), memory(tiles, timing, bursts), records(static_cast<std::size_t>(tiles)) {
    context_.randReset(0);
#if VM_TRACE
    context_.traceEverOn(true);
#endif
    top_ = std::make_unique<Vtop>(&context_, "dpu_top");
    top_->clk_i = 0;
  }

  ~Harness() {
    close_waves();
    top_->final();
  }

  bool open_waves(const char* path) {
#if VM_TRACE
    waves_ = std::make_unique<VerilatedVcdC>();
    top_->trace(waves_.get(), 99);
    waves_->open(path);
    return waves_->isOpen();
#else
    (void)path;
    return false;
#endif
  }

  void close_waves() {
#if VM_TRACE
    if (waves_) waves_->close();
    waves_.reset();
#endif
  }

  // Counts of lines and toggles so far; false where they were not compiled in.
  bool write_coverage(const char* path) {
#if VM_COVERAGE
    context_.coveragep()->write(path);
    return true;
#else
    (void)path;
    return false;
#endif
  }

  void reset() {
    top_->rst_ni = 0;
    for (int i = 0; i < 4; ++i) cycle();
    top_->rst_ni = 1;
    cycle();
  }

  void cycle() {
    Vtop& top = *top_;
    drive(top);
    top.clk_i = 0;
    top.eval();
    dump();
    if (top.rst_ni) {
      sample(top);
      note(top);
    }
    top.clk_i = 1;
    top.eval();
    dump();
    memory.end();
  }

  // The value, and AXI's response.
  std::uint32_t read(std::uint32_t address, int* response) {
    Vtop& top = *top_;
    top.s_axil_araddr_i = static_cast<SData>(address);
    top.s_axil_arvalid_i = 1;
    top.s_axil_rready_i = 1;
    for (int i = 0;; ++i) {
      const bool sent = ready(top.s_axil_arvalid_i, top.s_axil_arready_o), got = top.s_axil_rvalid_o;
      const std::uint32_t value = top.s_axil_rdata_o;
      *response = top.s_axil_rresp_o;
      finish();
      if (sent) top.s_axil_arvalid_i = 0;
      if (got) {
        top.s_axil_rready_i = 0;
        return value;
      }
      if (i > kBusLimit) throw Stopped("AXI4-Lite read does not end");
    }
  }

  int write(std::uint32_t address, std::uint32_t value) {
    Vtop& top = *top_;
    top.s_axil_awaddr_i = static_cast<SData>(address);
    top.s_axil_wdata_i = value;
    top.s_axil_wstrb_i = 15;
    top.s_axil_awvalid_i = top.s_axil_wvalid_i = top.s_axil_bready_i = 1;
    for (int i = 0;; ++i) {
      const bool aw = ready(top.s_axil_awvalid_i, top.s_axil_awready_o), w = top.s_axil_wvalid_i && top.s_axil_wready_o;
      const bool got = top.s_axil_bvalid_o;
      const int response = top.s_axil_bresp_o;
      finish();
      if (aw) top.s_axil_awvalid_i = 0;
      if (w) top.s_axil_wvalid_i = 0;
      if (got) {
        top.s_axil_bready_i = 0;
        return response;
      }
      if (i > kBusLimit) throw Stopped("AXI4-Lite write does not end");
    }
  }

  bool irq() const { return top_->irq_o; }

  std::string problem;

 private:
  static constexpr int kBusLimit = 10000;
  VerilatedContext context_;
  std::unique_ptr<Vtop> top_;
#if VM_TRACE
  std::unique_ptr<VerilatedVcdC> waves_;
#endif
  std::uint64_t time_ = 0;
  int tiles_;

 public:
  dpu::rtl::Memory memory;
  std::vector<Record> records;

 private:
  // The first half of a cycle, for the host's bus; `finish` is the second.
  bool ready(bool valid, const CData& ready_port) {
    drive(*top_);
    top_->clk_i = 0;
    top_->eval();
    dump();
    return valid && ready_port;
  }

  void finish() {
    sample(*top_);
    note(*top_);
    top_->clk_i = 1;
    top_->eval();
    dump();
    memory.end();
  }

  void dump() {
#if VM_TRACE
    if (waves_) waves_->dump(time_);
#endif
    time_ += 5;
  }

  void drive(Vtop& top) {
    for (int t = 0; t < tiles_; ++t) {
      const dpu::rtl::Reply& r = memory.reply(t);
      put(top.m_axi_arready_i, t, 1, r.ar_ready);
      put(top.m_axi_awready_i, t, 1, r.aw_ready);
      put(top.m_axi_wready_i, t, 1, r.w_ready);
      put(top.m_axi_rvalid_i, t, 1, r.r_valid);
      put(top.m_axi_bvalid_i, t, 1, r.b_valid);
      if (r.r_valid) {
        put(top.m_axi_rid_i, t, 1, r.r_id);
        put(top.m_axi_rlast_i, t, 1, r.r_last);
        put(top.m_axi_rresp_i, 2 * t, 2, r.r_resp);
        std::memcpy(bytes(top.m_axi_rdata_i) + 64 * t, r.r_data, 64);
      }
      if (r.b_valid) {
        put(top.m_axi_bid_i, t, 1, r.b_id);
        put(top.m_axi_bresp_i, 2 * t, 2, r.b_resp);
      }
    }
  }

  void sample(Vtop& top) {
    for (int t = 0; t < tiles_; ++t) {
      dpu::rtl::Request q = {};
      q.ar_valid = bits(top.m_axi_arvalid_o, t, 1);
      q.r_ready = bits(top.m_axi_rready_o, t, 1);
      q.aw_valid = bits(top.m_axi_awvalid_o, t, 1);
      q.w_valid = bits(top.m_axi_wvalid_o, t, 1);
      q.b_ready = bits(top.m_axi_bready_o, t, 1);
      if (q.ar_valid) {
        q.ar_addr = bits(top.m_axi_araddr_o, 64 * t, 64);
        q.ar_len = static_cast<std::uint8_t>(bits(top.m_axi_arlen_o, 8 * t, 8));
        q.ar_id = static_cast<std::uint8_t>(bits(top.m_axi_arid_o, t, 1));
        q.ar_size = static_cast<std::uint8_t>(bits(top.m_axi_arsize_o, 3 * t, 3));
        q.ar_burst = static_cast<std::uint8_t>(bits(top.m_axi_arburst_o, 2 * t, 2));
      }
      if (q.aw_valid) {
        q.aw_addr = bits(top.m_axi_awaddr_o, 64 * t, 64);
        q.aw_len = static_cast<std::uint8_t>(bits(top.m_axi_awlen_o, 8 * t, 8));
        q.aw_id = static_cast<std::uint8_t>(bits(top.m_axi_awid_o, t, 1));
        q.aw_size = static_cast<std::uint8_t>(bits(top.m_axi_awsize_o, 3 * t, 3));
        q.aw_burst = static_cast<std::uint8_t>(bits(top.m_axi_awburst_o, 2 * t, 2));
      }
      if (q.w_valid) {
        q.w_last = bits(top.m_axi_wlast_o, t, 1);
        q.w_strobe = bits(top.m_axi_wstrb_o, 64 * t, 64);
        q.w_data = bytes(top.m_axi_wdata_o) + 64 * t;
      }
      memory.take(t, q);
    }
  }

  void note(Vtop& top) {
    for (int t = 0; t < tiles_; ++t) {
      const Record& r = records[static_cast<std::size_t>(t)];
      for (int e = 0; r.words && e < kEngines; ++e) {
        const int low = (t * kEngines + e) * kEventBits;
        const std::uint64_t flags = bits(top.events_o, low + 64, 2);
        if (!flags) continue;
        const auto started = static_cast<std::int64_t>(bits(top.events_o, low + 32, 32));
        const auto ended = static_cast<std::int64_t>(bits(top.events_o, low, 32));
        if ((flags & 2) && started < r.words) r.start[started] = memory.now();
        if ((flags & 1) && ended < r.words) r.done[ended] = memory.now();
      }
    }
  }
};

// Runs `body`; what it throws is kept as the problem, and the answer is `otherwise`.
template <class F, class T>
T guarded(void* handle, T otherwise, F body) {
  auto* h = static_cast<Harness*>(handle);
  if (!h->problem.empty()) return otherwise;
  try {
    return body(*h);
  } catch (const std::exception& e) {
    h->problem = e.what();
    return otherwise;
  }
}

}  // namespace

// What Verilator calls when an assertion fails or $finish is met: the model cannot go on, the process can.
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
  throw Stopped("assertion failed at " + std::string(file) + ":" + std::to_string(line));
}

void vl_fatal(const char* file, int line, const char*, const char* message) VL_MT_UNSAFE {
  throw Stopped(std::string(message) + " at " + file + ":" + std::to_string(line));
}

void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE {
  throw Stopped("$finish at " + std::string(file) + ":" + std::to_string(line));
}

extern "C" {

// `timing`: mode, latency, response, port rate, shared rate, stall, seed; `bursts`: the DRAM model's fields, or null.
void* dpu_new(std::int64_t tiles, const std::int64_t* timing, const std::int64_t* bursts) {
  const dpu::rtl::Timing t{timing[0], timing[1], timing[2], timing[3], timing[4], timing[5], timing[6]};
  dpu::dram::Config config = {};
  if (bursts) std::memcpy(&config, bursts, sizeof config);
  return new Harness(static_cast<int>(tiles), t, &config);
}

void dpu_free(void* handle) { delete static_cast<Harness*>(handle); }

const char* dpu_problem(void* handle) { return static_cast<Harness*>(handle)->problem.c_str(); }

std::int64_t dpu_dram_fields() { return static_cast<std::int64_t>(dpu::dram::kFields); }

int dpu_waves(void* handle, const char* path) { return static_cast<Harness*>(handle)->open_waves(path); }

int dpu_coverage(void* handle, const char* path) { return static_cast<Harness*>(handle)->write_coverage(path); }

void dpu_close_waves(void* handle) { static_cast<Harness*>(handle)->close_waves(); }

// `flags`: 1 writable, 2 every access fails.
void dpu_map(void* handle, std::uint64_t address, std::uint64_t bytes, std::uint8_t* data, int flags) {
  static_cast<Harness*>(handle)->memory.map(address, bytes, data, flags & 1, flags & 2);
}

// The pin rst_ni. 0, or -1 with a problem.
int dpu_reset(void* handle) {
  return guarded(handle, -1, [](Harness& h) { return h.reset(), 0; });
}

// A host register. The response, or -1 with a problem.
int dpu_read(void* handle, std::uint32_t address, std::uint32_t* value) {
  return guarded(handle, -1, [&](Harness& h) {
    int response = 0;
    *value = h.read(address, &response);
    return response;
  });
}

int dpu_write(void* handle, std::uint32_t address, std::uint32_t value) {
  return guarded(handle, -1, [&](Harness& h) { return h.write(address, value); });
}

// `cycles` cycles, or until the interrupt if `irq`. The cycles that passed, or -1 with a problem.
std::int64_t dpu_run(void* handle, std::int64_t cycles, int irq) {
  return guarded(handle, std::int64_t{-1}, [&](Harness& h) {
    std::int64_t n = 0;
    while (n < cycles && !(irq && h.irq())) h.cycle(), ++n;
    return n;
  });
}

// Looks at a register every `interval` cycles until its bits `mask` are zero: 1, or 0 after `cycles`, or -1.
int dpu_wait(void* handle, std::uint32_t address, std::uint32_t mask, std::int64_t interval, std::int64_t cycles) {
  return guarded(handle, -1, [&](Harness& h) {
    const std::int64_t end = h.memory.now() + cycles;
    int response = 0;
    std::int64_t pause = 8;  // short at first: short programs are many
    while (h.read(address, &response) & mask) {
      if (h.memory.now() >= end) return 0;
      for (std::int64_t i = 0; i < pause; ++i) h.cycle();
      pause = std::min(2 * pause, interval);
    }
    return 1;
  });
}

int dpu_irq(void* handle) { return static_cast<Harness*>(handle)->irq(); }

std::int64_t dpu_cycle(void* handle) { return static_cast<Harness*>(handle)->memory.now(); }

int dpu_memory_busy(void* handle) { return static_cast<Harness*>(handle)->memory.busy(); }

// Where the cycles go in which words of `tile` start and are done; 0 words: nowhere.
void dpu_record(void* handle, std::int64_t tile, std::int64_t words, std::int64_t* start, std::int64_t* done) {
  static_cast<Harness*>(handle)->records[static_cast<std::size_t>(tile)] = {words, start, done};
}

}  // extern "C"
