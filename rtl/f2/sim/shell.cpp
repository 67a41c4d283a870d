#include "shell.hpp"

#include <algorithm>
#include <cstring>

namespace dpu::f2 {

namespace {

template <std::size_t N>
std::uint8_t* bytes(VlWide<N>& port) {
  return reinterpret_cast<std::uint8_t*>(port.m_storage);  // words are little-endian, as the host is
}

template <std::size_t N>
const std::uint8_t* bytes(const VlWide<N>& port) {
  return reinterpret_cast<const std::uint8_t*>(port.m_storage);
}

}  // namespace

// OCL

void Ocl::begin() {
  done = late = false;
  age_ = 0;
}

void Ocl::read(std::uint32_t address) {
  begin();
  address_ = address;
  ar_ = waits_r_ = true;
}

void Ocl::write(std::uint32_t address, std::uint32_t data) {
  begin();
  address_ = address;
  data_ = data;
  aw_ = w_ = waits_b_ = true;
}

void Ocl::drive(Vtop& top) const {
  top.ocl_cl_arvalid = ar_;
  top.ocl_cl_araddr = address_;
  top.ocl_cl_awvalid = aw_;
  top.ocl_cl_awaddr = address_;
  top.ocl_cl_wvalid = w_;
  top.ocl_cl_wdata = data_;
  top.ocl_cl_wstrb = 15;
  top.ocl_cl_rready = waits_r_ || stale_r_;
  top.ocl_cl_bready = waits_b_ || stale_b_;
}

void Ocl::take(Vtop& top) {
  if (ar_ && top.cl_ocl_arready) ar_ = false;
  if (aw_ && top.cl_ocl_awready) aw_ = false;
  if (w_ && top.cl_ocl_wready) w_ = false;
  if (top.cl_ocl_rvalid && top.ocl_cl_rready) {
    if (stale_r_) {
      --stale_r_;
    } else {
      value = top.cl_ocl_rdata;
      waits_r_ = false;
    }
  }
  if (top.cl_ocl_bvalid && top.ocl_cl_bready) {
    if (stale_b_) --stale_b_;
    else waits_b_ = false;
  }
  if (done) return;
  done = !waits_r_ && !waits_b_;
  if (!done && ++age_ > kTimeout) {
    stale_r_ += waits_r_, stale_b_ += waits_b_;
    waits_r_ = waits_b_ = false;
    value = ~0u;
    done = late = true;
  }
}

// PCIS

void Pcis::read(std::uint64_t address, std::int64_t bytes) {
  late = false;
  data.clear();
  const std::uint64_t end = address + static_cast<std::uint64_t>(bytes);
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t stop = std::min(end, (at | 4095) + 1);
    Burst b;
    b.address = at;
    b.beats = static_cast<int>((stop + 63) / 64 - at / 64);
    reads_.push_back(std::move(b));
    ++wanted_;
    at = stop;
  }
}

void Pcis::write(std::uint64_t address, const std::uint8_t* from, std::int64_t bytes) {
  late = false;
  const std::uint64_t end = address + static_cast<std::uint64_t>(bytes);
  for (std::uint64_t at = address; at < end;) {
    const std::uint64_t stop = std::min(end, (at | 4095) + 1);
    Burst b;
    b.address = at;
    b.beats = static_cast<int>((stop + 63) / 64 - at / 64);
    b.data.resize(static_cast<std::size_t>(b.beats) * 64);
    std::memcpy(b.data.data() + at % 64, from + (at - address), stop - at);
    for (int i = 0; i < b.beats; ++i) {
      const std::uint64_t first = (at / 64 + static_cast<std::uint64_t>(i)) * 64;
      const std::uint64_t low = std::max(at, first) - first, high = std::min(stop, first + 64) - first;
      const std::uint64_t ones = high - low == 64 ? ~0ull : (1ull << (high - low)) - 1;
      b.strobes.push_back(ones << low);
    }
    writes_.push_back(std::move(b));
    ++wanted_;
    at = stop;
  }
}

