#include "card.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace dpu::standin {

namespace {

// Addresses of BAR0 that the stand-in looks at; the driver has the whole map.
constexpr std::uint64_t kCtrl = 0x14, kStatus = 0x18, kProgram = 0x1000, kCustom = 0x100000;
constexpr std::uint64_t kId = kCustom, kDigest = kCustom + 8, kControl = kCustom + 0x1C, kCopyStatus = kCustom + 0x38;
constexpr std::uint64_t kMemory = 0x1000000000, kOnes = 0xFFFFFFFF;
constexpr int kSignal = 6;  // of an instruction word: bytes before its field `signal`
constexpr std::int64_t kWarmAccesses = 300;  // for which a power warning lasts
// How much time passes while the host looks: a look at a run waits for it, as a host that polls seldom does.
constexpr std::int64_t kLook = 4096, kCopyLook = 512, kCount = 16;

}  // namespace

Card::Card(const Logic& logic, Host& host, int slot, std::vector<Fault> faults, std::string loaded, std::string events)
    : image(std::move(loaded)), logic_(logic), host_(host), slot_(slot), events_(std::move(events)) {
  for (Fault& f : faults)
    if (f.slot == slot) faults_.push_back(f);
  if (image.empty()) status = kCleared;
}

Card::~Card() {
  if (card_) logic_.free(card_);
  if (event_file_ >= 0) ::close(event_file_);
}

// A card that has just been configured: memory holds nothing of before, but noise, another one each time.
void Card::renew() {
  if (card_) logic_.free(card_);
  card_ = logic_.make(static_cast<std::uint64_t>(slot_) + 1 + (renewals_++ << 8), 0);
  logic_.host(card_, &Card::write_host, this);
  logic_.inject(card_, CL_POSTED, 1);  // a store of the host does not wait for its answer
  running_ = false;
}

// The model is made when it is first used: most slots never are.
void Card::wake() {
  if (!card_) renew();
}

int Card::load(const std::string& wanted) {
  std::int64_t value = 0;
  if (take("load-fails", &value)) return status = kCleared, kLoadTimeout;
  status = kLoaded, qualifier = kOk, image = wanted, dead_ = false;
  mend("reload");
  renew();
  for (const Fault& f : lasting_) inject(f.kind, f.value);
  return 0;
}

int Card::clear() {
  status = kCleared, qualifier = kOk, image.clear();
  return 0;
}

int Card::peek(std::uint64_t address, std::uint32_t* value) {
  access();
  *value = static_cast<std::uint32_t>(kOnes);
  if (dead_ || status != kLoaded) return 0;
  const std::int64_t cycles = address == kStatus && running_ ? kLook : address == kCopyStatus ? kCopyLook : kCount;
  if (step(cycles) < 0 || logic_.ocl_read(card_, static_cast<std::uint32_t>(address), value) < 0) return -1;
  if (address == kStatus && !(*value & 1)) running_ = false;
  for (const Fault& f : lasting_)
    if (f.kind == "wrong-image" && address == (f.value ? kDigest : kId)) *value ^= 0x01010101;
  std::int64_t bit = 0;
  if (take("corrupt-read", &bit)) *value ^= std::uint32_t{1} << bit % 32;
  return 0;
}

int Card::poke(std::uint64_t address, std::uint32_t value) {
  access();
  std::int64_t unused = 0;
  if (dead_ || status != kLoaded || take("lost-poke", &unused)) return 0;
  if (address == kProgram) program_ = value;
  if (address == kProgram + 8) words_ = value;
  if (address == kControl && value & 1) mend("reset");
  if (address == kCtrl && value & 1) {
    running_ = true;
    if (take("stuck-semaphore", &unused)) spoil_program();
  }
  return logic_.ocl_write(card_, static_cast<std::uint32_t>(address), value) < 0 ? -1 : 0;
}

int Card::burst(std::uint64_t address, const std::uint8_t* data, std::int64_t bytes) {
  access();
  if (dead_ || status != kLoaded) return 0;
  std::int64_t lost = 0;
  if (take("short-write", &lost)) bytes = std::max<std::int64_t>(0, bytes - lost);
  return bytes && logic_.pcis_write(card_, address, data, bytes) < 0 ? -1 : 0;
}

int Card::read(std::uint64_t address, std::uint8_t* data, std::int64_t bytes) {
  access();
  std::memset(data, 0xFF, static_cast<std::size_t>(bytes));
  if (dead_ || status != kLoaded) return 0;
  return logic_.pcis_read(card_, address, data, bytes) < 0 ? -1 : 0;
}

int Card::write_host(void* self, std::uint64_t physical, const std::uint8_t* data, std::uint64_t strobe) {
  return static_cast<Card*>(self)->host_write(physical, data, strobe);
}

