// See memory.hpp.

#include "memory.hpp"

#include <algorithm>
#include <cstring>

namespace dpu::rtl {

namespace {

constexpr Time kOne = 65536;  // a byte, in the unit of rates
constexpr int kMaxBeats = 64;
constexpr int kOutstanding = 1024;  // bursts of a port under way, where the timing sets no limit

std::string hex(std::uint64_t x) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(x));
  return text;
}

}  // namespace

Memory::Memory(int tiles, const Timing& timing, const dram::Config* bursts)
    : timing_(timing), random_(static_cast<std::uint64_t>(timing.seed) * 2 + 1), ports_(static_cast<std::size_t>(tiles)) {
  if (timing.mode == 2) {
    config_ = *bursts;
    model_ = std::make_unique<dram::Model>(config_);
    channels_ = static_cast<int>(config_.channels);
  }
  shared_credit_ = timing.shared_rate;
  for (Port& p : ports_) {
    p.read_credit = p.write_credit = timing.port_rate;
    present(p);
  }
}

// Bytes

void Memory::map(std::uint64_t address, std::uint64_t bytes, std::uint8_t* data, bool writable, bool fault) {
  const Range r{address, bytes, data, writable, fault};
  const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), address,
                                   [](const Range& a, std::uint64_t b) { return a.address < b; });
  if (at != ranges_.end() && at->address == address)
    *at = r;
  else
    ranges_.insert(at, r);
}

void Memory::clear() {
  ranges_.clear();
  recent_ = 0;
}

const Memory::Range* Memory::find(std::uint64_t address) const {
  const auto holds = [&](const Range& r) {  // a range ends with its last beat
    return address >= r.address && address - r.address < (r.bytes + kBeat - 1) / kBeat * kBeat;
  };
  if (recent_ < ranges_.size() && holds(ranges_[recent_])) return &ranges_[recent_];
  const auto at = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                                   [](std::uint64_t a, const Range& b) { return a < b.address; });
  if (at == ranges_.begin() || !holds(*(at - 1))) return nullptr;
  recent_ = static_cast<std::size_t>(at - ranges_.begin()) - 1;
  return &ranges_[recent_];
}

std::uint8_t Memory::fetch(std::uint64_t address, std::uint8_t* beat) const {
  const Range* r = find(address);
  const std::uint64_t offset = r ? address - r->address : 0;
  const std::uint64_t n = r && !r->fault ? std::min<std::uint64_t>(kBeat, r->bytes - offset) : 0;
  if (n) std::memcpy(beat, r->data + offset, n);
  std::memset(beat + n, 0, kBeat - n);
  return !r ? kDecodeError : r->fault ? kSlaveError : kOkay;
}

std::uint8_t Memory::check(std::uint64_t address, std::uint64_t strobe) const {
  if (!strobe) return kOkay;
  const Range* r = find(address);
  if (!r) return kDecodeError;
  if (r->fault || !r->writable) return kSlaveError;
  const std::uint64_t n = r->bytes - (address - r->address);
  return n < kBeat && strobe >> n ? kDecodeError : kOkay;
}

void Memory::store(const Burst& b) {
  for (int i = 0; i < b.beats; ++i) {
    const std::uint64_t strobe = b.strobes[static_cast<std::size_t>(i)];
    const std::uint64_t address = b.address + static_cast<std::uint64_t>(i) * kBeat;
    if (!strobe || check(address, strobe) != kOkay) continue;
    const Range* r = find(address);
    std::uint8_t* to = r->data + (address - r->address);
    const std::uint8_t* from = b.data.data() + i * kBeat;
    if (strobe == ~std::uint64_t{0}) {
      std::memcpy(to, from, kBeat);
    } else {
      for (int k = 0; k < kBeat; ++k)
        if (strobe >> k & 1) to[k] = from[k];
    }
  }
}

// Handshakes

Memory::BurstPtr Memory::fresh() {
  if (spare_.empty()) return std::make_unique<Burst>();
  BurstPtr b = std::move(spare_.back());
  spare_.pop_back();
  b->moved = b->pieces = 0;
  b->resp = kOkay;
  b->pieces_ready.clear();
  b->strobes.clear();
  return b;
}

void Memory::recycle(BurstPtr b) { spare_.push_back(std::move(b)); }

