// See dram_model.hpp.

#include "dram_model.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace dpu::dram {

namespace {
constexpr Time kLongAgo = -(Time{1} << 40);
}

Model::Model(const Config& config)
    : config_(config),
      ports_(static_cast<std::size_t>(config.ports)),
      channels_(static_cast<std::size_t>(config.channels)) {
  const auto banks = static_cast<std::size_t>(config.banks), groups = static_cast<std::size_t>(config.groups);
  Time number = 0;
  for (Channel& x : channels_) {
    x.row.assign(banks, -1);
    x.act.assign(banks, kLongAgo);
    x.pre_ok.assign(banks, kLongAgo);
    x.ready.assign(banks, 0);
    x.group_act.assign(groups, kLongAgo);
    x.group_col.assign(groups, kLongAgo);
    x.group_write.assign(groups, kLongAgo);
    x.acts.assign(4, kLongAgo);
    x.cols.assign(static_cast<std::size_t>(config.window), 0);
    x.used.assign(banks, kLongAgo);
    x.last_ref = x.last_act = x.last_col = x.last_read = x.last_write = kLongAgo;
    ++number;
    const Time first = config.stagger ? config.refresh_interval * number / config.channels : config.refresh_interval;
    x.next_refresh = config.refresh_groups ? first : kNever;
  }
}

void Model::push(Time time, int kind, Time who, int note) {
  Event e{time, sequence_++, who, kind, note};
  if (hot_valid_) {
    if (hot_ > e) std::swap(hot_, e);
    heap_.push(e);
  } else if (heap_.empty() || heap_.top() > e) {
    hot_ = e;
    hot_valid_ = true;
  } else {
    heap_.push(e);
  }
}

Report Model::step(Time limit) {
  const Time end = limit * config_.cycle;
  while (hot_valid_ || !heap_.empty()) {
    const Event e = hot_valid_ ? hot_ : heap_.top();
    if (e.time > end) break;
    if (hot_valid_)
      hot_valid_ = false;
    else
      heap_.pop();
    const auto who = static_cast<std::size_t>(e.who);
    if (e.kind == kIssue) {
      if (e.time == ports_[who].event) issue(static_cast<int>(who), e.time);
    } else if (e.kind == kPick) {
      if (e.time == channels_[who].event) pick(static_cast<int>(who), e.time);
    } else {
      return {static_cast<Note>(e.note), up(e.time, config_.cycle), e.who};
    }
  }
  return {Note::kNone, limit, 0};
}

template <class T>
int Model::take(std::vector<T>& pool, std::vector<int>& spare) {
  if (spare.empty()) {
    pool.emplace_back();
    return static_cast<int>(pool.size()) - 1;
  }
  const int i = spare.back();
  spare.pop_back();
  pool[static_cast<std::size_t>(i)] = T{};
  return i;
}

// Ports

void Model::request(Time cycle, int port, bool write, Time floor, Time address, Time inner, const Time n[3],
                    const Time stride[3]) {
  const Time beat = config_.beat;
  const int id = take(transfers_, spare_transfers_);
  Transfer& t = transfers_[static_cast<std::size_t>(id)];
  t.floor = floor * config_.cycle;
  t.start = cycle * config_.cycle;
  t.write = t.opened = write;
  t.address = address;
  t.run = inner;
  std::copy(n, n + 3, t.n);
  std::copy(stride, stride + 3, t.stride);
  for (int d = 0; d < 3; ++d) {  // runs without a gap are one
    if (t.n[d] != 1 && t.stride[d] != t.run) break;
    t.run *= t.n[d];
    t.n[d] = 1;
  }
  bool even = address % beat == 0;
  for (int d = 0; d < 3; ++d) even = even && (t.n[d] == 1 || t.stride[d] % beat == 0);
  if (even) {
    t.total = t.n[0] * t.n[1] * t.n[2] * (up(t.run, beat) * beat);
  } else {
    for (Time k = 0; k < t.n[2]; ++k)
      for (Time j = 0; j < t.n[1]; ++j)
        for (Time i = 0; i < t.n[0]; ++i) {
          const Time a = address + i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
          t.total += up(a + t.run, beat) * beat - a / beat * beat;
        }
  }
  Port& p = ports_[static_cast<std::size_t>(port)];
  p.issuing.push_back(id);
  p.moving.push_back(id);
  if (!p.blocked) wake(port, std::max(t.start, p.clock));
}

