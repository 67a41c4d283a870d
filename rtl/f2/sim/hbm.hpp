// HBM in simulation: sparse bytes, garbage at first, and AXI3 ports of 256 bits with latency, pauses and the rules of AXI3.
//
// A read sees memory as it is when its address is taken, a write changes it when its response goes out: the earliest and
// the latest that AXI allows, so that a missing wait shows.

#ifndef DPU_F2_HBM_HPP
#define DPU_F2_HBM_HPP

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace dpu::f2 {

// A master broke a rule of AXI or of the shell.
struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// xorshift64*: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0xD1B54A32D192ED03u) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  bool often(std::int64_t of256) { return of256 && static_cast<std::int64_t>(next() >> 56) < of256; }
  std::uint64_t below(std::uint64_t n) { return n ? (next() >> 32) % n : 0; }

 private:
  std::uint64_t state_;
};

// Where a device address lies in HBM: `spread` of dpu_f2_pkg.sv, by 512 bytes.
std::uint64_t spread(std::uint64_t device);

// A page that nobody has written is noise, by seed and place, as memory after power-up is: what a write leaves out shows.
class Bytes {
 public:
  explicit Bytes(std::uint64_t seed) : seed_(seed) {}
  void read(std::uint64_t address, std::uint8_t* data, std::int64_t bytes) const;
  void write(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes);
  void read_device(std::uint64_t address, std::uint8_t* data, std::int64_t bytes) const;
  void write_device(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes);
  void write(std::uint64_t address, const std::uint8_t* beat, std::uint32_t strobe);  // 32 bytes

 private:
  static constexpr std::uint64_t kPage = 1 << 12;
  using Page = std::array<std::uint8_t, kPage>;
  Page& page(std::uint64_t number) const;

  std::uint64_t seed_;
  mutable std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;  // a page is made when it is first looked at
};

// Channels of one port in one cycle, as the custom logic drives them.
struct PortIn {
  bool ar_valid, aw_valid, w_valid, r_ready, b_ready, w_last;
  std::uint64_t ar_addr, aw_addr;
  int ar_len, aw_len;
  std::uint8_t w_data[32];
  std::uint32_t w_strobe;
};

// The same, as the port drives them.
struct PortOut {
  bool ar_ready, aw_ready, w_ready, r_valid, b_valid, r_last;
  int r_resp, b_resp;
  std::uint8_t r_data[32];
};

struct HbmFaults {
  std::uint64_t hang = 0;  // bit i: the ports of client i
  std::int64_t errors = 0;  // beats of reads still to fail
  int spared = -1;  // a client that does not fail
  bool cold = false;
};

constexpr int kWays = 2;  // ports of a client, as in cl_dpu.sv

class HbmPort {
 public:
  static constexpr int kLatency = 60;  // cycles, at least

  void reset();
  // The cycle that ends had `in` and the last result; the result is that of the next.
  const PortOut& cycle(int port, const PortIn& in, Bytes& memory, Random& random, std::int64_t stall, HbmFaults& faults);

  bool idle() const;  // nothing is offered and nothing under way

  std::int64_t read_beats = 0, write_beats = 0;

 private:
  struct Read {
    std::uint64_t ready;
    std::uint8_t data[32];
    int resp;
    bool last;
  };
  struct Beat {
    std::uint64_t address;
    std::uint8_t data[32];
    std::uint32_t strobe;
  };
  struct Write {
    std::uint64_t ready;
    std::vector<Beat> beats;
  };
  struct Burst {
    std::uint64_t address;
    int beats;
  };

  void rules(int port, const PortIn& in) const;

  std::uint64_t now_ = 0;
  std::deque<Read> reads_;
  std::deque<Burst> bursts_;  // addresses taken
  std::deque<Beat> beats_;  // data taken: W may come before AW
  std::deque<bool> lasts_;
  std::deque<Write> writes_;  // complete
  PortIn last_ = {};
  PortOut out_ = {};
  bool held_ar_ = false, held_aw_ = false, held_w_ = false;
};

}  // namespace dpu::f2

#endif
