#include "hbm.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace dpu::f2 {

namespace {

constexpr int kSlaveError = 2;
constexpr std::size_t kOpen = 32;  // bursts that a port holds, each direction
constexpr std::int64_t kBeat = 32;

std::string text(int port, const char* what) { return "HBM port " + std::to_string(port) + ": " + what; }

}  // namespace

Bytes::Page& Bytes::page(std::uint64_t number) const {
  auto& found = pages_[number];
  if (!found) {
    found = std::make_unique<Page>();
    Random noise(seed_ << 32 ^ number);
    for (std::uint64_t at = 0; at < kPage; at += sizeof at) {
      const std::uint64_t word = noise.next();
      std::memcpy(found->data() + at, &word, sizeof word);
    }
  }
  return *found;
}

void Bytes::read(std::uint64_t address, std::uint8_t* data, std::int64_t bytes) const {
  while (bytes > 0) {
    const std::uint64_t offset = address % kPage;
    const auto n = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(kPage - offset));
    std::memcpy(data, page(address / kPage).data() + offset, static_cast<std::size_t>(n));
    address += static_cast<std::uint64_t>(n), data += n, bytes -= n;
  }
}

void Bytes::write(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes) {
  while (bytes > 0) {
    const std::uint64_t offset = address % kPage;
    const auto n = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(kPage - offset));
    std::memcpy(page(address / kPage).data() + offset, data, static_cast<std::size_t>(n));
    address += static_cast<std::uint64_t>(n), data += n, bytes -= n;
  }
}

std::uint64_t spread(std::uint64_t device) {
  const std::uint64_t block = device >> 9;
  std::uint64_t channel = 0;
  for (std::uint64_t x = block; x; x >>= 5) channel ^= x & 31;
  return channel << 29 | block >> 5 << 9 | (device & 511);
}

void Bytes::read_device(std::uint64_t address, std::uint8_t* data, std::int64_t bytes) const {
  while (bytes > 0) {
    const auto n = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(512 - address % 512));
    read(spread(address), data, n);
    address += static_cast<std::uint64_t>(n), data += n, bytes -= n;
  }
}

void Bytes::write_device(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes) {
  while (bytes > 0) {
    const auto n = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(512 - address % 512));
    write(spread(address), data, n);
    address += static_cast<std::uint64_t>(n), data += n, bytes -= n;
  }
}

void Bytes::write(std::uint64_t address, const std::uint8_t* beat, std::uint32_t strobe) {
  if (!strobe) return;
  std::uint8_t bytes[kBeat];
  read(address, bytes, kBeat);
  for (int i = 0; i < kBeat; ++i) {
    if (strobe >> i & 1) bytes[i] = beat[i];
  }
  write(address, bytes, kBeat);
}

void HbmPort::reset() {
  reads_.clear(), bursts_.clear(), beats_.clear(), lasts_.clear(), writes_.clear();
  out_ = {};
  held_ar_ = held_aw_ = held_w_ = false;
}

bool HbmPort::idle() const {
  return reads_.empty() && bursts_.empty() && beats_.empty() && writes_.empty() && !out_.r_valid && !out_.b_valid;
}

// What is offered stays until it is taken; bursts are whole beats, at most 16, within 4 KiB.
void HbmPort::rules(int port, const PortIn& in) const {
  if (held_ar_ && (!in.ar_valid || in.ar_addr != last_.ar_addr || in.ar_len != last_.ar_len)) {
    throw ProtocolError(text(port, "AR changed before it was taken"));
  }
  if (held_aw_ && (!in.aw_valid || in.aw_addr != last_.aw_addr || in.aw_len != last_.aw_len)) {
    throw ProtocolError(text(port, "AW changed before it was taken"));
  }
  if (held_w_ && (!in.w_valid || in.w_last != last_.w_last || in.w_strobe != last_.w_strobe ||
                  std::memcmp(in.w_data, last_.w_data, kBeat) != 0)) {
    throw ProtocolError(text(port, "W changed before it was taken"));
  }
  for (const auto& [valid, address, len] :
       {std::tuple(in.ar_valid, in.ar_addr, in.ar_len), std::tuple(in.aw_valid, in.aw_addr, in.aw_len)}) {
    if (!valid) continue;
    if (address % kBeat) throw ProtocolError(text(port, "address is no multiple of 32"));
    if (len < 0 || len > 15) throw ProtocolError(text(port, "more than 16 beats"));
    if (address % 4096 + static_cast<std::uint64_t>(kBeat * (len + 1)) > 4096) {
      throw ProtocolError(text(port, "burst crosses 4 KiB"));
    }
  }
}