void Model::open(Time cycle, int port) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  transfers_[static_cast<std::size_t>(p.moving.front())].opened = true;
  now_ = cycle * config_.cycle;
  p.free = std::max(p.free, now_);
  deliver(port);
}

void Model::submit(Time cycle, Time address, Time bytes, bool write, Time tag) {
  const int id = take(bursts_, spare_bursts_);
  bursts_[static_cast<std::size_t>(id)].bytes = bytes;
  bursts_[static_cast<std::size_t>(id)].tag = tag;
  enqueue(cycle * config_.cycle + config_.request, address, bytes, write, id, -1);
}

void Model::wake(int port, Time time) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  if (time >= p.event) return;
  p.event = time;
  push(time, kIssue, port);
}

// Send the next burst of the port, if its credits allow it now.
void Model::issue(int port, Time now) {
  now_ = now;
  Port& p = ports_[static_cast<std::size_t>(port)];
  p.event = kNever;
  if (p.issuing.empty()) return;
  const int id = p.issuing.front();
  Transfer& t = transfers_[static_cast<std::size_t>(id)];
  Time address = t.address + t.at[0] * t.stride[0] + t.at[1] * t.stride[1] + t.at[2] * t.stride[2];
  const Time end = up(address + t.run, config_.beat) * config_.beat;
  address = address / config_.beat * config_.beat + t.offset;
  const Time size = std::min(end, (address / config_.burst + 1) * config_.burst) - address;
  Time time = std::max({now, p.clock, t.start});
  while (!p.flight.empty() &&
         (static_cast<Time>(p.flight.size()) >= config_.outstanding || p.bytes + size > config_.buffer)) {
    const Burst& oldest = bursts_[static_cast<std::size_t>(p.flight.front())];
    if (oldest.left) {
      p.blocked = true;  // until its end is known
      return;
    }
    time = std::max(time, oldest.end);
    p.bytes -= oldest.bytes;
    spare_bursts_.push_back(p.flight.front());
    p.flight.pop_front();
  }
  if (time > now) {
    wake(port, time);
    return;
  }
  t.offset += size;
  if (address + size == end) {
    t.offset = 0;
    int d = 0;
    for (; d < 3; ++d) {
      if (++t.at[d] < t.n[d]) break;
      t.at[d] = 0;
    }
    t.issued = d == 3;
  }
  const int burst = take(bursts_, spare_bursts_);
  bursts_[static_cast<std::size_t>(burst)].bytes = size;
  bursts_[static_cast<std::size_t>(burst)].transfer = id;
  p.flight.push_back(burst);
  p.bytes += size;
  ++t.bursts;
  emit(port, burst, now, address, size);
  p.clock = t.write ? std::max(now + config_.cycle, p.free) : now + config_.cycle;
  if (t.issued) {
    p.issuing.pop_front();
    if (t.write) push(p.free, kNote, port, static_cast<int>(Note::kLast));
  }
  if (!p.issuing.empty()) wake(port, p.clock);
}

// Split a burst where it changes channel or row.
void Model::emit(int port, int burst, Time now, Time address, Time bytes) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  Transfer& t = transfers_[static_cast<std::size_t>(bursts_[static_cast<std::size_t>(burst)].transfer)];
  const Time step = std::min(config_.interleave, config_.stripe * config_.page), stop = address + bytes;
  while (address < stop) {
    const Time end = std::min(stop, (address / step + 1) * step), n = end - address;
    if (t.write) {  // the data follow each other through the port
      p.free = std::max(p.free, now) + (t.moved + n) * t.floor / t.total - t.moved * t.floor / t.total;
      t.moved += n;
      enqueue(p.free + config_.request, address, n, true, burst, port);
    } else {
      enqueue(now + config_.request, address, n, false, burst, port);
    }
    address = end;
  }
}

