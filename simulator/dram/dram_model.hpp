// DRAM timing, one burst at a time in closed form: banks, bus turnaround, refresh, and the DMA ports in front.
//
// README.md of this folder states the rules; core.py is the same algorithm in Python, integer for integer. Two users:
// the timing simulator asks for whole transfers of a port (`request`, `open`), a bench asks for bursts (`submit`).
// Both then call `step` until it has nothing to report. Times at the interface are cycles of the user's clock; inside
// they are units, the least common multiple of that clock and the DRAM clock, so that nothing is rounded.

#ifndef DPU_DRAM_MODEL_HPP
#define DPU_DRAM_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace dpu {

// A queue that grows and never gives memory back. Elements are reused: `grow` returns one as it was left.
template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity = 8) : data_(capacity), mask_(capacity - 1) {}  // a power of two
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }
  T& front() { return (*this)[head_]; }
  const T& front() const { return (*this)[head_]; }
  T& back() { return (*this)[tail_ - 1]; }
  void pop() { ++head_; }
  T& grow() {
    if (size() > mask_) widen();
    return (*this)[tail_++];
  }
  void push(const T& value) { grow() = value; }

  // Elements are numbered from the first that was ever there; [begin, end) are there now.
  std::size_t begin() const { return head_; }
  std::size_t end() const { return tail_; }
  T& operator[](std::size_t number) { return data_[number & mask_]; }
  const T& operator[](std::size_t number) const { return data_[number & mask_]; }

  // Remove one element; those before it move up.
  void erase(std::size_t number) {
    for (; number != head_; --number) (*this)[number] = (*this)[number - 1];
    ++head_;
  }

 private:
  void widen() {
    std::vector<T> wider(2 * data_.size());
    for (std::size_t i = head_; i != tail_; ++i) std::swap(wider[i & (wider.size() - 1)], (*this)[i]);
    data_.swap(wider);
    mask_ = data_.size() - 1;
  }

  std::vector<T> data_;
  std::size_t mask_;
  std::size_t head_ = 0, tail_ = 0;
};

}  // namespace dpu

namespace dpu::dram {

using Time = std::int64_t;

constexpr Time kNever = Time{1} << 60;

// Division by a number that is a power of two.
class Power {
 public:
  explicit Power(Time n) : mask_(n - 1) {
    while (n >> shift_ > 1) ++shift_;
  }
  Time number() const { return mask_ + 1; }
  Time div(Time a) const { return a >> shift_; }
  Time mod(Time a) const { return a & mask_; }
  Time up(Time a) const { return (a + mask_) >> shift_; }

 private:
  Time mask_;
  int shift_ = 0;
};

// One word a field, in the order of `FIELDS` in params.py. Times are DRAM clocks (ticks) unless said otherwise.
// Powers of two (params.py checks): channels, banks, groups, stripe, access, page, interleave, beat, burst.
struct Config {
  Time tick;  // units a DRAM clock
  Time cycle;  // units a user cycle
  Time channels, banks, groups, stripe, access, page, interleave, rows;
  Time bank_major, bank_xor, channel_hash;
  Time bl, rl, wl, rcd_read, rcd_write, rp, ras, rc, rtp, wr, rrd_s, rrd_l, faw, ccd_s, ccd_l, wtr_s, wtr_l, rtw;
  Time refresh_groups, refresh_interval, rfc, stagger;
  Time window, batch, reorder;
  Time request, response;  // units
  Time beat, burst, outstanding, buffer, ports;  // bytes, bytes, bursts, bytes
  Time pbr2pbr, pbr2act;
  Time one_bus, act_clocks;  // the command bus
  Time l2_line, l2_sets, l2_ways, l2_slices, l2_rate, l2_latency;  // bytes; 0 sets: none; bytes a user cycle; units
};

constexpr std::size_t kFields = sizeof(Config) / sizeof(Time);
static_assert(kFields == 55, "the order and number of fields is that of params.py");

enum class Note : int { kNone, kFirst, kLast, kResponse, kDone };

struct Report {
  Note note = Note::kNone;
  Time cycle = 0;
  Time who = 0;  // the port; of kDone, the tag
};

struct Counters {
  Time bytes_read, bytes_written, hits, misses, conflicts, refreshes, refresh_wait, turnaround, turns, last;
};

constexpr std::size_t kCounters = sizeof(Counters) / sizeof(Time);

// Of the L2: look-ups, and bytes that ports got.
struct L2Counters {
  Time hits, merged, misses, bytes;
};

constexpr std::size_t kL2Counters = sizeof(L2Counters) / sizeof(Time);

// Index of the lowest bit that is set, of a word that has one.
inline unsigned lowest(std::uint64_t word) {
#if defined(__GNUC__)
  return static_cast<unsigned>(__builtin_ctzll(word));
#else
  unsigned at = 0;
  for (; !(word & 1); word >>= 1) ++at;
  return at;
#endif
}

// What happens when: in the order of time, then of pushing. Buckets of one unit for the near future, a heap for the rest.
class Calendar {
 public:
  struct Event {
    Time who;
    int kind, note;
  };

