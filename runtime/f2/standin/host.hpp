// Physical memory of a computer that has none to give: the pages of files in one folder get frame numbers of their own,
// in no order, and a page map in the kernel's form says which. A card's writes go back through the same table. A page
// that is new is filled with noise: what no write reaches must not look as if one had.

#ifndef DPU_STANDIN_HOST_HPP
#define DPU_STANDIN_HOST_HPP

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <string>

namespace dpu::standin {

class Host {
 public:
  void open(const std::string& folder, const std::string& pagemap) {
    folder_ = folder, pagemap_ = pagemap;
  }

  // Find the pages that this process has mapped, and write the page map.
  void scan() {
    if (folder_.empty() || pagemap_.empty()) return;
    const std::unique_lock<std::shared_mutex> hold(table_);
    const int file = ::open(pagemap_.c_str(), O_WRONLY | O_CREAT, 0600);
    if (file < 0) throw std::runtime_error("cannot write " + pagemap_);
    std::map<std::uint64_t, std::uint64_t> seen;  // page -> frame
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(folder_ + "/") == std::string::npos) continue;
      std::uint64_t begin = 0, end = 0;
      if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
      for (std::uint64_t page = begin; page + kHuge <= end; page += kHuge) {
        const auto known = frames_.find(page);
        const std::uint64_t frame = known == frames_.end() ? next() : known->second;
        if (known == frames_.end()) fill(page, frame);
        seen[page] = frame;
        std::uint64_t entries[kHuge / kSmall];
        for (std::uint64_t i = 0; i < kHuge / kSmall; ++i) entries[i] = kPresent | (frame + i);
        const auto at = static_cast<off_t>(page / kSmall * 8);
        if (::pwrite(file, entries, sizeof entries, at) != static_cast<ssize_t>(sizeof entries)) {
          ::close(file);
          throw std::runtime_error("cannot write " + pagemap_);
        }
      }
    }
    ::close(file);
    frames_ = seen;
    pages_.clear();
    for (const auto& [page, frame] : seen) pages_[frame * kSmall / kHuge] = page;
  }

  // The bytes at a physical address that the card may write: 64 of them, or none.
  std::uint8_t* at(std::uint64_t physical) const {
    const std::shared_lock<std::shared_mutex> hold(table_);
    const auto found = pages_.find(physical / kHuge);
    if (found == pages_.end() || physical % 64) return nullptr;
    return reinterpret_cast<std::uint8_t*>(found->second + physical % kHuge);
  }

 private:
  static constexpr std::uint64_t kHuge = 2 << 20, kSmall = 4096, kPresent = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kFirst = (std::uint64_t{5} << 30) / kSmall;

  std::uint64_t next() {
    const std::uint64_t place = count_++ * 37 % 1009;  // no two neighbours are neighbours
    return kFirst + place * (kHuge / kSmall);
  }

  static void fill(std::uint64_t page, std::uint64_t seed) {
    std::mt19937_64 noise(seed);
    auto* words = reinterpret_cast<std::uint64_t*>(page);
    for (std::uint64_t i = 0; i < kHuge / sizeof *words; ++i) words[i] = noise();
  }

  mutable std::shared_mutex table_;  // a card writes while another one is attached
  std::string folder_, pagemap_;
  std::map<std::uint64_t, std::uint64_t> frames_, pages_;
  std::uint64_t count_ = 0;
};

}  // namespace dpu::standin
#endif