// Pass read data through the port, in order, as far as their times are known.
void Model::deliver(int port) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  while (!p.pieces.empty() && pieces_[static_cast<std::size_t>(p.pieces.front())].done >= 0) {
    const int id = p.pieces.front();
    const Piece& piece = pieces_[static_cast<std::size_t>(id)];
    const int transfer = p.moving.front();
    Transfer& t = transfers_[static_cast<std::size_t>(transfer)];
    if (!t.opened) {
      if (!t.announced) {
        t.announced = true;
        push(std::max(piece.done, p.free), kNote, port, static_cast<int>(Note::kFirst));
      }
      return;
    }
    p.free = std::max(p.free, piece.done);
    p.free += (t.moved + piece.bytes) * t.floor / t.total - t.moved * t.floor / t.total;
    t.moved += piece.bytes;
    p.pieces.pop_front();
    spare_pieces_.push_back(id);
    Burst& burst = bursts_[static_cast<std::size_t>(piece.burst)];
    if (--burst.left == 0) {
      burst.end = p.free;
      if (p.blocked) {
        p.blocked = false;
        wake(port, now_);
      }
    }
    if (t.moved == t.total) {
      push(p.free, kNote, port, static_cast<int>(Note::kLast));
      p.moving.pop_front();
      spare_transfers_.push_back(transfer);
    }
  }
}

void Model::served(int id, Time done) {
  Piece& piece = pieces_[static_cast<std::size_t>(id)];
  const int port = piece.port;
  if (port >= 0 && !piece.write) {
    piece.done = done + config_.response;
    deliver(port);
    return;
  }
  const int burst_id = piece.burst;
  spare_pieces_.push_back(id);
  Burst& burst = bursts_[static_cast<std::size_t>(burst_id)];
  burst.end = std::max(burst.end, done + config_.response);
  if (--burst.left) return;
  if (port < 0) {
    push(burst.end, kNote, burst.tag, static_cast<int>(Note::kDone));
    spare_bursts_.push_back(burst_id);
    return;
  }
  Port& p = ports_[static_cast<std::size_t>(port)];
  Transfer& t = transfers_[static_cast<std::size_t>(burst.transfer)];
  --t.bursts;
  t.end = std::max(t.end, burst.end);
  if (p.blocked) {
    p.blocked = false;
    wake(port, now_);
  }
  while (!p.moving.empty()) {
    const Transfer& oldest = transfers_[static_cast<std::size_t>(p.moving.front())];
    if (!oldest.issued || oldest.bursts) return;
    p.response = std::max(p.response, oldest.end);
    spare_transfers_.push_back(p.moving.front());
    p.moving.pop_front();
    push(p.response, kNote, port, static_cast<int>(Note::kResponse));
  }
}

// Channels