  Calendar() : buckets_(kBuckets), used_(kWords) {}

  bool empty() const { return next() == kNever; }

  // The time of the first event; kNever without one.
  Time next() const { return near_ < far_ ? near_ : far_; }

  void push(Time time, const Event& event) {
    if (time < now_ || time - now_ >= static_cast<Time>(kBuckets)) {
      heap_.push({time, sequence_++, event});
      far_ = heap_.top().time;
      return;
    }
    if (spare_ < 0) add();
    const int id = spare_;
    Node& node = nodes_[static_cast<std::size_t>(id)];
    spare_ = node.next;
    node.event = event;
    const std::size_t number = static_cast<std::size_t>(time) % kBuckets;
    Bucket& bucket = buckets_[number];
    std::uint64_t& word = used_[number / 64];
    const std::uint64_t bit = std::uint64_t{1} << number % 64;
    if (word & bit)
      nodes_[static_cast<std::size_t>(bucket.last)].next = id;
    else
      bucket.first = id;
    bucket.last = id;
    word |= bit;
    words_ |= std::uint64_t{1} << number / 64;
    if (time < near_) near_ = time;
  }

  // Take the first event, which is at `next()`. What went to the heap was pushed before what went to its bucket.
  Event pop() {
    if (far_ <= near_) return pop_far();
    const std::size_t number = static_cast<std::size_t>(near_) % kBuckets;
    Bucket& bucket = buckets_[number];
    const int id = bucket.first;
    Node& node = nodes_[static_cast<std::size_t>(id)];
    now_ = near_;
    if (id == bucket.last)
      leave(number);
    else
      bucket.first = node.next;
    node.next = spare_;
    spare_ = id;
    return node.event;
  }

 private:
  static constexpr std::size_t kBuckets = 2048, kWords = kBuckets / 64;  // units; most events are nearer
  struct Node {
    Event event;
    int next;  // in the bucket, or of the spare ones
  };
  struct Bucket {
    int first, last;  // nodes
  };
  struct Far {
    Time time, sequence;
    Event event;
    bool operator>(const Far& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
  };

  // The bucket at `near_` is empty now: find the next that is not.
  void leave(std::size_t number) {
    const std::size_t at = number / 64;
    const std::uint64_t word = used_[at] &= ~(std::uint64_t{1} << number % 64);
    if (!word) words_ &= ~(std::uint64_t{1} << at);
    if (const std::uint64_t later = word >> number % 64) {
      near_ += lowest(later);
      return;
    }
    if (!words_) {
      near_ = kNever;
      return;
    }
    const std::uint64_t ahead = words_ & ~std::uint64_t{1} << at;  // words behind this one, else from the front
    const std::size_t next = lowest(ahead ? ahead : words_), bucket = next * 64 + lowest(used_[next]);
    near_ += static_cast<Time>((bucket - number) % kBuckets);
  }

  Event pop_far() {
    const Event event = heap_.top().event;
    now_ = now_ < far_ ? far_ : now_;
    heap_.pop();
    far_ = heap_.empty() ? kNever : heap_.top().time;
    return event;
  }

  void add() {
    spare_ = static_cast<int>(nodes_.size());
    nodes_.push_back({{}, -1});
  }

  Time now_ = 0;  // of the latest event taken; buckets hold [now_, now_ + kBuckets)
  Time near_ = kNever, far_ = kNever;  // the first time in the buckets and in the heap
  Time sequence_ = 0;  // of the next event of the heap
  std::vector<Bucket> buckets_;
  std::vector<std::uint64_t> used_;  // buckets that hold something, a bit each
  std::uint64_t words_ = 0;  // words of that which are not zero
  std::vector<Node> nodes_;
  int spare_ = -1;
  std::priority_queue<Far, std::vector<Far>, std::greater<Far>> heap_;
};

class Model {
 public:
  explicit Model(const Config& config);

  // A port moves `n` runs of `inner` bytes from `address`, in at least `floor` cycles. A write starts to flow at once;
  // the data of a read waits at the port (kFirst) until it is opened. `cached`: a read through the L2, if there is one.
  void request(Time cycle, int port, bool write, Time floor, Time address, Time inner, const Time n[3],
               const Time stride[3], bool cached = false);
  void open(Time cycle, int port);

  // One burst past the ports; kDone with `tag` when its data (read) or response (write) is back.
  void submit(Time cycle, Time address, Time bytes, bool write, Time tag);

  // Advance to `limit` or to the first thing to report, whichever is earlier.
  Report step(Time limit);

