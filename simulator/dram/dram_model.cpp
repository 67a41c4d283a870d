// See dram_model.hpp.

#include "dram_model.hpp"

#include <algorithm>
#include <cstring>

namespace dpu::dram {

namespace {

constexpr Time kLongAgo = -(Time{1} << 40);

}  // namespace

Model::Model(const Config& config)
    : config_(config),
      clocks_a_unit_(1.0 / static_cast<double>(config.tick)),
      channels_of_(config.channels),
      banks_of_(config.banks / config.stripe),
      groups_of_(config.groups),
      stripe_(config.stripe),
      access_(config.access),
      page_(config.stripe * config.page),
      interleave_(config.interleave),
      beat_(config.beat),
      burst_(config.burst),
      line_(std::max<Time>(1, config.l2_line)),
      slice_(std::max<Time>(1, config.l2_slices)),
      unit_(std::min(config.interleave, config.stripe * config.page)),
      ports_(static_cast<std::size_t>(config.ports)),
      channels_(static_cast<std::size_t>(config.channels)),
      lines_(static_cast<std::size_t>(config.l2_sets * config.l2_ways)),
      slices_(static_cast<std::size_t>(slice_.number())),
      cols_(static_cast<std::size_t>(config.stripe)) {
  Bank bank;
  bank.act = bank.pre_ok = bank.used = kLongAgo;
  Group group;
  group.act = group.col = group.write = kLongAgo;
  Time number = 0;
  for (Channel& x : channels_) {
    x.banks.assign(static_cast<std::size_t>(config.banks), bank);
    x.ready.assign(static_cast<std::size_t>(config.banks), 0);
    x.group_ready.assign(static_cast<std::size_t>(config.refresh_groups), 0);
    x.open.assign(static_cast<std::size_t>(up(config.banks, 64)), 0);
    x.groups.assign(static_cast<std::size_t>(config.groups), group);
    std::fill(x.acts, x.acts + 4, kLongAgo);
    x.cols.assign(static_cast<std::size_t>(config.window), 0);
    x.last_ref = x.last_act = x.last_col = x.last_read = x.last_write = kLongAgo;
    ++number;
    const Time first = config.stagger ? config.refresh_interval * number / config.channels : config.refresh_interval;
    x.next_refresh = config.refresh_groups ? first : kNever;
  }
}

Report Model::step(Time limit) {
  const Time end = std::min(limit * config_.cycle, kNever - 1);
  for (Time time; (time = events_.next()) <= end;) {
    const Calendar::Event e = events_.pop();
    if (e.kind == kIssue) {
      if (time == ports_[static_cast<std::size_t>(e.who)].event) issue(static_cast<int>(e.who), time);
    } else if (e.kind == kPick) {
      if (time == channels_[static_cast<std::size_t>(e.who)].event) pick(static_cast<int>(e.who), time);
    } else if (e.kind == kFilled) {
      filled(static_cast<std::size_t>(e.who), time);
    } else {
      return {static_cast<Note>(e.note), up(time, config_.cycle), e.who};
    }
  }
  return {Note::kNone, limit, 0};
}

// Ports

void Model::request(Time cycle, int port, bool write, Time floor, Time address, Time inner, const Time n[3],
                    const Time stride[3], bool cached) {
  const Time beat = config_.beat;
  Port& p = ports_[static_cast<std::size_t>(port)];
  Transfer& t = p.moving.grow();
  t = Transfer{};
  t.floor = floor * config_.cycle;
  t.start = cycle * config_.cycle;
  t.write = t.opened = write;
  t.cached = cached && !write && config_.l2_sets > 0;
  t.address = address;
  t.run = inner;
  std::copy(n, n + 3, t.n);
  std::copy(stride, stride + 3, t.stride);
  for (int d = 0; d < 3; ++d) {  // runs without a gap are one
    if (t.n[d] != 1 && t.stride[d] != t.run) break;
    t.run *= t.n[d];
    t.n[d] = 1;
  }
  bool even = beat_.mod(address) == 0;
  for (int d = 0; d < 3; ++d) even = even && (t.n[d] == 1 || beat_.mod(t.stride[d]) == 0);
  if (even) {
    t.total = t.n[0] * t.n[1] * t.n[2] * (beat_.up(t.run) * beat);
  } else {
    for (Time k = 0; k < t.n[2]; ++k)
      for (Time j = 0; j < t.n[1]; ++j)
        for (Time i = 0; i < t.n[0]; ++i) {
          const Time a = address + i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
          t.total += (beat_.up(a + t.run) - beat_.div(a)) * beat;
        }
  }
  begin_run(t);
  if (!p.blocked) wake(port, std::max(t.start, p.clock));
}

// Whole beats of the run that issuing has come to.
void Model::begin_run(Transfer& t) {
  const Time address = t.address + t.at[0] * t.stride[0] + t.at[1] * t.stride[1] + t.at[2] * t.stride[2];
  t.from = beat_.div(address) * config_.beat;
  t.to = beat_.up(address + t.run) * config_.beat;
}

// Units in which so many bytes more pass the port: the differences of moved * floor / total, rounded down.
Time Model::pass(Transfer& t, Time bytes) {
  if (bytes != t.step) {
    t.step = bytes;
    t.quotient = bytes * t.floor / t.total;
    t.remainder = bytes * t.floor % t.total;
  }
  t.moved += bytes;
  t.rest += t.remainder;
  if (t.rest < t.total) return t.quotient;
  t.rest -= t.total;
  return t.quotient + 1;
}

void Model::open(Time cycle, int port) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  p.moving.front().opened = true;
  now_ = cycle * config_.cycle;
  p.free = std::max(p.free, now_);
  deliver(port);
}