// Give the parts of [address, address + bytes) to their channels.
void Model::enqueue(Time arrival, Time address, Time bytes, bool write, int burst, int port) {
  const Config& c = config_;
  const Time step = std::min(c.interleave, c.stripe * c.page), stop = address + bytes;
  while (address < stop) {
    const Time end = std::min(stop, (address / step + 1) * step);
    const int id = take(pieces_, spare_pieces_);
    Piece& piece = pieces_[static_cast<std::size_t>(id)];
    piece.arrival = arrival;
    piece.bytes = end - address;
    piece.write = write;
    piece.burst = burst;
    piece.port = port;
    const Time block = address / c.interleave, above = block / c.channels;
    Time number = block % c.channels;
    if (c.channel_hash && c.channels > 1)
      for (Time x = above; x; x /= c.channels) number ^= x % c.channels;
    const Time local = above * c.interleave + address % c.interleave, first = local / c.access;
    piece.first = first % c.stripe;
    piece.count = up(local + piece.bytes, c.access) - first;
    const Time page = local / (c.stripe * c.page), banks = c.banks / c.stripe;
    Time bank;
    if (c.bank_major) {
      piece.row = page % c.rows;
      bank = page / c.rows % banks;
    } else {
      piece.row = page / banks;
      bank = page % banks;
    }
    if (c.bank_xor) bank ^= piece.row % banks;
    piece.bank = bank * c.stripe;
    ++bursts_[static_cast<std::size_t>(burst)].left;
    if (port >= 0 && !write) ports_[static_cast<std::size_t>(port)].pieces.push_back(id);
    Channel& x = channels_[static_cast<std::size_t>(number)];
    std::deque<int>& queue = x.queue[write];
    auto at = queue.end();
    while (at != queue.begin() && pieces_[static_cast<std::size_t>(*(at - 1))].arrival > arrival) --at;
    queue.insert(at, id);
    schedule(static_cast<int>(number), std::max(arrival, x.cols[x.col_at] * c.tick));
    address = end;
  }
}

void Model::schedule(int channel, Time time) {
  Channel& x = channels_[static_cast<std::size_t>(channel)];
  if (time >= x.event) return;
  x.event = time;
  push(time, kPick, channel);
}

// Take the next piece into the window, serve it, and look when the next one may follow.
void Model::pick(int channel, Time now) {
  now_ = now;
  Channel& x = channels_[static_cast<std::size_t>(channel)];
  x.event = kNever;
  bool have[2];
  for (int way = 0; way < 2; ++way)
    have[way] = !x.queue[way].empty() && pieces_[static_cast<std::size_t>(x.queue[way].front())].arrival <= now;
  bool way = x.write;
  if (!have[way] || (x.run >= config_.batch && have[!way])) way = !way;
  if (have[way]) {
    if (way != x.write) {
      x.write = way;
      x.run = 0;
      ++x.counters.turns;
    }
    ++x.run;
    const Time clock = up(now, config_.tick);
    forget(x, clock);
    if (x.next_refresh <= clock) refresh(x, clock);
    std::deque<int>& queue = x.queue[way];
    std::size_t at = 0;
    Piece& oldest = pieces_[static_cast<std::size_t>(queue.front())];
    if (oldest.skipped < config_.batch) {
      const std::size_t depth = std::min(static_cast<std::size_t>(config_.reorder), queue.size());
      for (std::size_t i = 0; i < depth; ++i) {
        const Piece& p = pieces_[static_cast<std::size_t>(queue[i])];
        if (p.arrival > now) break;
        if (hit(x, p)) {
          at = i;
          break;
        }
      }
    }
    if (at) ++oldest.skipped;
    const int id = queue[at];
    queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(at));
    served(id, serve(x, pieces_[static_cast<std::size_t>(id)], clock) * config_.tick);
  }
  Time first = kNever;
  for (const std::deque<int>& queue : x.queue)
    if (!queue.empty()) first = std::min(first, pieces_[static_cast<std::size_t>(queue.front())].arrival);
  if (first < kNever) schedule(channel, std::max({now, first, x.cols[x.col_at] * config_.tick}));
}

bool Model::hit(const Channel& x, const Piece& piece) const {
  const Time k = config_.stripe;
  for (Time j = 0; j < std::min(k, piece.count); ++j)
    if (x.row[static_cast<std::size_t>(piece.bank + (piece.first + j) % k)] != piece.row) return false;
  return true;
}

// Drop what no command from clock `now` on, nor the next refresh, can meet.
void Model::forget(Channel& x, Time now) {
  const Time base = std::min(now, x.next_refresh);
  while (!x.bus.empty() && x.base + 64 <= base) {
    x.bus.pop_front();
    x.base += 64;
  }
  if (x.bus.empty()) x.base = base / 64 * 64;
  while (!x.refs.empty() && x.refs.front().sent + config_.pbr2act <= now) x.refs.pop_front();
}