// What is offered stays until it is taken; bursts are whole beats, within 4 KiB.
void Memory::rules(int t, const Request& q) {
  Port& p = ports_[static_cast<std::size_t>(t)];
  const std::string who = "tile " + std::to_string(t) + ": ";
  if (p.held_ar && (!q.ar_valid || q.ar_addr != p.last.ar_addr || q.ar_len != p.last.ar_len || q.ar_id != p.last.ar_id))
    throw ProtocolError(who + "AR changed before it was taken");
  if (p.held_aw && (!q.aw_valid || q.aw_addr != p.last.aw_addr || q.aw_len != p.last.aw_len))
    throw ProtocolError(who + "AW changed before it was taken");
  if (p.held_w && (!q.w_valid || q.w_strobe != p.last.w_strobe || q.w_last != p.last.w_last ||
                   std::memcmp(q.w_data, p.held_data, kBeat) != 0))
    throw ProtocolError(who + "W changed before it was taken");
  const auto burst = [&](const char* name, std::uint64_t address, int len, int size, int kind) {
    if (address % kBeat) throw ProtocolError(who + name + " at " + hex(address) + " is not on a beat");
    if (len + 1 > kMaxBeats || address / kPage != (address + static_cast<std::uint64_t>(len) * kBeat) / kPage)
      throw ProtocolError(who + name + " at " + hex(address) + ", " + std::to_string(len + 1) + " beats: over 4 KiB");
    if (size != 6 || kind != 1) throw ProtocolError(who + name + " is not INCR of 64 bytes");
  };
  if (q.ar_valid && !p.held_ar) burst("AR", q.ar_addr, q.ar_len, q.ar_size, q.ar_burst);
  if (q.aw_valid && !p.held_aw) burst("AW", q.aw_addr, q.aw_len, q.aw_size, q.aw_burst);
  p.held_ar = q.ar_valid && !p.reply.ar_ready;
  p.held_aw = q.aw_valid && !p.reply.aw_ready;
  p.held_w = q.w_valid && !p.reply.w_ready;
  if (p.held_w) std::memcpy(p.held_data, q.w_data, kBeat);
  p.last = q;
}

void Memory::take(int t, const Request& q) {
  rules(t, q);
  Port& p = ports_[static_cast<std::size_t>(t)];
  if (q.ar_valid && p.reply.ar_ready) take_read(p, q);
  if (p.reply.r_valid && q.r_ready) {
    Burst& b = *p.shown;
    p.reply.r_valid = false;
    if (!b.id) p.read_bytes -= kBeat;
    if (++b.moved == b.beats) {
      std::deque<BurstPtr>& queue = p.reads[b.id];
      if (!b.id) --p.read_bursts;
      recycle(std::move(queue.front()));
      queue.pop_front();
    }
  }
  if (q.aw_valid && p.reply.aw_ready) {
    BurstPtr b = fresh();
    b->address = b->from = q.aw_addr;
    b->beats = q.aw_len + 1;
    b->id = q.aw_id;
    b->data.resize(static_cast<std::size_t>(b->beats * kBeat));
    if (model_) p.write_bytes += b->beats * kBeat;
    ++p.write_bursts;
    p.writes.push_back(std::move(b));
  }
  if (q.w_valid && p.reply.w_ready) take_write(t, q);
  if (p.reply.b_valid && q.b_ready) {
    p.reply.b_valid = false;
    --p.write_bursts;
    recycle(std::move(p.answers.front()));
    p.answers.pop_front();
  }
}

void Memory::take_read(Port& p, const Request& q) {
  BurstPtr b = fresh();
  b->address = q.ar_addr;
  b->beats = q.ar_len + 1;
  b->id = q.ar_id & 1;
  b->ready = now_ + timing_.latency;
  b->data.resize(static_cast<std::size_t>(b->beats * kBeat));
  b->strobes.resize(static_cast<std::size_t>(b->beats));  // of a read: the response of each beat
  for (int i = 0; i < b->beats; ++i)
    b->strobes[static_cast<std::size_t>(i)] =
        fetch(b->address + static_cast<std::uint64_t>(i) * kBeat, b->data.data() + i * kBeat);
  if (model_) {  // in the pieces in which a DRAM channel serves it
    b->piece_bytes = static_cast<std::uint64_t>(std::min(config_.interleave, config_.stripe * config_.page));
    const std::uint64_t end = b->address + static_cast<std::uint64_t>(b->beats) * kBeat;
    for (std::uint64_t a = b->address; a < end;) {
      const std::uint64_t to = std::min(end, (a / b->piece_bytes + 1) * b->piece_bytes);
      b->pieces_ready.push_back(-1);
      submit(p, b.get(), a, to - a, false, static_cast<int>(b->pieces_ready.size()) - 1);
      a = to;
    }
  }
  if (!b->id) p.read_bytes += b->beats * kBeat, ++p.read_bursts;
  p.reads[b->id].push_back(std::move(b));
}

void Memory::take_write(int t, const Request& q) {
  Port& p = ports_[static_cast<std::size_t>(t)];
  Burst& b = *p.writes.front();
  const std::uint64_t address = b.address + static_cast<std::uint64_t>(b.moved) * kBeat;
  std::memcpy(b.data.data() + b.moved * kBeat, q.w_data, kBeat);
  b.strobes.push_back(q.w_strobe);
  b.resp = std::max(b.resp, check(address, q.w_strobe));
  p.write_credit -= kBeat * kOne;
  shared_credit_ -= kBeat * kOne;
  first_ = static_cast<std::size_t>(t) + 1;
  const bool last = ++b.moved == b.beats;
  if (last != q.w_last) throw ProtocolError("WLAST is not on the last beat of the burst at " + hex(b.address));
  if (model_) {
    const auto piece = static_cast<std::uint64_t>(std::min(config_.interleave, config_.stripe * config_.page));
    if (last || (address + kBeat) % piece == 0) {
      ++b.pieces;
      submit(p, &b, b.from, address + kBeat - b.from, true, 0);
      b.from = address + kBeat;
    }
  }
  if (!last) return;
  b.ready = now_ + timing_.response;
  p.answers.push_back(std::move(p.writes.front()));
  p.writes.pop_front();
}