  bool idle() const { return events_.empty(); }

  // The first unit at which `step` has something to do; kNever when idle.
  Time next() const { return events_.next(); }

  // And the first cycle.
  Time due() const { return idle() ? kNever : up(next(), config_.cycle); }

  Counters counters(int channel) const { return channels_[static_cast<std::size_t>(channel)].counters; }
  const L2Counters& l2() const { return l2_; }

 private:
  struct Burst {
    Time bytes = 0, end = 0, tag = 0;
    std::size_t transfer = 0;
    int left = 0;  // pieces not yet served (write, bench) or not yet delivered (read)
  };
  struct Piece {  // what one channel serves in one go: part of one row
    Time arrival = 0, row = 0;
    int bank = 0, first = 0, count = 0, bytes = 0, port = -1, skipped = 0;
    unsigned place = 0;  // of its delivery (read) or burst (write) at the port, or of a bench's burst
    bool write = false;
  };
  struct Delivery {  // a piece that a port has asked for
    Time done = -1;
    std::size_t burst = 0;
    int bytes = 0;
  };
  struct Transfer {
    Time floor = 0, total = 0, moved = 0, start = 0, address = 0, run = 0, end = 0;  // floor, start, end: units
    Time n[3] = {}, stride[3] = {}, at[3] = {};  // where issuing has come to, and from where to where in this run:
    Time from = 0, to = 0;
    Time rest = 0, step = 0, quotient = 0, remainder = 0;  // of moved * floor / total
    int bursts = 0;  // issued, not done (write)
    bool write = false, cached = false, opened = false, issued = false, announced = false;
  };
  struct Port {
    Ring<Transfer> moving;
    std::size_t issuing = 0;  // the first of them that is not all issued
    Ring<Burst> flight;
    Ring<Delivery> pieces;  // reads, in order of delivery
    Time bytes = 0, clock = 0, free = 0, response = 0, event = kNever;
    bool blocked = false;
  };
  struct Line {  // of the L2; a set has its lines together, the most recently used first
    Time line = -1;
    int fill = -1;  // -1: it is there, or there is none
  };
  struct Waiting {  // a delivery
    int port;
    std::size_t place;
  };
  struct Fill {  // a line on its way from DRAM to the L2
    Time line = 0, end = 0;
    int left = 0;
    std::vector<Waiting> waiting;
  };
  struct Refresh {  // one that later commands can still meet
    std::size_t from = 0, to = 0;  // banks
    Time floor = 0, ready = 0, sent = 0;  // floor: not before, for what was there before
    std::vector<Time> precharges;  // clocks
  };
  struct Bank {
    Time row = -1, act = 0, pre_ok = 0;
    Time used = 0;  // the last column of the last piece in it
  };
  struct Group {
    Time act = 0, col = 0, write = 0;
  };
  struct Column {  // the first of a piece in one bank
    Bank* bank;
    Group* group;
    Time at;
  };
  class Bus {  // the slots that commands for rows go over, a bit a clock; before `from` all is forgotten
   public:
    void forget(Time from) {
      const Time base = from >> 6;
      if (base <= base_) return;
      for (; base_ < base && base_ < end_; ++base_) word(base_) = 0;
      base_ = base;
      if (end_ < base_) end_ = base_;
    }

    bool mark(Time at) {  // whether the slot was free
      const Time number = at >> 6;
      if (number >= end_) reach(number);
      std::uint64_t& w = word(number);
      const std::uint64_t bit = std::uint64_t{1} << (at & 63), old = w;
      w = old | bit;
      return !(old & bit);
    }

    void clear(Time at) { word(at >> 6) &= ~(std::uint64_t{1} << (at & 63)); }

    // The first free slot from clock `at` on.
    Time free(Time at) const {
      std::uint64_t before = (std::uint64_t{1} << (at & 63)) - 1;  // slots that do not count
      for (Time k = at >> 6; k < end_; ++k, before = 0) {
        const std::uint64_t taken = words_[static_cast<std::size_t>(k) & mask_] | before;
        if (~taken) return k * 64 + lowest(~taken);
      }
      return at > end_ * 64 ? at : end_ * 64;
    }

    // Take the first free slots from there; the clock of the first.
    Time take(Time at, Time slots = 1) {
      if (at >> 6 < end_ && (at & 63) + slots <= 64) {  // most often they are next to each other
        const std::uint64_t want = ((std::uint64_t{1} << slots) - 1) << (at & 63);
        if (std::uint64_t& w = word(at >> 6); slots < 64 && !(w & want)) {
          w |= want;
          return at;
        }
      }
      const Time first = free(at);
      mark(first);
      at = first;
      for (Time i = 1; i < slots; ++i) {
        at = free(at + 1);
        mark(at);
      }
      return first;
    }