int Card::host_write(std::uint64_t physical, const std::uint8_t* data, std::uint64_t strobe) {
  std::uint8_t* at = host_.at(physical);
  if (!at) return 1;
  std::int64_t value = 0;
  if (take("short-copy", &value)) return 0;
  for (int i = 0; i < 64; ++i)
    if (strobe >> i & 1) at[i] = data[i];
  if (take("corrupt-copy", &value)) at[value % 64] ^= 0x10;
  return 0;
}

// Count an access, and let happen what is due.
void Card::access() {
  wake();
  ++accesses;
  if (warm_ && --warm_ == 0) logic_.power(card_, 0);
  for (Fault& f : faults_)
    if (f.waiting && f.at <= accesses) {
      f.waiting = false;
      happen(f);
    }
}

void Card::happen(Fault& f) {
  static const char* const kOnNext[] = {"corrupt-read", "corrupt-copy", "short-copy",     "lost-poke",
                                        "short-write",  "load-fails",   "stuck-semaphore"};
  for (const char* kind : kOnNext)
    if (f.kind == kind) {
      next_.push_back(f);
      return;
    }
  if (!f.until.empty()) lasting_.push_back(f);
  inject(f.kind, f.value);
}

void Card::inject(const std::string& kind, std::int64_t value) {
  if (kind == "bus-dead") dead_ = true;
  if (kind == "image-lost") dead_ = true, clear();
  if (kind == "power-violation") dead_ = true, qualifier = kPower;
  if (kind == "power-throttle") logic_.power(card_, static_cast<int>(value)), warm_ = kWarmAccesses;
  if (kind == "hang") logic_.inject(card_, CL_HANG_HBM, value);
  if (kind == "slow-dma") logic_.inject(card_, CL_SLOW_PCIM, value);
  if (kind == "irq-lost") logic_.inject(card_, CL_DROP_IRQ, value);
  if (kind == "pcim-hang") logic_.inject(card_, CL_HANG_PCIM, 1);
  if (kind == "pcim-error") logic_.inject(card_, CL_ERROR_PCIM, value);
  if (kind == "lost-response") logic_.inject(card_, CL_DROP_B, value);
  if (kind == "hbm-error") logic_.inject(card_, CL_ERROR_HBM, value);
  if (kind == "cold-memory") logic_.inject(card_, CL_COLD_HBM, 1);
}

void Card::mend(const std::string& by) {
  const auto gone = [&](const Fault& f) { return f.until == by || (by == "reload" && f.until == "reset"); };
  for (const Fault& f : lasting_) {
    if (!gone(f)) continue;
    if (f.kind == "hang") logic_.inject(card_, CL_HANG_HBM, 0);
    if (f.kind == "pcim-hang") logic_.inject(card_, CL_HANG_PCIM, 0);
    if (f.kind == "slow-dma") logic_.inject(card_, CL_SLOW_PCIM, 0);
    if (f.kind == "cold-memory") logic_.inject(card_, CL_COLD_HBM, 0);
    if (f.kind == "power-throttle") logic_.power(card_, 0);
    if (f.kind == "bus-dead" || f.kind == "power-violation") dead_ = false, qualifier = kOk;
  }
  lasting_.erase(std::remove_if(lasting_.begin(), lasting_.end(), gone), lasting_.end());
  if (by == "reload") warm_ = 0;
}

// Let time pass; an interrupt that is delivered goes to the event file.
int Card::step(std::int64_t cycles) {
  if (logic_.step(card_, cycles, 1) < 0) return -1;
  const std::int64_t came = logic_.irq(card_);
  if (came > 0 && !events_.empty()) {
    if (event_file_ < 0) event_file_ = ::open(events_.c_str(), O_RDWR | O_NONBLOCK);
    const std::uint32_t one = 1;
    if (event_file_ >= 0 && ::write(event_file_, &one, sizeof one) < 0) return 0;  // full: it says that one came already
  }
  return 0;
}

bool Card::take(const char* kind, std::int64_t* value) {
  for (auto f = next_.begin(); f != next_.end(); ++f)
    if (f->kind == kind) {
      *value = f->value;
      if (f->until != "never") next_.erase(f);
      return true;
    }
  return false;
}

// Take the first signal out of the words of tile 0: whoever waits for it waits forever.
void Card::spoil_program() {
  for (std::uint64_t i = 0; i < words_; ++i) {
    std::uint8_t word[64];
    logic_.hbm_read(card_, program_ + 64 * i, word, 64);
    std::uint16_t signal = 0;
    std::memcpy(&signal, word + kSignal, sizeof signal);
    if (!signal) continue;
    signal = static_cast<std::uint16_t>(signal & (signal - 1));
    std::memcpy(word + kSignal, &signal, sizeof signal);
    logic_.hbm_write(card_, program_ + 64 * i, word, 64);
    return;
  }
}

}  // namespace dpu::standin