bool Model::mark(Channel& x, Time at) {
  const auto word = static_cast<std::size_t>((at - x.base) / 64);
  while (word >= x.bus.size()) x.bus.push_back(0);
  const std::uint64_t bit = std::uint64_t{1} << ((at - x.base) % 64), old = x.bus[word];
  x.bus[word] = old | bit;
  return !(old & bit);
}

void Model::clear(Channel& x, Time at) {
  x.bus[static_cast<std::size_t>((at - x.base) / 64)] &= ~(std::uint64_t{1} << ((at - x.base) % 64));
}

// The first free slot of the command bus from clock `at` on.
Time Model::free_slot(const Channel& x, Time at) {
  auto word = static_cast<std::size_t>((at - x.base) / 64);
  Time bit = (at - x.base) % 64;
  for (; word < x.bus.size(); ++word, bit = 0)
    for (; bit < 64; ++bit)
      if (!(x.bus[word] >> bit & 1)) return x.base + static_cast<Time>(word) * 64 + bit;
  return std::max(at, x.base + static_cast<Time>(x.bus.size()) * 64);
}

// Take the first free slots of the command bus from clock `at` on; the clock of the first.
Time Model::take_slot(Channel& x, Time at, Time slots) {
  const Time first = free_slot(x, at);
  mark(x, first);
  at = first;
  for (Time i = 1; i < slots; ++i) {
    at = free_slot(x, at + 1);
    mark(x, at);
  }
  return first;
}

// All refreshes that are due by clock `now`: after the pieces that entered before, before all later ones.
void Model::refresh(Channel& x, Time now) {
  const Config& c = config_;
  const Time around = c.refresh_groups * c.refresh_interval;
  const auto all = static_cast<std::size_t>(c.banks), groups = static_cast<std::size_t>(c.refresh_groups);
  const std::size_t size = all / groups;
  while (x.next_refresh <= now) {
    if (x.next_refresh > x.last_col && now - x.next_refresh >= 2 * around) {
      const Time rounds = (now - x.next_refresh) / around - 1;  // an idle channel: whole rounds go by
      x.next_refresh += rounds * around;
      x.counters.refreshes += rounds * c.refresh_groups;
      for (std::size_t b = 0; b < all; ++b) {
        if (x.row[b] < 0) continue;
        x.row[b] = -1;
        x.ready[b] = std::max(x.ready[b], x.pre_ok[b] + c.rp);
      }
      forget(x, now);
    }
    const Time due = x.next_refresh;
    Time soonest = kNever;
    std::size_t group = static_cast<std::size_t>(x.newest) / size, best = 0;
    for (std::size_t i = 0; i < groups; ++i) {  // one that no piece needs, behind the stream first, else soonest free
      group = (group ? group : groups) - 1;
      Time until = due - 1;
      for (std::size_t b = group * size; b < (group + 1) * size; ++b) until = std::max(until, x.used[b]);
      if (!(x.refreshed >> group & 1) && until < soonest) {
        best = group;
        soonest = until;
      }
    }
    x.refreshed |= std::uint64_t{1} << best;
    if (x.refreshed == ~std::uint64_t{0} >> (64 - groups)) x.refreshed = 0;
    Refresh r;
    r.from = best * size;
    r.to = r.from + size;
    r.floor = std::max({due, x.last_ref + c.pbr2pbr, x.last_act + c.rrd_s});
    Time closed = due;
    for (std::size_t b = r.from; b < r.to; ++b) {
      r.floor = std::max(r.floor, x.ready[b]);
      if (x.row[b] < 0) continue;
      closed = std::max(closed, x.pre_ok[b]);
      if (groups > 1) r.precharges.push_back(take_slot(x, std::max(due, x.pre_ok[b])));
      else if (r.precharges.empty()) r.precharges.push_back(0);
      x.row[b] = -1;
    }
    if (groups == 1 && !r.precharges.empty()) r.precharges[0] = take_slot(x, closed);  // one command for all
    x.refs.push_back(std::move(r));
    send(x, x.refs.back());
    x.next_refresh += c.refresh_interval;
    ++x.counters.refreshes;
  }
}