void Model::submit(Time cycle, Time address, Time bytes, bool write, Time tag) {
  if (spare_bursts_.empty()) {
    spare_bursts_.push_back(bursts_.size());
    bursts_.emplace_back();
  }
  const std::size_t id = spare_bursts_.back();
  spare_bursts_.pop_back();
  bursts_[id] = Burst{};
  bursts_[id].tag = tag;
  const Time stop = address + bytes, arrival = cycle * config_.cycle + config_.request;
  while (address < stop) {
    const Time end = std::min(stop, (address / unit_ + 1) * unit_);
    enqueue(arrival, address, end - address, write, id, -1);
    address = end;
  }
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
  if (p.issuing == p.moving.end()) return;
  Transfer& t = p.moving[p.issuing];
  const Time address = t.from, size = std::min(t.to, (burst_.div(address) + 1) * config_.burst) - address;
  Time time = std::max({now, p.clock, t.start});
  while (!p.flight.empty() &&
         (static_cast<Time>(p.flight.size()) >= config_.outstanding || p.bytes + size > config_.buffer)) {
    const Burst& oldest = p.flight.front();
    if (oldest.left) {
      p.blocked = true;  // until its end is known
      return;
    }
    time = std::max(time, oldest.end);
    p.bytes -= oldest.bytes;
    p.flight.pop();
  }
  if (time > now) {
    wake(port, time);
    return;
  }
  t.from += size;
  if (t.from == t.to) {
    int d = 0;
    for (; d < 3; ++d) {
      if (++t.at[d] < t.n[d]) break;
      t.at[d] = 0;
    }
    t.issued = d == 3;
    begin_run(t);
  }
  const std::size_t burst = p.flight.end();
  Burst& b = p.flight.grow();
  b.bytes = size;
  b.end = 0;
  b.left = 0;
  b.transfer = p.issuing;
  p.bytes += size;
  ++t.bursts;
  if (t.cached)
    look_up(port, burst, now, address, size);
  else
    emit(port, t, burst, now, address, size);
  p.clock = t.write ? std::max(now + config_.cycle, p.free) : now + config_.cycle;
  if (t.issued) {
    ++p.issuing;
    if (t.write) push(p.free, kNote, port, Note::kLast);
  }
  if (p.issuing != p.moving.end()) wake(port, p.clock);
}

