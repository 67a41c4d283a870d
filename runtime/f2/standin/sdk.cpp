// The entry points of the AWS FPGA SDK (libfpga_mgmt) over stand-in cards. Signatures, struct layouts and error numbers
// are those of the SDK's public headers (see ../sdk.py); everything behind them is ours.
//
// Environment: DPU_STANDIN_LOGIC, the Verilated custom logic; DPU_STANDIN_SLOTS, how many cards; DPU_STANDIN_IMAGE, what
// they have loaded (may be empty); DPU_STANDIN_HUGEPAGES and DPU_STANDIN_PAGEMAP, see host.hpp; DPU_STANDIN_EVENTS, a
// FIFO for interrupts, {slot} for the number; DPU_STANDIN_FAULTS, see faults.hpp. Read by fpga_mgmt_init.

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "card.hpp"

using dpu::standin::Card;
using dpu::standin::Host;
using dpu::standin::Logic;

namespace {

constexpr int kSlots = 8, kBroken = -1000;

struct __attribute__((packed)) ResourceMap {
  std::uint16_t vendor, device, subsystem_device, subsystem_vendor, domain;
  std::uint8_t bus, dev, func;
  bool burstable[5];
  std::uint64_t size[5];
};

struct __attribute__((packed)) SlotSpec {
  ResourceMap map[2];
};

struct __attribute__((packed)) Info {
  int status, status_q, slot;
  char image[64];
  std::uint16_t ids[4];
  SlotSpec spec;
  std::uint32_t shell;
  std::uint8_t metrics[504];
};
static_assert(sizeof(ResourceMap) == 58 && sizeof(Info) == 708);

struct Machine {
  Logic logic{};
  Host host;
  std::vector<std::unique_ptr<Card>> cards;
  std::string broken;  // what the model complained of
};

std::mutex guard;
std::unique_ptr<Machine> machine;
int users = 0;

std::string setting(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

template <class F>
void bind(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(library, name));
  if (!function) throw std::runtime_error(std::string("no ") + name);
}

std::unique_ptr<Machine> start() {
  auto m = std::make_unique<Machine>();
  void* library = dlopen(setting("DPU_STANDIN_LOGIC").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  Logic& l = m->logic;
  bind(library, "cl_new", l.make), bind(library, "cl_free", l.free), bind(library, "cl_problem", l.problem);
  bind(library, "cl_step", l.step), bind(library, "cl_ocl_read", l.ocl_read), bind(library, "cl_ocl_write", l.ocl_write);
  bind(library, "cl_pcis_read", l.pcis_read), bind(library, "cl_pcis_write", l.pcis_write);
  bind(library, "cl_host", l.host), bind(library, "cl_irq", l.irq), bind(library, "cl_power", l.power);
  bind(library, "cl_inject", l.inject), bind(library, "cl_hbm_read", l.hbm_read);
  bind(library, "cl_hbm_write", l.hbm_write);
  m->host.open(setting("DPU_STANDIN_HUGEPAGES"), setting("DPU_STANDIN_PAGEMAP"));
  const std::string slots = setting("DPU_STANDIN_SLOTS"), events = setting("DPU_STANDIN_EVENTS");
  const auto faults = dpu::standin::parse(setting("DPU_STANDIN_FAULTS"));
  for (int i = 0; i < (slots.empty() ? 1 : std::stoi(slots)); ++i) {
    std::string file = events;
    if (const auto at = file.find("{slot}"); at != std::string::npos) file.replace(at, 6, std::to_string(i));
    m->cards.push_back(std::make_unique<Card>(l, m->host, i, faults, setting("DPU_STANDIN_IMAGE"), file));
  }
  return m;
}

Card* card(int slot) {
  return machine && slot >= 0 && slot < static_cast<int>(machine->cards.size()) ? machine->cards[slot].get() : nullptr;
}

// A handle is the slot and the BAR.
Card* attached(int handle, int bar) { return handle >= 0 && handle % 8 == bar ? card(handle / 8) : nullptr; }

int answer(Card* c, int result) {
  if (result == 0) return 0;
  machine->broken = c->problem();
  return kBroken;
}

void fill(SlotSpec* spec, int slot) {
  std::memset(spec, 0, sizeof *spec);
  for (int pf = 0; pf < 2; ++pf) {
    ResourceMap& m = spec->map[pf];
    m.vendor = 0x1D0F, m.device = pf ? 0x9248 : 0xF000, m.bus = static_cast<std::uint8_t>(0x34 + slot), m.dev = 0;
    m.func = static_cast<std::uint8_t>(pf);
    if (pf == 0) m.size[0] = 64 << 20, m.size[4] = std::uint64_t{128} << 30, m.burstable[4] = true;
  }
}

void fill(Info* info, const Card& c, int slot) {
  std::memset(info, 0, sizeof *info);
  info->status = c.status, info->status_q = c.qualifier, info->slot = slot, info->shell = 0x10212415;
  std::strncpy(info->image, c.image.c_str(), sizeof info->image - 1);
  fill(&info->spec, slot);
}

}  // namespace

extern "C" {

// The real library has no such symbol: whoever finds it knows that nothing here was measured.
int dpu_standin = 1;

// How many accesses a slot has seen: what faults count by.
std::int64_t dpu_standin_accesses(int slot) {
  Card* c = card(slot);
  return c ? c->accesses : -1;
}

int fpga_mgmt_init(void) {
  const std::lock_guard<std::mutex> hold(guard);
  if (users++) return 0;
  try {
    machine = start();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand-in: %s\n", e.what());
    users = 0;
    return -EIO;
  }
  return 0;
}

int fpga_mgmt_close(void) {
  const std::lock_guard<std::mutex> hold(guard);
  if (users && --users == 0) machine.reset();
  return 0;
}

const char* fpga_mgmt_strerror(int error) {
  if (error == kBroken) return machine ? machine->broken.c_str() : "";
  if (error == dpu::standin::kLoadTimeout) return "afi-load-timeout";
  return error < 0 ? std::strerror(-error) : "internal-error";
}

int fpga_mgmt_describe_local_image(int slot, Info* info, std::uint32_t) {
  Card* c = card(slot);
  if (!c) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  fill(info, *c, slot);
  return 0;
}

int fpga_mgmt_load_local_image_sync(int slot, char* image, std::uint32_t, std::uint32_t, Info* info) {
  Card* c = card(slot);
  if (!c) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  const int result = c->load(image);
  if (info) fill(info, *c, slot);
  return result;
}

int fpga_mgmt_clear_local_image_sync(int slot, std::uint32_t, std::uint32_t, Info* info) {
  Card* c = card(slot);
  if (!c) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  const int result = c->clear();
  if (info) fill(info, *c, slot);
  return result;
}

int fpga_pci_get_slot_spec(int slot, SlotSpec* spec) {
  if (!card(slot)) return -EINVAL;
  fill(spec, slot);
  return 0;
}

int fpga_pci_attach(int slot, int pf, int bar, std::uint32_t, int* handle) {
  if (!card(slot) || pf != 0 || (bar != 0 && bar != 4)) return -EINVAL;
  const std::lock_guard<std::mutex> hold(guard);
  try {
    machine->host.scan();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "stand-in: %s\n", e.what());
    return -EIO;
  }
  *handle = slot * 8 + bar;
  return 0;
}

int fpga_pci_detach(int handle) { return handle >= 0 && handle < 8 * kSlots ? 0 : -EINVAL; }

int fpga_pci_peek(int handle, std::uint64_t offset, std::uint32_t* value) {
  Card* c = attached(handle, 0);
  if (!c || offset % 4) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  return answer(c, c->peek(offset, value));
}

int fpga_pci_peek64(int handle, std::uint64_t offset, std::uint64_t* value) {
  Card* c = attached(handle, 4);
  if (!c || offset % 8) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  return answer(c, c->read(offset, reinterpret_cast<std::uint8_t*>(value), 8));
}

int fpga_pci_poke(int handle, std::uint64_t offset, std::uint32_t value) {
  Card* c = attached(handle, 0);
  if (!c || offset % 4) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  return answer(c, c->poke(offset, value));
}

int fpga_pci_write_burst(int handle, std::uint64_t offset, std::uint32_t* data, std::uint64_t words) {
  Card* c = attached(handle, 4);
  if (!c || offset % 4) return -EINVAL;
  const std::lock_guard<std::mutex> hold(c->lock);
  return answer(c, c->burst(offset, reinterpret_cast<std::uint8_t*>(data), static_cast<std::int64_t>(words * 4)));
}

}  // extern "C"