void Pcis::drive(Vtop& top) {
  // A read does not pass a write: all of those, which are older, are on the bus before.
  ar_ = ar_ || (at_r_ < std::min(reads_.size(), kOutstanding) && at_w_ == writes_.size() && !random_->often(stall_));
  aw_ = aw_ || (at_w_ < std::min(writes_.size(), kOutstanding) && !random_->often(stall_));
  w_ = w_ || (at_d_ < at_w_ && !random_->often(stall_));
  r_ready_ = !random_->often(stall_);
  b_ready_ = !random_->often(stall_);
  top.sh_cl_dma_pcis_arvalid = ar_;
  top.sh_cl_dma_pcis_awvalid = aw_;
  top.sh_cl_dma_pcis_wvalid = w_;
  top.sh_cl_dma_pcis_rready = r_ready_;
  top.sh_cl_dma_pcis_bready = b_ready_;
  top.sh_cl_dma_pcis_arid = top.sh_cl_dma_pcis_awid = kId;
  top.sh_cl_dma_pcis_arsize = top.sh_cl_dma_pcis_awsize = 6;
  top.sh_cl_dma_pcis_arburst = top.sh_cl_dma_pcis_awburst = 1;
  if (ar_) {
    Burst& b = reads_[at_r_];
    top.sh_cl_dma_pcis_araddr = b.address;
    top.sh_cl_dma_pcis_arlen = static_cast<CData>(b.beats - 1);
    b.age = std::max<std::int64_t>(b.age, 0);
  }
  if (aw_) {
    Burst& b = writes_[at_w_];
    top.sh_cl_dma_pcis_awaddr = b.address;
    top.sh_cl_dma_pcis_awlen = static_cast<CData>(b.beats - 1);
    b.age = std::max<std::int64_t>(b.age, 0);
  }
  if (w_) {
    const Burst& b = writes_[at_d_];
    const auto i = static_cast<std::size_t>(b.moved);
    std::memcpy(bytes(top.sh_cl_dma_pcis_wdata), b.data.data() + 64 * i, 64);
    top.sh_cl_dma_pcis_wstrb = b.strobes[i];
    top.sh_cl_dma_pcis_wlast = b.moved == b.beats - 1;
  }
}

void Pcis::take(Vtop& top) {
  if (ar_ && top.cl_sh_dma_pcis_arready) ar_ = false, ++at_r_;
  if (aw_ && top.cl_sh_dma_pcis_awready) aw_ = false, ++at_w_;
  if (w_ && top.cl_sh_dma_pcis_wready) {
    w_ = false;
    if (++writes_[at_d_].moved == writes_[at_d_].beats) ++at_d_;
  }
  if (top.cl_sh_dma_pcis_rvalid && r_ready_) {
    if (top.cl_sh_dma_pcis_rid != kId) throw ProtocolError("PCIS: RID is not that of a read");
    if (at_r_ == 0) throw ProtocolError("PCIS: R without a read");
    Burst& b = reads_.front();
    const std::uint8_t* beat = bytes(top.cl_sh_dma_pcis_rdata);
    if (!b.stale) data.insert(data.end(), beat, beat + 64);
    if (top.cl_sh_dma_pcis_rlast != (++b.moved == b.beats)) throw ProtocolError("PCIS: RLAST is on the wrong beat");
    if (b.moved == b.beats) {
      wanted_ -= !b.stale;
      reads_.pop_front(), --at_r_;
    }
  }
  if (top.cl_sh_dma_pcis_bvalid && b_ready_) {
    if (top.cl_sh_dma_pcis_bid != kId) throw ProtocolError("PCIS: BID is not that of a write");
    if (at_d_ == 0) throw ProtocolError("PCIS: B without a write");
    wanted_ -= !writes_.front().stale;
    writes_.pop_front(), --at_w_, --at_d_;
  }
  bool over = moderation_ > 0 && wanted_;
  if (moderation_ > 0) --moderation_;
  for (auto* list : {&reads_, &writes_}) {
    for (Burst& b : *list) over = (b.age >= 0 && ++b.age > kTimeout && !b.stale) || over;
  }
  if (over) expire();
}

// The shell ends everything that is open, reads with ones, and whatever comes in the next 4 ms.
void Pcis::expire() {
  if (!moderation_) moderation_ = kModeration;
  late = true;
  wanted_ = 0;
  for (Burst& b : reads_) {
    if (!b.stale) data.insert(data.end(), static_cast<std::size_t>(64 * (b.beats - b.moved)), 0xFF);
    b.stale = true;
  }
  for (Burst& b : writes_) b.stale = true;
}

// PCIM

void Pcim::drive(Vtop& top) {
  if (pause_ > 0) --pause_;
  aw_ready_ = !hang && open_.size() < 32 && !random_->often(stall_);
  w_ready_ = !hang && !pause_ && data_.size() < 64 && !random_->often(stall_);
  b_valid_ = b_valid_ || (!answers_.empty() && !random_->often(stall_));
  top.sh_cl_pcim_awready = aw_ready_;
  top.sh_cl_pcim_wready = w_ready_;
  top.sh_cl_pcim_bvalid = b_valid_;
  top.sh_cl_pcim_bid = 0;
  if (b_valid_) top.sh_cl_pcim_bresp = static_cast<CData>(answers_.front());
}