void Memory::submit(Port& port, Burst* burst, std::uint64_t address, std::uint64_t bytes, bool write, int piece) {
  int tag;
  if (spare_tags_.empty()) {
    tag = static_cast<int>(tags_.size());
    tags_.emplace_back();
  } else {
    tag = spare_tags_.back();
    spare_tags_.pop_back();
  }
  tags_[static_cast<std::size_t>(tag)] = {&port, burst, static_cast<Time>(bytes), piece, write};
  model_->submit(now_, static_cast<Time>(address), static_cast<Time>(bytes), write, tag);
}

// Time

bool Memory::pause() {
  if (!timing_.stall) return false;
  random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
  return static_cast<Time>(random_ >> 20 & 255) < timing_.stall;
}

bool Memory::beat_ready(const Burst& b, Time at) const {
  if (!model_) return b.ready <= at;
  const std::uint64_t a = b.address + static_cast<std::uint64_t>(b.moved) * kBeat;
  const Time ready = b.pieces_ready[static_cast<std::size_t>(a / b.piece_bytes - b.address / b.piece_bytes)];
  return ready >= 0 && ready <= at;
}

// Decide what the port shows in the cycle that begins; whether that is a beat of LOAD's.
bool Memory::present(Port& p) {
  Reply& r = p.reply;
  bool granted = false;
  const bool limited = model_ != nullptr;
  const Time most = limited ? config_.outstanding : kOutstanding;
  const bool room = p.read_bursts < most && (!limited || p.read_bytes + kPage <= config_.buffer || !p.read_bursts);
  r.ar_ready = room && p.reads[1].size() < kOutstanding && !pause();
  r.aw_ready = p.write_bursts < most &&
               (!limited || p.write_bytes + kPage <= config_.buffer || !p.write_bursts) && !pause();
  const bool flow = timing_.mode != 1 || shared_credit_ > 0;
  r.w_ready = !p.writes.empty() && p.write_credit > 0 && flow && !pause();
  if (!r.r_valid && !pause()) {
    Burst* b = nullptr;
    if (!p.reads[1].empty() && beat_ready(*p.reads[1].front(), now_))  // instructions: few, and awaited
      b = p.reads[1].front().get();
    else if (!p.reads[0].empty() && p.read_credit > 0 && flow && beat_ready(*p.reads[0].front(), now_))
      b = p.reads[0].front().get();
    if (b) {
      if (!b->id) p.read_credit -= kBeat * kOne, shared_credit_ -= kBeat * kOne, granted = true;
      p.shown = b;
      r.r_valid = true;
      r.r_id = b->id;
      r.r_last = b->moved + 1 == b->beats;
      r.r_data = b->data.data() + b->moved * kBeat;
      r.r_resp = static_cast<std::uint8_t>(b->strobes[static_cast<std::size_t>(b->moved)]);
    }
  }
  if (!r.b_valid && !p.answers.empty() && !pause()) {
    const Burst& b = *p.answers.front();
    if (b.ready <= now_ && !b.pieces) {
      store(b);
      r.b_valid = true;
      r.b_id = b.id;
      r.b_resp = b.resp;
    }
  }
  return granted;
}

void Memory::end() {
  ++now_;
  if (model_ && model_->due() <= now_) {
    for (;;) {
      const dram::Report report = model_->step(now_);
      if (report.note == dram::Note::kNone) break;
      const Tag& tag = tags_[static_cast<std::size_t>(report.who)];
      if (tag.write) {
        --tag.burst->pieces;
        tag.burst->ready = std::max(tag.burst->ready, report.cycle);
        tag.port->write_bytes -= tag.bytes;
      } else {
        tag.burst->pieces_ready[static_cast<std::size_t>(tag.piece)] = report.cycle;
      }
      spare_tags_.push_back(static_cast<int>(report.who));
    }
  }
  shared_credit_ = std::min(shared_credit_ + timing_.shared_rate, timing_.shared_rate);
  const std::size_t n = ports_.size();
  const std::size_t first = first_;  // who had a beat last waits for the others
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t t = (first + i) % n;
    Port& p = ports_[t];
    p.read_credit = std::min(p.read_credit + timing_.port_rate, timing_.port_rate);
    p.write_credit = std::min(p.write_credit + timing_.port_rate, timing_.port_rate);
    if (present(p)) first_ = t + 1;
  }
}

bool Memory::busy() const {
  for (const Port& p : ports_)
    if (!p.reads[0].empty() || !p.reads[1].empty() || !p.writes.empty() || !p.answers.empty()) return true;
  return false;
}

}  // namespace dpu::rtl