// Split a burst where it changes channel or row.
void Model::emit(int port, Transfer& t, std::size_t burst, Time now, Time address, Time bytes) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  const Time stop = address + bytes;
  while (address < stop) {
    const Time end = std::min(stop, (address & ~(unit_ - 1)) + unit_), n = end - address;
    ++p.flight[burst].left;
    if (t.write) {  // the data follow each other through the port
      p.free = std::max(p.free, now) + pass(t, n);
      enqueue(p.free + config_.request, address, n, true, burst, port);
    } else {
      const std::size_t place = p.pieces.end();
      p.pieces.push({-1, burst, static_cast<int>(n)});
      enqueue(now + config_.request, address, n, false, place, port);
    }
    address = end;
  }
}

// Ask the L2 for a burst, line by line.
void Model::look_up(int port, std::size_t burst, Time now, Time address, Time bytes) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  const auto ways = static_cast<std::size_t>(config_.l2_ways);
  for (const Time stop = address + bytes; address < stop;) {
    const Time line = line_.div(address), end = std::min(stop, (line + 1) * config_.l2_line);
    ++p.flight[burst].left;
    const std::size_t place = p.pieces.end();
    p.pieces.push({-1, burst, static_cast<int>(end - address)});
    Line* const first = &lines_[static_cast<std::size_t>(line % config_.l2_sets) * ways];
    std::size_t way = 0;
    while (way < ways && first[way].line != line) ++way;
    Line found = {line, -1};
    if (way < ways) {
      found = first[way];
      if (found.fill < 0) {
        ++l2_.hits;
        slice(p.pieces[place], line, now, config_.l2_latency);
      } else {
        ++l2_.merged;
        fills_[static_cast<std::size_t>(found.fill)].waiting.push_back({port, place});
      }
    } else {
      ++l2_.misses;
      way = ways - 1;  // the least recently used leaves
      if (spare_fills_.empty()) {
        spare_fills_.push_back(fills_.size());
        fills_.emplace_back();
      }
      const std::size_t id = spare_fills_.back();
      spare_fills_.pop_back();
      Fill& fill = fills_[id];
      fill.line = line;
      fill.end = fill.left = 0;
      fill.waiting.clear();
      fill.waiting.push_back({port, place});
      found.fill = static_cast<int>(id);
      const Time from = line * config_.l2_line;
      for (Time at = from; at < from + config_.l2_line; at += std::min(unit_, config_.l2_line)) {
        ++fill.left;
        enqueue(now + config_.request, at, std::min(unit_, config_.l2_line), false, id, kL2);
      }
    }
    for (; way; --way) first[way] = first[way - 1];
    first[0] = found;
    address = end;
  }
  deliver(port);
}

// A piece passes the slice of its line, first come, first served, and is at its port `way` later.
void Model::slice(Delivery& piece, Time line, Time now, Time way) {
  Time& free = slices_[static_cast<std::size_t>(slice_.mod(line))];
  free = std::max(now, free) + up(piece.bytes, config_.l2_rate) * config_.cycle;
  piece.done = free + way;
  l2_.bytes += piece.bytes;
}

// A line is there: it stays, unless another has taken its place, and goes to all who wait.
void Model::filled(std::size_t id, Time now) {
  now_ = now;
  const Fill& fill = fills_[id];
  Line* const first = &lines_[static_cast<std::size_t>((fill.line % config_.l2_sets) * config_.l2_ways)];
  for (Line* x = first; x != first + config_.l2_ways; ++x)
    if (x->fill == static_cast<int>(id)) x->fill = -1;
  for (const Waiting& w : fill.waiting) {
    slice(ports_[static_cast<std::size_t>(w.port)].pieces[w.place], fill.line, now, config_.response);
    deliver(w.port);
  }
  spare_fills_.push_back(id);
}