const PortOut& HbmPort::cycle(int port, const PortIn& in, Bytes& memory, Random& random, std::int64_t stall,
                              HbmFaults& faults) {
  ++now_;
  rules(port, in);
  held_ar_ = in.ar_valid && !out_.ar_ready;
  held_aw_ = in.aw_valid && !out_.aw_ready;
  held_w_ = in.w_valid && !out_.w_ready;
  last_ = in;

  if (in.ar_valid && out_.ar_ready) {
    const std::uint64_t ready = now_ + kLatency + (stall ? random.below(64) : 0);
    for (int i = 0; i <= in.ar_len; ++i) {
      Read r = {ready, {}, 0, i == in.ar_len};
      if (faults.errors > 0 && port / kWays != faults.spared) --faults.errors, r.resp = kSlaveError;
      else memory.read(in.ar_addr + static_cast<std::uint64_t>(kBeat * i), r.data, kBeat);
      reads_.push_back(r);
    }
  }
  if (in.aw_valid && out_.aw_ready) bursts_.push_back({in.aw_addr, in.aw_len + 1});
  if (in.w_valid && out_.w_ready) {
    Beat b = {0, {}, in.w_strobe};
    std::memcpy(b.data, in.w_data, kBeat);
    beats_.push_back(b);
    lasts_.push_back(in.w_last);
    ++write_beats;
  }
  while (!bursts_.empty() && beats_.size() >= static_cast<std::size_t>(bursts_.front().beats)) {
    const Burst burst = bursts_.front();
    Write w = {now_ + kLatency / 2 + (stall ? random.below(64) : 0), {}};
    for (int i = 0; i < burst.beats; ++i) {
      if (lasts_.front() != (i == burst.beats - 1)) throw ProtocolError(text(port, "WLAST is on the wrong beat"));
      w.beats.push_back(beats_.front());
      w.beats.back().address = burst.address + static_cast<std::uint64_t>(kBeat * i);
      beats_.pop_front(), lasts_.pop_front();
    }
    bursts_.pop_front();
    writes_.push_back(std::move(w));
  }
  if (out_.r_valid && in.r_ready) {
    reads_.pop_front();
    out_.r_valid = false;
    ++read_beats;
  }
  if (out_.b_valid && in.b_ready) {
    writes_.pop_front();
    out_.b_valid = false;
  }

  const bool hung = faults.hang >> (port / kWays) & 1;
  out_.ar_ready = !hung && reads_.size() < kOpen * 16 && !random.often(stall);
  out_.aw_ready = !hung && bursts_.size() + writes_.size() < kOpen && !random.often(stall);
  out_.w_ready = !hung && beats_.size() < 16 && !random.often(stall);
  if (!out_.r_valid && !reads_.empty() && !hung && reads_.front().ready <= now_ && !random.often(stall)) {
    const Read& r = reads_.front();
    out_.r_valid = true;
    out_.r_last = r.last;
    out_.r_resp = r.resp;
    std::memcpy(out_.r_data, r.data, kBeat);
  }
  if (!out_.b_valid && !writes_.empty() && !hung && writes_.front().ready <= now_ && !random.often(stall)) {
    for (const Beat& b : writes_.front().beats) memory.write(b.address, b.data, b.strobe);
    out_.b_valid = true;
    out_.b_resp = 0;
  }
  return out_;
}

}  // namespace dpu::f2
