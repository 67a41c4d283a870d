// Checks of rtl/sim/memory.hpp, one function a case; the name of the case is the argument.

#include "memory.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

using dpu::rtl::Memory;
using dpu::rtl::Request;
using dpu::rtl::Time;
using dpu::rtl::Timing;

#define CHECK(x) \
  if (!(x)) std::printf("%s:%d: %s\n", __FILE__, __LINE__, #x), std::exit(1)

constexpr Time kRate = 64 * 65536, kNever = Time{1} << 60;

// A LOAD, fetch or STORE master that is always ready: the cycles in which its beats moved.
struct Master {
  Memory& memory;
  std::vector<std::uint8_t> data = std::vector<std::uint8_t>(8192);
  std::vector<Time> beats = {}, answers = {};
  std::vector<int> responses = {};

  Request idle() const {
    Request q = {};
    q.r_ready = q.b_ready = true;
    q.ar_size = q.aw_size = 6;
    q.ar_burst = q.aw_burst = 1;
    return q;
  }

  void step(const Request& q) {
    const auto& r = memory.reply(0);
    if (r.r_valid) {
      std::memcpy(data.data() + 64 * beats.size(), r.r_data, 64);
      beats.push_back(memory.now());
      responses.push_back(r.r_resp);
    }
    if (r.b_valid) answers.push_back(memory.now()), responses.push_back(r.b_resp);
    memory.take(0, q);
    memory.end();
  }

  Time address(std::uint64_t at, int n, int id = 0) {
    Request q = idle();
    q.ar_valid = true, q.ar_addr = at, q.ar_len = static_cast<std::uint8_t>(n - 1);
    q.ar_id = static_cast<std::uint8_t>(id);
    const Time now = memory.now();
    CHECK(memory.reply(0).ar_ready);
    step(q);
    return now;
  }

  void wait(std::size_t n) {
    for (int i = 0; beats.size() + answers.size() < n; ++i) {
      CHECK(i < 100000);
      step(idle());
    }
  }

  // The cycle of the last beat.
  Time write(std::uint64_t at, int n, std::uint64_t strobe = ~std::uint64_t{0}) {
    Request q = idle();
    q.aw_valid = true, q.aw_addr = at, q.aw_len = static_cast<std::uint8_t>(n - 1);
    step(q);
    q.aw_valid = false, q.w_valid = true, q.w_strobe = strobe;
    for (int i = 0; i < n;) {
      q.w_data = data.data() + 64 * i;
      q.w_last = i + 1 == n;
      const bool moved = memory.reply(0).w_ready;
      if (moved && q.w_last) return step(q), memory.now() - 1;
      step(q);
      i += moved;
    }
    return 0;
  }
};

static std::vector<std::uint8_t> pattern(std::size_t n) {
  std::vector<std::uint8_t> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  return x;
}

static void read_latency() {  // the first beat `latency` cycles after the address, then a beat a cycle, bursts in a row
  Memory m(1, {0, 20, 40, kRate, kRate, 0, 1}, nullptr);
  auto x = pattern(4096);
  m.map(0x10000, x.size(), x.data(), false, false);
  Master a{m};
  const Time t = a.address(0x10000, 8);
  a.address(0x10200, 8);
  a.wait(16);
  CHECK(a.beats.front() == t + 20 && a.beats.back() == t + 35);
  CHECK(!std::memcmp(a.data.data(), x.data(), 1024));
  CHECK(!m.busy());
}

static void port_rate() {  // 24 bytes a cycle: 64 beats in 64 * 64 / 24 cycles
  Memory m(1, {0, 5, 5, kRate * 24 / 64, kRate, 0, 1}, nullptr);
  auto x = pattern(4096);
  m.map(0, x.size(), x.data(), true, false);
  Master a{m};
  a.address(0, 64);
  a.wait(64);
  CHECK(std::abs(a.beats.back() - a.beats.front() - 63 * 64 / 24) <= 1);
  const Time begin = m.now(), last = a.write(0, 64);
  CHECK(std::abs(last - begin - 63 * 64 / 24) <= 3);
}

static void shared_rate() {  // `simple`: reads and writes of all ports share one rate
  Memory m(2, {1, 5, 5, kRate, kRate / 2, 0, 1}, nullptr);
  auto x = pattern(4096);
  m.map(0, x.size(), x.data(), false, false);
  Master a{m};
  Request q = a.idle();
  q.ar_valid = true, q.ar_len = 63;
  int moved[2] = {};
  bool asked = false;
  Time first = 0, last = 0;
  while (moved[0] < 64 || moved[1] < 64) {
    for (int t = 0; t < 2; ++t) {
      if (m.reply(t).r_valid) ++moved[t], first = first ? first : m.now(), last = m.now();
      m.take(t, asked ? a.idle() : q);
    }
    asked = true;
    m.end();
    CHECK(std::abs(moved[0] - moved[1]) <= 1);
  }
  CHECK(std::abs(last - first - 128 * 2) <= 4);
}

static void instructions_first() {  // ID 1 comes between the beats of ID 0
  Memory m(1, {0, 10, 5, kRate, kRate, 0, 1}, nullptr);
  auto x = pattern(8192);
  m.map(0, x.size(), x.data(), false, false);
  Master a{m};
  a.address(0, 64);
  const Time t = a.address(4096, 1, 1);
  while (m.now() < t + 10) a.step(a.idle());
  CHECK(m.reply(0).r_valid && m.reply(0).r_id == 1 && m.reply(0).r_last);
}

static void responses() {
  Memory m(1, {0, 3, 3, kRate, kRate, 0, 1}, nullptr);
  std::vector<std::uint8_t> x(100), y(64), z(64);
  m.map(0x1000, x.size(), x.data(), true, false);
  m.map(0x2000, y.size(), y.data(), false, false);
  m.map(0x3000, z.size(), z.data(), true, true);
  Master a{m};
  x[99] = 5;
  const std::uint64_t from[] = {0x1000, 0x1040, 0x1080, 0x2000, 0x3000, 0x0fc0};
  const int want[] = {0, 0, 3, 0, 2, 3};
  for (const std::uint64_t at : from) a.address(at, 1);
  a.wait(6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(a.responses[i] == want[i]);
  CHECK(a.data[64 + 35] == 5 && a.data[64 + 36] == 0);  // beyond the end of a range, within its beat: zero
  a.responses.clear();
  a.beats.clear();
  std::memset(a.data.data(), 9, 256);
  a.write(0x1000, 1, 0xf0), a.write(0x1040, 1, (std::uint64_t{1} << 36) - 1), a.write(0x1040, 1, std::uint64_t{1} << 36);
  a.write(0x2000, 1), a.write(0x3000, 1), a.write(0x5000, 1), a.write(0x5000, 1, 0);
  a.wait(7);
  const int answered[] = {0, 0, 3, 2, 2, 3, 0};
  for (std::size_t i = 0; i < 7; ++i) CHECK(a.responses[i] == answered[i]);
  CHECK(x[3] == 0 && x[4] == 9 && x[7] == 9 && x[8] == 0 && x[99] == 9 && y[0] == 0 && z[0] == 0);
}

static void reads_early_writes_late() {
  Memory m(1, {0, 30, 20, kRate, kRate, 0, 1}, nullptr);
  std::vector<std::uint8_t> x(64, 1);
  m.map(0, 64, x.data(), true, false);
  Master a{m};
  a.address(0, 1);
  x[0] = 2;
  a.wait(1);
  CHECK(a.data[0] == 1);  // as it was when the address was taken
  a.data[0] = 7;
  const Time last = a.write(0, 1);
  while (m.now() < last + 20) {
    CHECK(x[0] == 2);
    a.step(a.idle());
  }
  CHECK(x[0] == 7 && m.reply(0).b_valid);  // with its response, not before
}

static void pauses() {  // random pauses change times only
  auto x = pattern(4096);
  std::vector<std::uint8_t> y(4096);
  Memory m(1, {0, 3, 3, kRate, kRate, 128, 7}, nullptr);
  m.map(0, 4096, x.data(), false, false);
  m.map(0x10000, 4096, y.data(), true, false);
  Master a{m};
  while (!m.reply(0).ar_ready) a.step(a.idle());
  const Time t = a.address(0, 64);
  a.wait(64);
  CHECK(a.beats.back() > t + 100);
  Request q = a.idle();
  q.aw_valid = true, q.aw_addr = 0x10000, q.aw_len = 63;
  while (!m.reply(0).aw_ready) a.step(q);
  a.step(q);
  q.aw_valid = false, q.w_valid = true, q.w_strobe = ~std::uint64_t{0};
  for (int i = 0; i < 64;) {
    q.w_data = a.data.data() + 64 * i, q.w_last = i == 63;
    const bool moved = m.reply(0).w_ready;
    a.step(q);
    i += moved;
  }
  a.wait(65);
  CHECK(x == y);
}

static void rules() {
  const auto broken = [](const std::function<void(Request&)>& change, const std::function<void(Request&)>& then) {
    Memory m(1, {0, 3, 3, kRate, kRate, 255, 3}, nullptr);
    Master a{m};
    Request q = a.idle();
    change(q);
    try {
      for (int i = 0; i < 20; ++i) {
        m.take(0, q);
        m.end();
        then(q);
      }
    } catch (const dpu::rtl::ProtocolError&) {
      return true;
    }
    return false;
  };
  const auto nothing = [](Request&) {};
  CHECK(broken([](Request& q) { q.ar_valid = true, q.ar_addr = 32; }, nothing));
  CHECK(broken([](Request& q) { q.ar_valid = true, q.ar_addr = 4032, q.ar_len = 1; }, nothing));
  CHECK(broken([](Request& q) { q.ar_valid = true, q.ar_size = 5; }, nothing));
  CHECK(broken([](Request& q) { q.aw_valid = true, q.aw_len = 64; }, nothing));
  CHECK(broken([](Request& q) { q.ar_valid = true; }, [](Request& q) { q.ar_addr += 64; }));
  CHECK(broken([](Request& q) { q.aw_valid = true; }, [](Request& q) { q.aw_valid = false; }));
  CHECK(!broken(nothing, nothing));
}

static dpu::dram::Config config(const char* text) {
  dpu::dram::Config c = {};
  auto* words = reinterpret_cast<Time*>(&c);
  for (std::size_t i = 0; i < dpu::dram::kFields; ++i) words[i] = std::strtoll(text, const_cast<char**>(&text), 10);
  return c;
}

static void bursts(const char* fields) {  // the times of the DRAM model, by piece, in order, a beat a cycle
  const dpu::dram::Config c = config(fields);
  Memory m(1, {2, 1, 1, kNever, kNever, 0, 1}, &c);
  auto x = pattern(8192);
  m.map(0, x.size(), x.data(), true, false);
  Master a{m};
  const Time step = std::min(c.interleave, c.stripe * c.page);
  dpu::dram::Model model(c);
  std::vector<Time> done(static_cast<std::size_t>(8192 / step));
  const Time t0 = a.address(0, 64), t1 = a.address(4096, 64);
  for (Time at = 0; at < 8192; at += step) model.submit(at < 4096 ? t0 : t1, at, step, false, at / step);
  for (;;) {
    const auto r = model.step(1000000);
    if (r.note != dpu::dram::Note::kDone) break;
    done[static_cast<std::size_t>(r.who)] = r.cycle;
  }
  a.wait(128);
  Time free = 0;
  for (Time i = 0; i < 128; ++i) {
    free = std::max(free, done[static_cast<std::size_t>(i * 64 / step)]);
    CHECK(a.beats[static_cast<std::size_t>(i)] == free);
    ++free;
  }
  CHECK(!std::memcmp(a.data.data(), x.data(), 8192));
  std::memset(a.data.data(), 3, 4096);
  a.beats.clear();
  const Time last = a.write(4096, 64);
  a.wait(1);
  CHECK(a.answers[0] > last + c.response / c.cycle && x[8191] == 3);
}

int main(int argc, char** argv) {
  CHECK(argc >= 2);
  const std::map<std::string, std::function<void()>> cases = {
      {"read_latency", read_latency},   {"port_rate", port_rate}, {"shared_rate", shared_rate},
      {"instructions_first", instructions_first}, {"responses", responses}, {"pauses", pauses},
      {"reads_early_writes_late", reads_early_writes_late}, {"rules", rules},
      {"bursts", [&] { bursts(argv[2]); }},
  };
  cases.at(argv[1])();
}