// Pass read data through the port, in order, as far as their times are known.
void Model::deliver(int port) {
  Port& p = ports_[static_cast<std::size_t>(port)];
  while (!p.pieces.empty() && p.pieces.front().done >= 0) {
    const Delivery& piece = p.pieces.front();
    Transfer& t = p.moving.front();
    if (!t.opened) {
      if (!t.announced) {
        t.announced = true;
        push(std::max(piece.done, p.free), kNote, port, Note::kFirst);
      }
      return;
    }
    p.free = std::max(p.free, piece.done) + pass(t, piece.bytes);
    Burst& burst = p.flight[piece.burst];
    p.pieces.pop();
    if (--burst.left == 0) {
      burst.end = p.free;
      if (p.blocked) {
        p.blocked = false;
        wake(port, now_);
      }
    }
    if (t.moved == t.total) {
      push(p.free, kNote, port, Note::kLast);
      p.moving.pop();
    }
  }
}

void Model::served(const Piece& piece, Time done) {
  const int port = piece.port;
  if (port == kL2) {
    Fill& fill = fills_[piece.place];
    fill.end = std::max(fill.end, done);
    if (!--fill.left) push(fill.end, kFilled, static_cast<Time>(piece.place));
    return;
  }
  if (port < 0) {
    Burst& burst = bursts_[piece.place];
    burst.end = std::max(burst.end, done + config_.response);
    if (--burst.left) return;
    push(burst.end, kNote, burst.tag, Note::kDone);
    spare_bursts_.push_back(piece.place);
    return;
  }
  Port& p = ports_[static_cast<std::size_t>(port)];
  if (!piece.write) {
    p.pieces[piece.place].done = done + config_.response;
    deliver(port);
    return;
  }
  Burst& burst = p.flight[piece.place];
  burst.end = std::max(burst.end, done + config_.response);
  if (--burst.left) return;
  Transfer& t = p.moving[burst.transfer];
  --t.bursts;
  t.end = std::max(t.end, burst.end);
  if (p.blocked) {
    p.blocked = false;
    wake(port, now_);
  }
  while (!p.moving.empty()) {
    const Transfer& oldest = p.moving.front();
    if (!oldest.issued || oldest.bursts) return;
    p.response = std::max(p.response, oldest.end);
    p.moving.pop();
    push(p.response, kNote, port, Note::kResponse);
  }
}

// Channels

// Give a piece to its channel.
void Model::enqueue(Time arrival, Time address, Time bytes, bool write, std::size_t place, int port) {
  const Time block = interleave_.div(address), above = channels_of_.div(block);
  Time number = channels_of_.mod(block);
  if (config_.channel_hash && config_.channels > 1)
    for (Time x = above; x > 0; x = channels_of_.div(x)) number ^= channels_of_.mod(x);
  const Time local = above * config_.interleave + interleave_.mod(address), first = access_.div(local);
  const Time page = page_.div(local);
  Time row = banks_of_.div(page), bank = banks_of_.mod(page);
  if (config_.bank_major) {
    row = page % config_.rows;
    bank = banks_of_.mod(page / config_.rows);
  }
  if (config_.bank_xor) bank ^= banks_of_.mod(row);
  if (port == -1) ++bursts_[place].left;
  Channel& x = channels_[static_cast<std::size_t>(number)];
  Ring<Piece>& queue = x.queue[write];
  Piece* piece = &queue.grow();
  for (std::size_t at = queue.end() - 1; at != queue.begin() && queue[at - 1].arrival > arrival; --at) {
    queue[at] = queue[at - 1];
    piece = &queue[at - 1];
  }
  piece->arrival = arrival;
  piece->row = row;
  piece->bank = static_cast<int>(bank * config_.stripe);
  piece->first = static_cast<int>(stripe_.mod(first));
  piece->count = static_cast<int>(access_.up(local + bytes) - first);
  piece->bytes = static_cast<int>(bytes);
  piece->port = port;
  piece->skipped = 0;
  piece->place = static_cast<unsigned>(place);
  piece->write = write;
  schedule(number, std::max(arrival, x.cols[x.col_at] * config_.tick));
}

void Model::schedule(Time channel, Time time) {
  Channel& x = channels_[static_cast<std::size_t>(channel)];
  if (time >= x.event) return;
  x.event = time;
  push(time, kPick, channel);
}

// The first DRAM clock from a time on. The product is off by less than one, which the second line mends.
Time Model::clock(Time units) const {
  Time found = static_cast<Time>(static_cast<double>(units) * clocks_a_unit_);
  for (found -= found > 0; found * config_.tick < units;) ++found;
  return found;
}

