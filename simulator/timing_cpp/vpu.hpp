// The VPU: the pipeline of rtl/doc/dpu_vpu.md, a word at a time. As timing_vpu.py.

#ifndef DPU_TIMING_VPU_HPP
#define DPU_TIMING_VPU_HPP

#include <algorithm>

#include "ports.hpp"

namespace dpu::timing {

// One tile's VPU. Where it reads ACC, the MXU may come between: the last beat is certain only when it is there.
class Vpu {
 public:
  Vpu(const Config& c, const Stream& stream, SharedPort* ports, ParamWrites& param)
      : c_(c),
        stream_(stream),
        ports_(ports),
        param_(param),
        way_{c.vpu_result, c.vpu_rows, c.vpu_columns},
        done_(static_cast<std::size_t>(c.vpu_words)) {}

  // The oldest word: its beats, as far as is known.
  Time first = -1, last = -1, alone = -1;

  bool idle() const { return words_.empty(); }
  std::size_t size() const { return words_.size(); }
  Time oldest() { return words_.front().number; }

  // Word `i` starts; when the next one may. The operand fetch has room for two words.
  Time start(Time i, Time now) {
    const Time offered = words_.size() < 2 ? now + c_.vpu_check : kUnknown;
    words_.push({i, now, offered});
    return offered;
  }

  // Decide the first beat of the oldest word; its last one, as far as is known.
  Time begin(Time now) {
    const Time i = words_.front().number, offered = words_.front().offered;
    const VecWork& w = work(i);
    Time begin = std::max(offered + 1, ended_);
    for (int k = 0; k < kWays; ++k)
      if (w.ways & ~way_[k]) begin = std::max(begin, way_done_[k] + 1);
    if (done_count_ >= done_.size()) begin = std::max(begin, done_[done_count_ % done_.size()] + 1);
    const Time fetch = offered + c_.vpu_fetch;
    fetch_ = std::max(fetch, fetched_);
    port_ = std::max(fetch, read_);
    first = std::max({fetch_ + w.entry - 1, begin + 1, ended_ + 1 + gap_});
    if (w.scalars) first = std::max(first, port_ + w.scalars - 1);
    if (w.ways & c_.vpu_columns) first = std::max(first, columns_free_);
    last = find_last(i, w);
    uses_ = 0;
    if (w.vbuf) book(i, kVbufRead, now, 1 - c_.vpu_fetch, w.vbuf);
    for (const Port port : {kActWrite, kVbufWrite}) book(i, port, now, c_.vpu_drain - 2, w.out);
    if (w.acc) ports_[kAccRead].working = first;
    return last;
  }

  // The last beat of the oldest word, as it is known now.
  Time again() {
    const Time i = words_.front().number, now = find_last(i, work(i));
    for (int k = 0; k < uses_; ++k) ports_[use_[k].port].extend(use_[k].number, now - last);
    return last = now;
  }

  // The last beat of the oldest word was there; when the word is done, but for words before it.
  Time end() {
    const VecWork& w = work(words_.front().number);
    words_.pop();
    const Time now = last;
    ports_[kAccRead].working = -1;
    ended_ = now;
    gap_ = w.gap;
    read_ = std::max(read_, port_ + w.reads);
    fetched_ = std::max(fetch_ + w.fetch, now + 1 - c_.vpu_ahead);
    Time drain = w.drain;
    if (w.behind) {
      const Time added = std::max(rows_free_, first) + w.behind;
      rows_free_ = added + w.between;
      drain += std::max<Time>(0, added - 1 - now);
    }
    if (w.ways & c_.vpu_columns) columns_free_ = now + 1 + w.tail;
    const Time done = now + drain;
    if (!w.fills) return done;
    // The last result is written in the cycle before the word is done.
    const ParamWrites::Last end = w.behind ? param_.last(done - w.behind, done - 1, w.fills, c_.vpu_sums)
                                           : param_.last(first + w.drain - 1, done - 1, w.fills, w.fills);
    rows_free_ += end.later;
    return end.written + 1;
  }

  // Word `i` is done in that cycle.
  void left(Time i, Time done) {
    done_[done_count_++ % done_.size()] = done;
    for (int k = 0; k < kWays; ++k)
      if (work(i).ways & way_[k]) way_done_[k] = done;
  }

  // A word that waited for room in the operand fetch gets it; when the next may start, or -1.
  Time offer() {
    if (words_.size() < 2) return -1;
    Waiting& next = words_[words_.begin() + 1];
    if (next.offered != kUnknown) return -1;
    return next.offered = std::max(next.start + c_.vpu_check, ended_ + 1);
  }

 private:
  static constexpr int kWays = 3;

  struct Waiting {  // before its last beat
    Time number, start, offered;  // offered to the operand fetch
  };
  struct Use {
    Port port;
    std::size_t number;
  };

  const VecWork& work(Time i) const { return stream_.vec[stream_.slot[i]]; }

  // Book a port of the oldest word for its beats, `shift` cycles from them.
  void book(Time i, Port port, Time now, Time shift, Time words) {
    if (const Spans spans = spans_of(stream_, i, port))
      use_[uses_++] = {
          port, ports_[port].use(now, first + shift, last + 1 + shift, static_cast<double>(words), spans)};
  }

  Time find_last(Time i, const VecWork& w) {
    Time end = std::max(first + w.lane, fetch_ + w.fetch) + w.more;
    if (w.reads) end = std::max(end, port_ + w.reads);
    alone = end - first;
    if (w.acc) {
      const double each = static_cast<double>(alone) / static_cast<double>(w.acc);
      const double room = std::max(0.0, static_cast<double>(c_.vpu_ahead) * each - static_cast<double>(c_.vpu_read));
      const double held = std::min(room, static_cast<double>(first - fetch_ - w.entry + 1) * each);
      const Spans spans = spans_of(stream_, i, kAccRead);
      end = c_.vpu_read + ports_[kAccRead].finish(first - c_.vpu_read, alone, w.acc, spans, held, room);
    }
    return end - 1;
  }

  const Config& c_;
  const Stream& stream_;
  SharedPort* ports_;
  ParamWrites& param_;
  const Time way_[kWays];
  Ring<Waiting> words_;
  // The oldest word: since when its operands are read, and PARAM; its use of ports.
  Time fetch_ = -1, port_ = -1;
  Use use_[3] = {};
  int uses_ = 0;
  // What words before it leave: last beat and the cycles behind it, operands and PARAM read, sums added up.
  Time ended_ = -1, fetched_ = -1, read_ = -1, rows_free_ = -1, columns_free_ = -1;
  Time gap_ = 0;
  std::vector<Time> done_;  // when the latest words were done
  std::size_t done_count_ = 0;
  Time way_done_[kWays] = {-1, -1, -1};  // when the last word that used each way to PARAM was done
};

}  // namespace dpu::timing

#endif
