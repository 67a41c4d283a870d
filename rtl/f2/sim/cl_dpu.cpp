// The Verilated cl_dpu with shell and HBM as a library: clocks, and the functions of cl_dpu.h.
//
// clk_main_a0 has a period of 4 ns, the HBM's clock one of 2.222 ns. The shell's inputs change while clk_main_a0 is low
// and its handshakes are read before it rises; HBM's ports are called from the model's own clock edges.

#include "cl_dpu.h"

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "Vtop.h"
#include "hbm.hpp"
#include "shell.hpp"
#include "svdpi.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_vcd_c.h"
#endif

namespace dpu::f2 {

namespace {

struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Card;
thread_local Card* current = nullptr;  // whose model this thread evaluates: cards of several slots run at once

class Card {
 public:
  Card(std::uint64_t seed, std::int64_t stall)
      : random_(seed), stall_(stall), pcis(&random_, stall), pcim(&random_, stall), memory(seed) {
    context_.randReset(0);
#if VM_TRACE
    context_.traceEverOn(true);
#endif
    top_ = std::make_unique<Vtop>(&context_, "cl_dpu");
    top_->hbm_apb_preset_n_0 = top_->hbm_apb_preset_n_1 = 1;
  }

  ~Card() {
#if VM_TRACE
    if (waves_) waves_->close();
#endif
    top_->final();
    // A model leaves the context of the thread, which may be that of a card that is gone.
    Verilated::threadContextp(&context_);
    top_.reset();
    Verilated::threadContextp(nullptr);
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

  void reset() {
    ocl = Ocl();
    pcis = Pcis(&random_, stall_);
    top_->rst_main_n = 0;
    for (int i = 0; i < 20; ++i) cycle();
    top_->rst_main_n = 1;
    for (int i = 0; i < 60; ++i) cycle();
  }

  void cycle() {
    Vtop& top = *top_;
    top.clk_main_a0 = 0;
    ocl.drive(top);
    pcis.drive(top);
    pcim.drive(top);
    irq.drive(top);
    top.sh_cl_pwr_state = static_cast<CData>(power);
    top.sh_cl_glcount0 = top.sh_cl_glcount1 = static_cast<QData>(now);
    settle();
    until(time_ + kMainHalf);
    if (top.rst_main_n) {
      ocl.take(top);
      pcis.take(top);
      pcim.take(top);
      irq.take(top);
    }
    top.clk_main_a0 = 1;
    settle();
    until(time_ + kMainHalf);
    ++now;
  }

  PortOut port(int number, const PortIn& in) {
    const auto i = static_cast<std::size_t>(number);
    if (i >= ports.size()) ports.resize(i + 1);
    faults.spared = static_cast<int>(ports.size()) / kWays - 2;  // PCIS
    return ports[i].cycle(number, in, memory, random_, stall_, faults);
  }

  void reset_port(int number) {
    const auto i = static_cast<std::size_t>(number);
    if (i >= ports.size()) ports.resize(i + 1);
    ports[i].reset();
  }

  std::string problem;

 private:
  static constexpr std::int64_t kMainHalf = 2000, kHbmPeriod = 2222;  // ps
  VerilatedContext context_;
  std::unique_ptr<Vtop> top_;
#if VM_TRACE
  std::unique_ptr<VerilatedVcdC> waves_;
#endif
  Random random_;
  std::int64_t stall_;
  std::int64_t time_ = 0, hbm_edge_ = 700;  // the next rising edge of the HBM's clock

  void settle() {
    current = this;
    top_->eval();
#if VM_TRACE
    if (waves_) waves_->dump(static_cast<std::uint64_t>(time_));
#endif
  }

  // To `end`, half a period of the main clock on. The HBM's clock rises at most once in it, and falls at its end, where the
  // model is evaluated anyway: nothing waits for that edge.
  void until(std::int64_t end) {
    if (hbm_edge_ < end) {
      time_ = hbm_edge_;
      hbm_edge_ += kHbmPeriod;
      top_->clk_hbm_ref = 1;
      settle();
    }
    time_ = end;
    top_->clk_hbm_ref = 0;
  }

 public:
  Ocl ocl;
  Pcis pcis;
  Pcim pcim;
  Irq irq;
  Bytes memory;
  std::vector<HbmPort> ports;
  HbmFaults faults;
  int power = 0;
  bool posted = false;
  std::int64_t now = 0, timeouts = 0;
};

// Runs `body`; what it throws is kept as the problem, and the answer is -1.
template <class F>
auto guarded(void* handle, F body) -> decltype(body(*static_cast<Card*>(handle))) {
  auto* card = static_cast<Card*>(handle);
  if (!card->problem.empty()) return -1;
  try {
    return body(*card);
  } catch (const std::exception& e) {
    card->problem = e.what();
    return -1;
  }
}

// Cycles until the bus is done.
template <class Bus, class Done>
int finish(Card& card, Bus& bus, Done done) {
  while (!done()) card.cycle();
  card.timeouts += bus.late;
  return bus.late ? CL_TIMEOUT : 0;
}

}  // namespace

}  // namespace dpu::f2

using dpu::f2::Card;
using dpu::f2::current;
using dpu::f2::finish;
using dpu::f2::guarded;

// What Verilator calls when an assertion fails or $finish is met: the model cannot go on, the process can.
void vl_stop(const char* file, int line, const char*) VL_MT_UNSAFE {
  throw dpu::f2::Stopped("assertion failed at " + std::string(file) + ":" + std::to_string(line));
}

void vl_fatal(const char* file, int line, const char*, const char* message) VL_MT_UNSAFE {
  throw dpu::f2::Stopped(std::string(message) + " at " + file + ":" + std::to_string(line));
}

void vl_finish(const char* file, int line, const char*) VL_MT_UNSAFE {
  throw dpu::f2::Stopped("$finish at " + std::string(file) + ":" + std::to_string(line));
}

extern "C" {

// Called by dpu_f2_hbm_model.sv; flags and state as it has them.
void dpu_f2_hbm_port(int port, int flags, long long ar_addr, int ar_len, long long aw_addr, int aw_len,
                     const svBitVecVal* w_data, int w_strb, int* state, svBitVecVal* r_data) {
  dpu::f2::PortIn in = {};
  in.ar_valid = flags & 1;
  in.aw_valid = flags >> 1 & 1;
  in.w_valid = flags >> 2 & 1;
  in.r_ready = flags >> 3 & 1;
  in.b_ready = flags >> 4 & 1;
  in.w_last = flags >> 5 & 1;
  in.ar_addr = static_cast<std::uint64_t>(ar_addr);
  in.aw_addr = static_cast<std::uint64_t>(aw_addr);
  in.ar_len = ar_len;
  in.aw_len = aw_len;
  in.w_strobe = static_cast<std::uint32_t>(w_strb);
  std::memcpy(in.w_data, w_data, sizeof in.w_data);
  const dpu::f2::PortOut out = current->port(port, in);
  *state = out.ar_ready | out.aw_ready << 1 | out.w_ready << 2 | out.r_valid << 3 | out.b_valid << 4 |
           out.r_last << 5 | out.r_resp << 6 | out.b_resp << 8 | !current->faults.cold << 10 | current->ports[static_cast<std::size_t>(port)].idle() << 11;
  std::memcpy(r_data, out.r_data, sizeof out.r_data);
}

void dpu_f2_hbm_reset(int port) { current->reset_port(port); }

void* cl_new(uint64_t seed, int64_t stall) {
  auto* card = new Card(seed, stall);
  guarded(card, [](Card& c) { return c.reset(), 0; });
  return card;
}

void cl_free(void* card) { delete static_cast<Card*>(card); }

const char* cl_problem(void* card) { return static_cast<Card*>(card)->problem.c_str(); }

int cl_reset(void* card) {
  return guarded(card, [](Card& c) { return c.reset(), 0; });
}

int64_t cl_step(void* card, int64_t cycles, int irq) {
  return guarded(card, [&](Card& c) {
    std::int64_t n = 0;
    while (n < cycles && !(irq && c.irq.waiting)) c.cycle(), ++n;
    return n;
  });
}

int64_t cl_cycle(void* card) { return static_cast<Card*>(card)->now; }

int cl_ocl_read(void* card, uint32_t address, uint32_t* value) {
  *value = ~0u;
  return guarded(card, [&](Card& c) {
    c.ocl.read(address);
    const int result = finish(c, c.ocl, [&] { return c.ocl.done; });
    *value = c.ocl.value;
    return result;
  });
}

int cl_ocl_write(void* card, uint32_t address, uint32_t value) {
  return guarded(card, [&](Card& c) {
    c.ocl.write(address, value);
    return finish(c, c.ocl, [&] { return c.ocl.done; });
  });
}

int cl_pcis_read(void* card, uint64_t address, uint8_t* data, int64_t bytes) {
  return guarded(card, [&](Card& c) {
    c.pcis.read(address, bytes);
    const int result = finish(c, c.pcis, [&] { return c.pcis.done(); });
    std::memcpy(data, c.pcis.data.data() + address % 64, static_cast<std::size_t>(bytes));
    return result;
  });
}

int cl_pcis_write(void* card, uint64_t address, const uint8_t* data, int64_t bytes) {
  return guarded(card, [&](Card& c) {
    c.pcis.write(address, data, bytes);
    if (c.posted) return c.cycle(), 0;
    return finish(c, c.pcis, [&] { return c.pcis.done(); });
  });
}

void cl_host(void* card, cl_host_write write, void* user) {
  auto* c = static_cast<Card*>(card);
  c->pcim.host = write;
  c->pcim.user = user;
}

int64_t cl_irq(void* card) {
  auto& irq = static_cast<Card*>(card)->irq;
  return std::exchange(irq.waiting, 0);
}

void cl_power(void* card, int state) { static_cast<Card*>(card)->power = state; }

void cl_inject(void* card, int fault, int64_t value) {
  auto& c = *static_cast<Card*>(card);
  switch (fault) {
    case CL_HANG_HBM: c.faults.hang = static_cast<std::uint64_t>(value); break;
    case CL_HANG_PCIM: c.pcim.hang = value; break;
    case CL_DROP_B: c.pcim.drop = value; break;
    case CL_DROP_IRQ: c.irq.drop = value; break;
    case CL_ERROR_PCIM: c.pcim.errors = value; break;
    case CL_ERROR_HBM: c.faults.errors = value; break;
    case CL_SLOW_PCIM: c.pcim.slow = value; break;
    case CL_COLD_HBM: c.faults.cold = value; break;
    case CL_SILENT_IRQ: c.irq.silent = value; break;
    case CL_POSTED: c.posted = value; break;
    default: c.problem = "cl_inject: no fault " + std::to_string(fault);
  }
}

int64_t cl_count(void* card, int counter) {
  auto& c = *static_cast<Card*>(card);
  std::int64_t n = 0;
  switch (counter) {
    case CL_PCIM_BURSTS: return c.pcim.bursts;
    case CL_PCIM_BEATS: return c.pcim.beats;
    case CL_TIMEOUTS: return c.timeouts;
    case CL_HBM_READ_BEATS:
      for (const auto& p : c.ports) n += p.read_beats;
      return n;
    case CL_HBM_WRITE_BEATS:
      for (const auto& p : c.ports) n += p.write_beats;
      return n;
    case CL_IRQS: return c.irq.requests;
    default: return -1;
  }
}

void cl_hbm_read(void* card, uint64_t address, uint8_t* data, int64_t bytes) {
  static_cast<Card*>(card)->memory.read_device(address, data, bytes);
}

void cl_hbm_write(void* card, uint64_t address, const uint8_t* data, int64_t bytes) {
  static_cast<Card*>(card)->memory.write_device(address, data, bytes);
}

int cl_waves(void* card, const char* path) { return static_cast<Card*>(card)->open_waves(path) ? 0 : -1; }

}  // extern "C"
