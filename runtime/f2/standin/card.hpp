// One stand-in card: the Verilated custom logic with an image of its own, and the faults that are sown into it.

#ifndef DPU_STANDIN_CARD_HPP
#define DPU_STANDIN_CARD_HPP

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "cl_dpu.h"
#include "faults.hpp"
#include "host.hpp"

namespace dpu::standin {

enum { kLoaded = 0, kCleared = 1 };             // status of a slot
enum { kOk = 0, kLoadTimeout = 6, kPower = 17 };  // its qualifier

// The functions of the Verilated library.
struct Logic {
  decltype(&cl_new) make;
  decltype(&cl_free) free;
  decltype(&cl_problem) problem;
  decltype(&cl_step) step;
  decltype(&cl_ocl_read) ocl_read;
  decltype(&cl_ocl_write) ocl_write;
  decltype(&cl_pcis_read) pcis_read;
  decltype(&cl_pcis_write) pcis_write;
  decltype(&cl_host) host;
  decltype(&cl_irq) irq;
  decltype(&cl_power) power;
  decltype(&cl_inject) inject;
  decltype(&cl_hbm_read) hbm_read;
  decltype(&cl_hbm_write) hbm_write;
};

class Card {
 public:
  Card(const Logic& logic, Host& host, int slot, std::vector<Fault> faults, std::string image, std::string events);
  ~Card();

  // What management does: 0, or one of the SDK's errors.
  int load(const std::string& image);
  int clear();

  // What a BAR does: 0, or -1 when the model broke a rule (`problem`).
  int peek(std::uint64_t address, std::uint32_t* value);
  int poke(std::uint64_t address, std::uint32_t value);
  int burst(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes);
  int read(std::uint64_t address, std::uint8_t* data, std::int64_t bytes);

  std::string problem() const { return card_ ? logic_.problem(card_) : ""; }

  std::mutex lock;
  int status = kLoaded, qualifier = kOk;
  std::string image;
  std::int64_t accesses = 0;  // peeks, pokes, bursts and loads so far

 private:
  static int write_host(void* self, std::uint64_t physical, const std::uint8_t* data, std::uint64_t strobe);
  int host_write(std::uint64_t physical, const std::uint8_t* data, std::uint64_t strobe);
  void access();
  void happen(Fault& fault);
  void mend(const std::string& by);
  void inject(const std::string& kind, std::int64_t value);
  int step(std::int64_t cycles);
  bool take(const char* kind, std::int64_t* value);
  void spoil_program();
  void renew();
  void wake();

  const Logic& logic_;
  Host& host_;
  int slot_;
  std::vector<Fault> faults_;
  std::string events_;
  void* card_ = nullptr;
  std::uint64_t renewals_ = 0;
  int event_file_ = -1;
  std::int64_t warm_ = 0;
  bool dead_ = false, running_ = false;
  std::vector<Fault> next_;    // happen to the next access that they fit
  std::vector<Fault> lasting_;  // until something mends them
  std::uint64_t program_ = 0, words_ = 0;  // of tile 0
};

}  // namespace dpu::standin
#endif
