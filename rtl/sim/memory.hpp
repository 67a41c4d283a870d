// DRAM behind the AXI4 ports of all tiles: where bytes lie, and when they arrive.
//
// Bytes lie in the host's arrays, which are mapped by address and used in place. Timing is one of three, as in
// simulator/memory.py: `ideal` (a latency, a rate a port), `simple` (the same, and one rate that all ports share) and
// bursts, by the simulator's own DRAM model. Reads see memory as it is when their address is accepted and writes change
// it when they are answered: the earliest and the latest that AXI allows, so that a missing wait shows.

#ifndef DPU_RTL_MEMORY_HPP
#define DPU_RTL_MEMORY_HPP

#include <cstdint>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dram_model.hpp"

namespace dpu::rtl {

using Time = std::int64_t;

constexpr Time kBeat = 64;
constexpr Time kPage = 4096;

enum Response : std::uint8_t { kOkay = 0, kSlaveError = 2, kDecodeError = 3 };

// A master broke a rule of AXI or of the tile's contract.
struct ProtocolError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Timing {
  Time mode = 0;  // 0 ideal, 1 simple, 2 bursts
  Time latency = 0;  // cycles from a read's address to its first data
  Time response = 0;  // cycles from a write's last beat to its response
  Time port_rate = 0, shared_rate = 0;  // bytes a cycle, in 65536ths
  Time stall = 0;  // of 256, how often a channel takes a pause, to shake out timing; 0 never
  Time seed = 0;
};

// What a tile drives in a cycle.
struct Request {
  bool ar_valid, r_ready, aw_valid, w_valid, w_last, b_ready;
  std::uint8_t ar_id, ar_len, ar_size, ar_burst, aw_id, aw_len, aw_size, aw_burst;
  std::uint64_t ar_addr, aw_addr, w_strobe;
  const std::uint8_t* w_data;
};

// What memory drives in a cycle.
struct Reply {
  bool ar_ready, r_valid, r_last, aw_ready, w_ready, b_valid;
  std::uint8_t r_id, r_resp, b_id, b_resp;
  const std::uint8_t* r_data;  // 64 bytes, when r_valid
};

class Memory {
 public:
  Memory(int tiles, const Timing& timing, const dram::Config* bursts);

  // `bytes` from `address` are at `data`; with `fault`, any access is answered SLVERR.
  void map(std::uint64_t address, std::uint64_t bytes, std::uint8_t* data, bool writable, bool fault);
  void clear();

  // What tile `t` sees in this cycle. Valid until `tick`.
  const Reply& reply(int t) const { return ports_[static_cast<std::size_t>(t)].reply; }
  // Handshakes of this cycle; then `end` moves on to the next.
  void take(int t, const Request& request);
  void end();

  bool busy() const;
  Time now() const { return now_; }
  dram::Counters counters(int channel) const { return model_->counters(channel); }
  int channels() const { return channels_; }

 private:
  struct Range {
    std::uint64_t address, bytes;
    std::uint8_t* data;
    bool writable, fault;
  };
  struct Burst {
    std::uint64_t address = 0;
    int beats = 0, moved = 0;  // beats through the port
    std::uint8_t id = 0, resp = kOkay;
    Time ready = 0;  // when its data, or its response, may go
    int pieces = 0;  // of the DRAM model, still under way (write)
    std::uint64_t from = 0;  // where the next piece starts (write)
    std::vector<Time> pieces_ready;  // per piece; -1 under way (read)
    std::uint64_t piece_bytes = 0;
    std::vector<std::uint8_t> data;
    std::vector<std::uint64_t> strobes;
  };
  using BurstPtr = std::unique_ptr<Burst>;
  struct Port {
    std::deque<BurstPtr> reads[2];  // by ID
    std::deque<BurstPtr> writes;  // addresses taken, data not complete
    std::deque<BurstPtr> answers;  // data complete
    Time read_credit = 0, write_credit = 0;
    Time read_bytes = 0, write_bytes = 0;  // under way
    int read_bursts = 0, write_bursts = 0;
    Reply reply = {};
    Burst* shown = nullptr;  // the burst whose beat is on R
    Request last = {};
    bool held_ar = false, held_aw = false, held_w = false;
    std::uint8_t held_data[kBeat] = {};
  };
  struct Tag {
    Port* port = nullptr;
    Burst* burst = nullptr;
    Time bytes = 0;
    int piece = 0;
    bool write = false;
  };

  const Range* find(std::uint64_t address) const;
  std::uint8_t fetch(std::uint64_t address, std::uint8_t* beat) const;
  std::uint8_t check(std::uint64_t address, std::uint64_t strobe) const;
  void store(const Burst& burst);
  void rules(int t, const Request& q);
  void take_read(Port& p, const Request& q);
  void take_write(int t, const Request& q);
  BurstPtr fresh();
  void recycle(BurstPtr burst);
  void submit(Port& port, Burst* burst, std::uint64_t address, std::uint64_t bytes, bool write, int piece);
  bool pause();
  bool beat_ready(const Burst& b, Time at) const;
  bool present(Port& p);

  Timing timing_;
  std::unique_ptr<dram::Model> model_;
  dram::Config config_ = {};
  int channels_ = 0;
  Time now_ = 0;
  Time shared_credit_ = 0;
  std::size_t first_ = 0;  // whose turn it is to be served first
  std::uint64_t random_;
  std::vector<Port> ports_;
  std::vector<Range> ranges_;  // by address
  mutable std::size_t recent_ = 0;
  std::vector<Tag> tags_;
  std::vector<int> spare_tags_;
  std::vector<BurstPtr> spare_;
};

}  // namespace dpu::rtl

#endif
