// What goes wrong in a stand-in card, and when: a list of KIND[:SLOT]@ACCESS[=VALUE][/UNTIL], parted by semicolons.
// ACCESS counts peeks, pokes and bursts of the slot from the first load on. UNTIL says what mends it: reset, reload, or
// never; without it the fault happens once.

#ifndef DPU_STANDIN_FAULTS_HPP
#define DPU_STANDIN_FAULTS_HPP

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace dpu::standin {

struct Fault {
  std::string kind;
  int slot = 0;
  std::int64_t at = 0, value = 1;
  std::string until;
  bool waiting = true;  // has not happened yet
};

inline std::vector<Fault> parse(const std::string& text) {
  std::vector<Fault> found;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find(';', at);
    if (end == std::string::npos) end = text.size();
    std::string one = text.substr(at, end - at);
    at = end + 1;
    if (one.empty()) continue;
    Fault f;
    if (const auto p = one.find('/'); p != std::string::npos) f.until = one.substr(p + 1), one.resize(p);
    if (const auto p = one.find('='); p != std::string::npos) f.value = std::stoll(one.substr(p + 1)), one.resize(p);
    if (const auto p = one.find('@'); p != std::string::npos) f.at = std::stoll(one.substr(p + 1)), one.resize(p);
    if (const auto p = one.find(':'); p != std::string::npos) f.slot = std::stoi(one.substr(p + 1)), one.resize(p);
    f.kind = one;
    if (!f.until.empty() && f.until != "reset" && f.until != "reload" && f.until != "never")
      throw std::invalid_argument("fault '" + one + "' until '" + f.until + "'");
    found.push_back(f);
  }
  return found;
}

}  // namespace dpu::standin
#endif