// Find the slot of a refresh command.
void Model::send(Channel& x, Refresh& r) {
  r.ready = r.floor;
  for (const Time at : r.precharges) r.ready = std::max(r.ready, at + config_.rp);
  r.sent = x.last_ref = take_slot(x, r.ready);
  for (std::size_t b = r.from; b < r.to; ++b) x.ready[b] = r.sent + config_.rfc;
}

// Columns took the slots `met_` of the one bus: commands for rows that wanted them go later.
void Model::give_way(Channel& x) {
  for (const Time at : met_) {
    bool met_refresh = false;
    for (std::size_t i = 0; i < x.refs.size() && !met_refresh; ++i) {
      Refresh& r = x.refs[i];
      const auto found = std::find(r.precharges.begin(), r.precharges.end(), at);
      if (found != r.precharges.end()) {
        *found = take_slot(x, at + 1);
        clear(x, r.sent);
      } else if (at == r.sent) {
        r.floor = std::max(r.floor, at);
      } else {
        continue;
      }
      send(x, r);
      for (std::size_t k = i + 1; k < x.refs.size(); ++k) {
        clear(x, x.refs[k].sent);
        x.refs[k].floor = std::max(x.refs[k].floor, x.refs[k - 1].sent + config_.pbr2pbr);
        send(x, x.refs[k]);
      }
      met_refresh = true;
    }
    if (!met_refresh) take_slot(x, at + 1);  // the second slot of the piece's own activation
  }
}

// When an activation that is allowed from clock `at` on goes over the bus, clear of per-bank refreshes.
Time Model::activate(Channel& x, Time at) {
  at = free_slot(x, at);
  for (const Refresh& r : x.refs)
    if (r.ready - config_.rrd_s < at && at < r.sent + config_.pbr2act) at = free_slot(x, r.sent + config_.pbr2act);
  return take_slot(x, at, config_.act_clocks);
}

// Commands of one piece from clock `now` on; the clock after its last data.
Time Model::serve(Channel& x, const Piece& piece, Time now) {
  const Config& c = config_;
  const Time at = std::max(now, x.last_col + c.ccd_s);
  const bool write = piece.write;
  const Time k = c.stripe, step = k > 1 ? c.ccd_s : c.ccd_l, banks = std::min(k, piece.count);
  const Time rcd = write ? c.rcd_write : c.rcd_read, tail = c.wl + c.bl;
  const Time turn = write ? x.last_read + c.rtw : x.last_write + tail + c.wtr_s;
  Time col = at - step, plain = col, wait = 0;  // plain: where the column would be had the bus never turned round
  cols_.clear();
  for (Time j = 0; j < banks; ++j) {
    const auto b = static_cast<std::size_t>(piece.bank + (piece.first + j) % k);
    const std::size_t g = b % static_cast<std::size_t>(c.groups);
    if (x.row[b] != piece.row) {
      Time act;
      if (x.row[b] >= 0) {
        act = take_slot(x, std::max(now, x.pre_ok[b])) + c.rp;
        ++x.counters.conflicts;
      } else {
        act = std::max(now, x.ready[b]);
        wait = std::max(wait, x.ready[b] - at);
        ++x.counters.misses;
      }
      act = std::max({act, x.act[b] + c.rc, x.last_act + c.rrd_s, x.group_act[g] + c.rrd_l, x.acts[x.act_at] + c.faw});
      act = activate(x, act);
      x.row[b] = piece.row;
      x.act[b] = x.last_act = x.group_act[g] = x.acts[x.act_at] = act;
      x.act_at = (x.act_at + 1) % 4;
      x.pre_ok[b] = act + c.ras;
      --x.counters.hits;
    }
    const Time first = std::max(x.act[b] + rcd, x.group_col[g] + c.ccd_l);
    plain = std::max(plain + step, first);
    col = std::max({col + step, first, turn});
    if (!write) col = std::max(col, x.group_write[g] + tail + c.wtr_l);
    cols_.push_back(col);
  }
  x.counters.refresh_wait += wait;
  x.counters.turnaround += col - plain;
  x.counters.hits += piece.count;
  const Time last = col + (piece.count - banks) * step, recover = write ? tail + c.wr : c.rtp;
  if (c.one_bus) {
    met_.clear();
    for (const Time at_col : cols_)
      if (!mark(x, at_col)) met_.push_back(at_col);
    for (Time at_col = cols_.back() + step; at_col <= last; at_col += step)
      if (!mark(x, at_col)) met_.push_back(at_col);
    if (!met_.empty()) give_way(x);
  }
  for (Time j = 0; j < banks; ++j) {
    const auto b = static_cast<std::size_t>(piece.bank + (piece.first + j) % k);
    const std::size_t g = b % static_cast<std::size_t>(c.groups);
    const Time index = j + (piece.count - 1 - j) / k * k;  // the last column of this bank
    const Time end = index >= banks ? last - (piece.count - 1 - index) * step : cols_[static_cast<std::size_t>(j)];
    x.group_col[g] = end;
    if (write) x.group_write[g] = end;
    x.pre_ok[b] = std::max(x.pre_ok[b], end + recover);
    x.used[b] = last;
  }
  x.newest = piece.bank;
  x.last_col = last;
  (write ? x.last_write : x.last_read) = last;
  x.cols[x.col_at] = last;
  x.col_at = (x.col_at + 1) % static_cast<std::size_t>(c.window);
  (write ? x.counters.bytes_written : x.counters.bytes_read) += piece.bytes;
  const Time done = last + (write ? c.wl : c.rl) + c.bl;
  x.counters.last = std::max(x.counters.last, done);
  return done;
}

}  // namespace dpu::dram