// Take the next piece into the window, serve it, and look when the next one may follow.
void Model::pick(int channel, Time now) {
  now_ = now;
  Channel& x = channels_[static_cast<std::size_t>(channel)];
  x.event = kNever;
  bool have[2];
  for (int way = 0; way < 2; ++way) have[way] = !x.queue[way].empty() && x.queue[way].front().arrival <= now;
  bool way = x.write;
  if (!have[way] || (x.run >= config_.batch && have[!way])) way = !way;
  if (have[way]) {
    if (way != x.write) {
      x.write = way;
      x.run = 0;
      ++x.counters.turns;
    }
    ++x.run;
    const Time now_clock = clock(now);
    const bool refreshing = x.next_refresh <= now_clock;
    if (config_.one_bus || refreshing) forget(x, now_clock);  // on a bus of their own rows' commands meet nothing old
    if (refreshing) refresh(x, now_clock);
    Ring<Piece>& queue = x.queue[way];
    std::size_t at = queue.begin();
    Piece& oldest = queue.front();
    if (oldest.skipped < config_.batch) {
      const std::size_t depth = std::min(static_cast<std::size_t>(config_.reorder), queue.size());
      for (std::size_t i = queue.begin(); i < queue.begin() + depth; ++i) {
        if (queue[i].arrival > now) break;
        if (hit(x, queue[i])) {
          at = i;
          break;
        }
      }
    }
    if (at != queue.begin()) ++oldest.skipped;
    const Piece piece = queue[at];
    queue.erase(at);
    served(piece, serve(x, piece, now_clock) * config_.tick);
  }
  Time first = kNever;
  for (const Ring<Piece>& queue : x.queue)
    if (!queue.empty()) first = std::min(first, queue.front().arrival);
  if (first < kNever) schedule(channel, std::max({now, first, x.cols[x.col_at] * config_.tick}));
}

bool Model::hit(const Channel& x, const Piece& piece) const {
  const Time banks = std::min<Time>(config_.stripe, piece.count);
  for (Time j = 0; j < banks; ++j)
    if (x.bank(piece.bank + stripe_.mod(piece.first + j)).row != piece.row) return false;
  return true;
}

// Drop what no command from clock `now` on, nor the next refresh, can meet.
void Model::forget(Channel& x, Time now) {
  x.bus.forget(std::min(now, x.next_refresh));
  while (!x.refs.empty() && x.refs.front().sent + config_.pbr2act <= now) x.refs.pop();
}

// Make room for a word.
void Model::Bus::reach(Time number) {
  while (number - base_ > static_cast<Time>(mask_)) {
    std::vector<std::uint64_t> wider(2 * words_.size());
    for (Time k = base_; k < end_; ++k) wider[static_cast<std::size_t>(k) & (wider.size() - 1)] = word(k);
    words_.swap(wider);
    mask_ = words_.size() - 1;
  }
  end_ = number + 1;
}

