// The shell's side of the custom logic's ports: the host's registers and window, its memory behind PCIM, interrupts.
//
// A class a bus; each has `drive` (what the shell offers in a cycle) and `take` (what was handed over at its end). Rules
// that the shell's specification and AXI give are checked and break off the run with their text.

#ifndef DPU_F2_SHELL_HPP
#define DPU_F2_SHELL_HPP

#include <cstdint>
#include <deque>
#include <vector>

#include "Vtop.h"
#include "cl_dpu.h"
#include "hbm.hpp"

namespace dpu::f2 {

constexpr std::int64_t kTimeout = CL_TIMEOUT_CYCLES;
constexpr std::int64_t kBeatBytes = 64;

// OCL, an access at a time.
class Ocl {
 public:
  void read(std::uint32_t address);
  void write(std::uint32_t address, std::uint32_t value);
  void drive(Vtop& top) const;
  void take(Vtop& top);

  bool done = true, late = false;
  std::uint32_t value = 0;

 private:
  void begin();
  bool aw_ = false, w_ = false, ar_ = false, waits_b_ = false, waits_r_ = false;
  // After a timeout the answer may still come; it is not that of the next access.
  int stale_b_ = 0, stale_r_ = 0;
  std::uint32_t address_ = 0, data_ = 0;
  std::int64_t age_ = 0;
};

// PCIS: a list of bursts each way, each within 4 KiB.
class Pcis {
 public:
  Pcis(Random* random, std::int64_t stall) : random_(random), stall_(stall) {}
  void read(std::uint64_t address, std::int64_t bytes);
  void write(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes);
  void drive(Vtop& top);
  void take(Vtop& top);

  bool done() const { return !wanted_; }
  bool late = false;  // the latest access was ended by the shell
  std::vector<std::uint8_t> data;  // of reads, whole beats from the first one's address

 private:
  static constexpr int kId = 0x20;  // of the PCI interface
  static constexpr std::size_t kOutstanding = 32;
  static constexpr std::int64_t kModeration = 1000000;  // 4 ms
  struct Burst {
    std::uint64_t address;
    int beats, moved = 0;
    std::int64_t age = -1;  // cycles since it was issued
    bool stale = false;  // given up; towards the custom logic it goes on
    std::vector<std::uint8_t> data;
    std::vector<std::uint64_t> strobes;
  };
  void expire();

  Random* random_;
  std::int64_t stall_;
  std::deque<Burst> reads_, writes_;  // not answered
  std::size_t wanted_ = 0;  // bursts that the host waits for
  std::int64_t moderation_ = 0;  // cycles for which every access is ended at once
  bool ar_ = false, aw_ = false, w_ = false, r_ready_ = false, b_ready_ = false;
  std::size_t at_r_ = 0, at_w_ = 0, at_d_ = 0;  // next to be issued; whose data go
};

// PCIM: writes into the host's memory.
class Pcim {
 public:
  Pcim(Random* random, std::int64_t stall) : random_(random), stall_(stall) {}
  void drive(Vtop& top);
  void take(Vtop& top);

  cl_host_write host = nullptr;
  void* user = nullptr;
  bool hang = false;
  std::int64_t drop = 0, errors = 0, slow = 0;
  std::int64_t bursts = 0, beats = 0;

 private:
  struct Burst {
    std::uint64_t address;
    int beats;
    std::int64_t age;
  };
  struct Beat {
    std::uint8_t data[kBeatBytes];
    std::uint64_t strobe;
    bool last;
  };
  void rules(const Vtop& top) const;
  void complete();

  Random* random_;
  std::int64_t stall_;
  std::deque<Burst> open_;
  std::deque<Beat> data_;
  std::deque<int> answers_;
  bool aw_ready_ = false, w_ready_ = false, b_valid_ = false, held_aw_ = false, held_w_ = false;
  std::int64_t pause_ = 0, b_age_ = 0;
  std::uint64_t last_addr_ = 0;
  int last_len_ = 0;
  std::uint8_t last_data_[kBeatBytes] = {};
};

// Interrupt 0.
class Irq {
 public:
  void drive(Vtop& top) const { top.sh_cl_apppf_irq_ack = ack_; }
  void take(Vtop& top);

  std::int64_t requests = 0, waiting = 0;  // asked for; delivered and not seen
  std::int64_t drop = 0;
  bool silent = false;

 private:
  static constexpr int kDelay = 20;
  int due_ = 0;
  bool ack_ = false, open_ = false;
};

}  // namespace dpu::f2

#endif