using dpu::dram::Model;

extern "C" {

void* dpu_dram_new(const std::int64_t* config, std::int64_t fields) {
  if (fields != static_cast<std::int64_t>(dpu::dram::kFields)) return nullptr;
  dpu::dram::Config c;
  std::memcpy(&c, config, sizeof(c));
  return new Model(c);
}

void dpu_dram_free(void* model) { delete static_cast<Model*>(model); }

std::int64_t dpu_dram_request(void* model, std::int64_t cycle, std::int64_t port, std::int64_t write,
                              std::int64_t floor, std::int64_t address, std::int64_t inner, std::int64_t n1,
                              std::int64_t n2, std::int64_t n3, std::int64_t s1, std::int64_t s2, std::int64_t s3) {
  const std::int64_t n[3] = {n1, n2, n3}, stride[3] = {s1, s2, s3};
  Model& m = *static_cast<Model*>(model);
  m.request(cycle, static_cast<int>(port), write != 0, floor, address, inner, n, stride);
  return m.due();
}

std::int64_t dpu_dram_open(void* model, std::int64_t cycle, std::int64_t port) {
  Model& m = *static_cast<Model*>(model);
  m.open(cycle, static_cast<int>(port));
  return m.due();
}

std::int64_t dpu_dram_submit(void* model, std::int64_t cycle, std::int64_t address, std::int64_t bytes,
                             std::int64_t write, std::int64_t tag) {
  Model& m = *static_cast<Model*>(model);
  m.submit(cycle, address, bytes, write != 0, tag);
  return m.due();
}

std::int64_t dpu_dram_step(void* model, std::int64_t limit, std::int64_t* out) {
  Model& m = *static_cast<Model*>(model);
  const dpu::dram::Report r = m.step(limit);
  out[0] = static_cast<std::int64_t>(r.note);
  out[1] = r.cycle;
  out[2] = r.who;
  return m.due();
}

void dpu_dram_counters(void* model, std::int64_t channel, std::int64_t* out) {
  const dpu::dram::Counters c = static_cast<Model*>(model)->counters(static_cast<int>(channel));
  std::memcpy(out, &c, sizeof(c));
}

}