// All refreshes that are due by clock `now`: after the pieces that entered before, before all later ones.
void Model::refresh(Channel& x, Time now) {
  const Config& c = config_;
  const Time around = c.refresh_groups * c.refresh_interval;
  const auto groups = static_cast<std::size_t>(c.refresh_groups), size = x.banks.size() / groups;
  while (x.next_refresh <= now) {
    if (x.next_refresh > x.last_col && now - x.next_refresh >= 2 * around) {
      const Time rounds = (now - x.next_refresh) / around - 1;  // an idle channel: whole rounds go by
      x.next_refresh += rounds * around;
      x.counters.refreshes += rounds * c.refresh_groups;
      for (std::size_t b = 0; b < x.banks.size(); ++b) {
        if (x.banks[b].row < 0) continue;
        x.banks[b].row = -1;
        x.ready[b] = std::max(x.ready[b], x.banks[b].pre_ok + c.rp);
        x.group_ready[b / size] = std::max(x.group_ready[b / size], x.ready[b]);
      }
      std::fill(x.open.begin(), x.open.end(), 0);
      forget(x, now);
    }
    const Time due = x.next_refresh;
    Time soonest = kNever;
    std::size_t group = static_cast<std::size_t>(x.newest) / size, best = 0;
    for (std::size_t i = 0; i < groups; ++i) {  // one that no piece needs, behind the stream first, else soonest free
      group = (group ? group : groups) - 1;
      if (x.refreshed >> group & 1) continue;
      Time until = due - 1;
      for (std::size_t b = group * size; b < (group + 1) * size && groups > 1; ++b)
        until = std::max(until, x.banks[b].used);
      if (until < soonest) {
        best = group;
        soonest = until;
      }
    }
    x.refreshed |= std::uint64_t{1} << best;
    if (x.refreshed == ~std::uint64_t{0} >> (64 - groups)) x.refreshed = 0;
    Refresh& r = x.refs.grow();
    r.from = best * size;
    r.to = r.from + size;
    r.floor = std::max({due, x.last_ref + c.pbr2pbr, x.last_act + c.rrd_s, x.group_ready[best]});
    r.precharges.clear();
    Time closed = due;
    bool open = false;
    const std::uint64_t all = size < 64 ? ((std::uint64_t{1} << size) - 1) << r.from % 64 : ~std::uint64_t{0};
    for (std::size_t word = r.from / 64; word * 64 < r.to; ++word) {
      for (std::uint64_t left = x.open[word] & all; left; left &= left - 1) {
        Bank& b = x.banks[word * 64 + lowest(left)];
        if (groups > 1) r.precharges.push_back(x.bus.take(std::max(due, b.pre_ok)));
        closed = std::max(closed, b.pre_ok);
        open = true;
        b.row = -1;
      }
      x.open[word] &= ~all;
    }
    if (groups == 1 && open) r.precharges.push_back(x.bus.take(closed));  // one command for all
    send(x, r);
    x.next_refresh += c.refresh_interval;
    ++x.counters.refreshes;
  }
}

// Find the slot of a refresh command.
void Model::send(Channel& x, Refresh& r) {
  r.ready = r.floor;
  for (const Time at : r.precharges) r.ready = std::max(r.ready, at + config_.rp);
  r.sent = x.last_ref = x.bus.take(r.ready);
  const Time ready = r.sent + config_.rfc;
  std::fill(x.ready.data() + r.from, x.ready.data() + r.to, ready);
  x.group_ready[r.from / (r.to - r.from)] = ready;
}

// Columns took the slots `met_` of the one bus: commands for rows that wanted them go later.
void Model::give_way(Channel& x) {
  for (const Time at : met_) {
    bool met_refresh = false;
    for (std::size_t i = x.refs.begin(); i < x.refs.end() && !met_refresh; ++i) {
      Refresh& r = x.refs[i];
      const auto found = std::find(r.precharges.begin(), r.precharges.end(), at);
      if (found != r.precharges.end()) {
        *found = x.bus.take(at + 1);
        x.bus.clear(r.sent);
      } else if (at == r.sent) {
        r.floor = std::max(r.floor, at);
      } else {
        continue;
      }
      send(x, r);
      for (std::size_t k = i + 1; k < x.refs.end(); ++k) {
        x.bus.clear(x.refs[k].sent);
        x.refs[k].floor = std::max(x.refs[k].floor, x.refs[k - 1].sent + config_.pbr2pbr);
        send(x, x.refs[k]);
      }
      met_refresh = true;
    }
    if (!met_refresh) x.bus.take(at + 1);  // the second slot of the piece's own activation
  }
}

// When an activation that is allowed from clock `at` on goes over the bus, clear of per-bank refreshes.
Time Model::activate(Channel& x, Time at) {
  at = x.bus.free(at);
  for (std::size_t i = x.refs.begin(); i < x.refs.end(); ++i) {
    const Refresh& r = x.refs[i];
    if (r.ready - config_.rrd_s < at && at < r.sent + config_.pbr2act) at = x.bus.free(r.sent + config_.pbr2act);
  }
  return x.bus.take(at, config_.act_clocks);
}