   private:
    std::uint64_t& word(Time number) { return words_[static_cast<std::size_t>(number) & mask_]; }
    void reach(Time number);

    std::vector<std::uint64_t> words_ = std::vector<std::uint64_t>(16);
    std::size_t mask_ = 15;
    Time base_ = 0, end_ = 0;  // words that may hold something
  };
  struct Channel {
    Ring<Piece> queue[2];  // reads, writes, by arrival
    std::vector<Bank> banks;
    std::vector<Time> ready;  // banks: the clock after their refresh
    std::vector<Time> group_ready;  // groups of banks that are refreshed together: the latest of these
    std::vector<std::uint64_t> open;  // banks that have a row, a bit each
    std::vector<Group> groups;
    Time acts[4];  // a ring: the last activations
    std::vector<Time> cols;  // a ring: the last columns of the window
    std::size_t act_at = 0, col_at = 0;
    Time last_act, last_col, last_read, last_write, next_refresh, event = kNever, run = 0;
    std::uint64_t refreshed = 0;  // groups of banks that have had their turn in this round, a bit each
    Ring<Refresh> refs;
    Time last_ref;
    Time newest = 0;  // a bank of the piece that entered last
    Bus bus;
    bool write = false;
    Counters counters = {};

    const Bank& bank(Time number) const { return banks[static_cast<std::size_t>(number)]; }
  };
  enum Kind : int { kIssue, kPick, kNote, kFilled };
  static constexpr int kL2 = -2;  // in place of a port: a piece that fills a line

  static Time up(Time a, Time b) { return (a + b - 1) / b; }
  Time clock(Time units) const;
  void push(Time time, Kind kind, Time who, Note note = Note::kNone) {
    events_.push(time, {who, kind, static_cast<int>(note)});
  }

  void begin_run(Transfer& t);
  static Time pass(Transfer& t, Time bytes);
  void wake(int port, Time time);
  void issue(int port, Time now);
  void emit(int port, Transfer& t, std::size_t burst, Time now, Time address, Time bytes);
  void look_up(int port, std::size_t burst, Time now, Time address, Time bytes);
  void slice(Delivery& piece, Time line, Time now, Time way);
  void filled(std::size_t id, Time now);
  void enqueue(Time arrival, Time address, Time bytes, bool write, std::size_t place, int port);
  void schedule(Time channel, Time time);
  void pick(int channel, Time now);
  bool hit(const Channel& c, const Piece& p) const;
  void refresh(Channel& c, Time now);
  void forget(Channel& c, Time now);
  void send(Channel& c, Refresh& r);
  void give_way(Channel& c);
  Time activate(Channel& c, Time at);
  Time serve(Channel& c, const Piece& p, Time now);
  void served(const Piece& piece, Time done);
  void deliver(int port);

  const Config config_;
  const double clocks_a_unit_;
  const Power channels_of_, banks_of_, groups_of_, stripe_, access_, page_, interleave_, beat_, burst_, line_,
      slice_;
  const Time unit_;  // bytes that lie together in one row: no piece is cut within
  std::vector<Port> ports_;
  std::vector<Channel> channels_;
  std::vector<Burst> bursts_;  // of a bench
  std::vector<std::size_t> spare_bursts_;
  std::vector<Line> lines_;  // sets * ways
  std::vector<Fill> fills_;
  std::vector<std::size_t> spare_fills_;
  std::vector<Time> slices_;  // when each is free
  L2Counters l2_ = {};
  Calendar events_;
  std::vector<Column> cols_;  // of the piece being served
  std::vector<Time> met_;  // its columns whose slots were taken
  Time now_ = 0;  // of the event or call being worked on
};

}  // namespace dpu::dram

// The same for C and ctypes. `config` has kFields words. Calls that change the model return `due()`.
extern "C" {
void* dpu_dram_new(const std::int64_t* config, std::int64_t fields);  // null when the number of fields differs
void dpu_dram_free(void* model);
std::int64_t dpu_dram_request(void* model, std::int64_t cycle, std::int64_t port, std::int64_t write,
                              std::int64_t floor, std::int64_t address, std::int64_t inner, std::int64_t n1,
                              std::int64_t n2, std::int64_t n3, std::int64_t s1, std::int64_t s2, std::int64_t s3,
                              std::int64_t cached);
std::int64_t dpu_dram_open(void* model, std::int64_t cycle, std::int64_t port);
std::int64_t dpu_dram_submit(void* model, std::int64_t cycle, std::int64_t address, std::int64_t bytes,
                             std::int64_t write, std::int64_t tag);
std::int64_t dpu_dram_step(void* model, std::int64_t limit, std::int64_t* out);  // out: note, cycle, who
void dpu_dram_counters(void* model, std::int64_t channel, std::int64_t* out);  // kCounters words
void dpu_dram_l2(void* model, std::int64_t* out);  // kL2Counters words
}

#endif
