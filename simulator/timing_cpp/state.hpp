// What the timing model keeps of each engine and tile while it runs. As timing_state.py.

#ifndef DPU_TIMING_STATE_HPP
#define DPU_TIMING_STATE_HPP

#include "fetch.hpp"
#include "mxu.hpp"
#include "vpu.hpp"

namespace dpu::timing {

// Cycles by reason, and the reasons in the order in which they were first booked.
struct Stalls {
  Time cycles[kReasons] = {};
  Time order[kReasons] = {};
  Time count = 0;

  void book(int reason, Time more) {
    for (Time k = 0;; ++k) {
      if (k == count) order[count++] = reason;
      if (order[k] == reason) break;
    }
    cycles[reason] += more;
  }
};

// One engine of one tile: its queue, what it does, why it waits.
struct EngineState {
  struct Word {
    Time number, cycle;  // queue: from which it may start; pending: of its first data
  };

  int tile = 0, kind = 0;
  Time depth = 1;
  Time left = 0;  // words not yet started
  Ring<Word> queue;
  Time free = 0;  // first cycle in which the next word may start
  Time last = -1;  // when all started work is done
  Time address = 0;  // LOAD: first cycle in which the next address may go
  Ring<Word> pending;  // LOAD, STORE: started words
  Time active = -1;  // LOAD, STORE: word in its data phase
  Time through = -1;  // when its data were through, but for waiting for ports
  Time late = -1;  // how much of that was waiting for instructions to pass
  Time early = -1;  // STORE: how long after its data the response was, if it came before their end here
  Time outstanding = 0;  // LOAD, STORE: words between start and done
  Time arrived = -1;  // LOAD with a DRAM of bursts: since when data wait at the port
  Ring<Time> unanswered;  // STORE with a DRAM of bursts: words sent, but not known to be in DRAM
  int reason = kNone;
  Time since = 0;
  Stalls stalls;

  // Book the time since the last look at this engine, and why it waits from now on.
  void wait(Time now, int why) {
    if (reason != kNone && now > since) book(reason, now - since);
    reason = why;
    since = now;
  }

  void book(int why, Time cycles) {
    if (cycles > 0) stalls.book(why, cycles);
  }
};

// One tile: its stream, engines, tokens and the record of every word.
struct TileState {
  TileState(int tile, const Stream& s, const Config& c)
      : number(tile),
        stream(s),
        ports{SharedPort(c.bank_words[0]), SharedPort(c.bank_words[1]), SharedPort(c.bank_words[2]),
              SharedPort(c.bank_words[3]), SharedPort(c.bank_words[4])},
        mxu(c, stream, ports, param),
        vpu(c, stream, ports, param),
        fetch(c, s.words),
        remote(static_cast<std::size_t>(c.tiles)) {
    static_assert(kPorts == 5, "one initializer a port");
    for (int e = 0; e < kCtrl; ++e) {
      engines[e].tile = tile;
      engines[e].kind = e;
      engines[e].depth = c.depth[e];
    }
    for (Time i = 0; i < s.words; ++i)
      if (s.engine[i] < kCtrl) ++engines[s.engine[i]].left;
  }
  TileState(const TileState&) = delete;  // engines refer to their tile's stream and ports

  int number;
  Stream stream;
  EngineState engines[kCtrl];
  SharedPort ports[kPorts];
  ParamWrites param;
  Mxu mxu;
  Vpu vpu;
  Fetch fetch;
  Time tokens[kEngines * kEngines * 4] = {};  // of semaphore (producer * 5 + consumer) * 4 + k
  std::vector<Time> remote;  // tokens of each tile
  Time at = 0;  // next word that CTRL dispatches
  Time clock = 0;  // when CTRL dispatched the last one
  int blocked = -1;  // engine whose queue is full
  bool starved = false;  // the next word is not here
  Stalls ctrl_stalls;
  Time busy[kEngines] = {};
};

}  // namespace dpu::timing

#endif