// Commands of one piece from clock `now` on; the clock after its last data.
Time Model::serve(Channel& x, const Piece& piece, Time now) {
  const Config& c = config_;
  const Time at = std::max(now, x.last_col + c.ccd_s);
  const bool write = piece.write;
  const Time k = c.stripe, step = k > 1 ? c.ccd_s : c.ccd_l, banks = std::min<Time>(k, piece.count);
  const Time rcd = write ? c.rcd_write : c.rcd_read, tail = c.wl + c.bl;
  const Time turn = write ? x.last_read + c.rtw : x.last_write + tail + c.wtr_s;
  Time col = at - step, plain = col, wait = 0;  // plain: where the column would be had the bus never turned round
  for (Time j = 0; j < banks; ++j) {
    const auto number = static_cast<std::size_t>(piece.bank + stripe_.mod(piece.first + j));
    Bank& b = x.banks[number];
    Group& g = x.groups[number & static_cast<std::size_t>(c.groups - 1)];
    if (b.row != piece.row) {
      Time act;
      if (b.row >= 0) {
        act = x.bus.take(std::max(now, b.pre_ok)) + c.rp;
        ++x.counters.conflicts;
      } else {
        act = std::max(now, x.ready[number]);
        wait = std::max(wait, x.ready[number] - at);
        x.open[number / 64] |= std::uint64_t{1} << number % 64;
        ++x.counters.misses;
      }
      act = std::max({act, b.act + c.rc, x.last_act + c.rrd_s, g.act + c.rrd_l, x.acts[x.act_at] + c.faw});
      act = activate(x, act);
      b.row = piece.row;
      b.act = x.last_act = g.act = x.acts[x.act_at] = act;
      x.act_at = (x.act_at + 1) % 4;
      b.pre_ok = act + c.ras;
      --x.counters.hits;
    }
    const Time first = std::max(b.act + rcd, g.col + c.ccd_l);
    plain = std::max(plain + step, first);
    col = std::max({col + step, first, turn});
    if (!write) col = std::max(col, g.write + tail + c.wtr_l);
    cols_[static_cast<std::size_t>(j)] = {&b, &g, col};
  }
  x.counters.refresh_wait += wait;
  x.counters.turnaround += col - plain;
  x.counters.hits += piece.count;
  const Time last = col + (piece.count - banks) * step, recover = write ? tail + c.wr : c.rtp;
  if (c.one_bus) {
    met_.clear();
    for (Time j = 0; j < banks; ++j)
      if (const Time at_col = cols_[static_cast<std::size_t>(j)].at; !x.bus.mark(at_col)) met_.push_back(at_col);
    for (Time at_col = col + step; at_col <= last; at_col += step)
      if (!x.bus.mark(at_col)) met_.push_back(at_col);
    if (!met_.empty()) give_way(x);
  }
  for (Time j = 0; j < banks; ++j) {
    const Column& first = cols_[static_cast<std::size_t>(j)];
    const Time index = j + stripe_.div(piece.count - 1 - j) * k;  // the last column of this bank
    const Time end = index >= banks ? last - (piece.count - 1 - index) * step : first.at;
    first.group->col = end;
    if (write) first.group->write = end;
    first.bank->pre_ok = std::max(first.bank->pre_ok, end + recover);
    first.bank->used = last;
  }
  x.newest = piece.bank;
  x.last_col = last;
  (write ? x.last_write : x.last_read) = last;
  x.cols[x.col_at] = last;
  x.col_at = x.col_at + 1 < x.cols.size() ? x.col_at + 1 : 0;
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
                              std::int64_t n2, std::int64_t n3, std::int64_t s1, std::int64_t s2, std::int64_t s3,
                              std::int64_t cached) {
  const std::int64_t n[3] = {n1, n2, n3}, stride[3] = {s1, s2, s3};
  Model& m = *static_cast<Model*>(model);
  m.request(cycle, static_cast<int>(port), write != 0, floor, address, inner, n, stride, cached != 0);
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

void dpu_dram_l2(void* model, std::int64_t* out) {
  const dpu::dram::L2Counters& c = static_cast<Model*>(model)->l2();
  std::memcpy(out, &c, sizeof(c));
}

}