void Pcim::rules(const Vtop& top) const {
  if (top.cl_sh_pcim_arvalid) throw ProtocolError("PCIM: a read, which the custom logic has no use for");
  const std::uint64_t address = top.cl_sh_pcim_awaddr;
  if (held_aw_ && (!top.cl_sh_pcim_awvalid || address != last_addr_ || top.cl_sh_pcim_awlen != last_len_)) {
    throw ProtocolError("PCIM: AW changed before it was taken");
  }
  if (held_w_ && (!top.cl_sh_pcim_wvalid || std::memcmp(bytes(top.cl_sh_pcim_wdata), last_data_, 64) != 0)) {
    throw ProtocolError("PCIM: W changed before it was taken");
  }
  if (!top.cl_sh_pcim_awvalid) return;
  if (top.cl_sh_pcim_awsize != 6) throw ProtocolError("PCIM: AWSIZE is not 64 bytes");
  if (top.cl_sh_pcim_awburst != 1) throw ProtocolError("PCIM: AWBURST is not INCR");
  if (address % 64) throw ProtocolError("PCIM: address is no multiple of 64");
  if (address % 4096 + 64u * (top.cl_sh_pcim_awlen + 1u) > 4096) throw ProtocolError("PCIM: burst crosses 4 KiB");
}

void Pcim::take(Vtop& top) {
  rules(top);
  held_aw_ = top.cl_sh_pcim_awvalid && !aw_ready_;
  held_w_ = top.cl_sh_pcim_wvalid && !w_ready_;
  last_addr_ = top.cl_sh_pcim_awaddr;
  last_len_ = top.cl_sh_pcim_awlen;
  if (held_w_) std::memcpy(last_data_, bytes(top.cl_sh_pcim_wdata), 64);
  if (top.cl_sh_pcim_awvalid && aw_ready_) open_.push_back({top.cl_sh_pcim_awaddr, top.cl_sh_pcim_awlen + 1, 0});
  if (top.cl_sh_pcim_wvalid && w_ready_) {
    Beat b;
    std::memcpy(b.data, bytes(top.cl_sh_pcim_wdata), 64);
    b.strobe = top.cl_sh_pcim_wstrb;
    b.last = top.cl_sh_pcim_wlast;
    data_.push_back(b);
    ++beats;
    pause_ = slow;
  }
  if (b_valid_) {
    if (top.cl_sh_pcim_bready) answers_.pop_front(), b_valid_ = false, b_age_ = 0;
    else if (++b_age_ > kTimeout) throw ProtocolError("PCIM: BREADY does not come within 8 us");
  }
  // The address waits for data at most 8 us; the clock stands while the shell itself takes none.
  for (Burst& b : open_) {
    if (w_ready_ && ++b.age > kTimeout) throw ProtocolError("PCIM: data do not come within 8 us of their address");
  }
  while (!open_.empty() && data_.size() >= static_cast<std::size_t>(open_.front().beats)) complete();
}

void Pcim::complete() {
  const Burst burst = open_.front();
  open_.pop_front();
  ++bursts;
  const bool fail = errors > 0;
  if (fail) --errors;
  bool refused = fail || !host;
  for (int i = 0; i < burst.beats; ++i) {
    const Beat& b = data_.front();
    if (b.last != (i == burst.beats - 1)) throw ProtocolError("PCIM: WLAST is on the wrong beat");
    if (!refused) refused = host(user, burst.address + static_cast<std::uint64_t>(64 * i), b.data, b.strobe) != 0;
    data_.pop_front();
  }
  if (drop > 0) --drop;
  else answers_.push_back(refused ? 2 : 0);
}

// Interrupts

void Irq::take(Vtop& top) {
  if (ack_) ack_ = open_ = false;
  if (top.cl_sh_apppf_irq_req & ~1u) throw ProtocolError("an interrupt other than 0");
  if (top.cl_sh_apppf_irq_req & 1) {
    if (open_ && !silent) throw ProtocolError("a second interrupt before the first was acknowledged");
    ++requests;
    if (silent) return;
    open_ = true;
    due_ = kDelay;
  }
  if (due_ && --due_ == 0) {
    ack_ = true;
    if (drop > 0) --drop;
    else ++waiting;
  }
}

}  // namespace dpu::f2
