// Memory that faults beyond its ends: what stands in for a GPU's.
#pragma once

#include "core/base/error.h"

#include <algorithm>
#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

namespace kvloupe::cuda::emulator {

// Room for `bytes` in whole pages, between two pages that nobody may touch.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        inside_((std::max<std::size_t>(1, bytes) + page_ - 1) / page_ * page_),
        all_(::mmap(nullptr, inside_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    KVLOUPE_CHECK(all_ != MAP_FAILED);
    open(true);
  }
  ~GuardedPages() { ::munmap(all_, inside_ + 2 * page_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  // Whether what is between may be read and written; at first it may.
  void open(bool yes) const {
    KVLOUPE_CHECK(::mprotect(begin(), inside_, yes ? PROT_READ | PROT_WRITE : PROT_NONE) == 0);
  }
  char* begin() const { return static_cast<char*>(all_) + page_; }
  std::size_t size() const { return inside_; }
  // The last `bytes`: they end where the pages end, but for the alignment of their begin.
  char* last(std::size_t bytes, std::size_t alignment) const {
    return begin() + inside_ - (bytes + alignment - 1) / alignment * alignment;
  }

 private:
  std::size_t page_, inside_;
  void* all_;
};

}  // namespace kvloupe::cuda::emulator
