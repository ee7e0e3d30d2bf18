// The asynchronous copies of one emulated thread.
#pragma once

#include "core/base/error.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

namespace kvloupe::cuda::emulator {

class AsyncCopies {
 public:
  // `at_once`: as early as a GPU may do it, else as late.
  void issue(void* to, const void* from, std::size_t bytes, bool at_once) {
    KVLOUPE_CHECK(bytes == 4 || bytes == 8 || bytes == 16);
    KVLOUPE_CHECK(reinterpret_cast<std::uintptr_t>(to) % bytes == 0);
    KVLOUPE_CHECK(reinterpret_cast<std::uintptr_t>(from) % bytes == 0);
    const Copy copy{to, from, bytes};
    if (at_once)
      copy.run();
    else
      open_.push_back(copy);
  }
  void commit() { groups_.push_back(std::move(open_)), open_.clear(); }
  void wait(std::size_t groups_left) {
    for (; groups_.size() > groups_left; groups_.pop_front())
      for (const Copy& copy : groups_.front()) copy.run();
  }
  void forget() { open_.clear(), groups_.clear(); }

 private:
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
    void run() const { std::memcpy(to, from, bytes); }
  };
  std::vector<Copy> open_;
  std::deque<std::vector<Copy>> groups_;
};

}  // namespace kvloupe::cuda::emulator
