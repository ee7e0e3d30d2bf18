#include "core/base/mapped_file.h"

#include "core/base/error.h"
#include "core/base/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace kvloupe {

// Read by the signal handler, so nothing but atomics.
struct MappedRegion {
  std::atomic<std::byte*> begin{nullptr};  // null: the entry is free
  std::atomic<std::size_t> size{0};
  std::atomic<bool> cut{false};
};

namespace {

constexpr std::size_t kMaxRegions = 512;  // a model may lie in many files
std::mutex table_mutex;
struct sigaction previous_action;

std::array<MappedRegion, kMaxRegions> regions;

void handle_bus_error(int signal_number, siginfo_t* info, void*) {
  auto* const address = static_cast<std::byte*>(info->si_addr);
  for (MappedRegion& region : regions) {
    std::byte* const begin = region.begin.load();
    if (begin == nullptr || address < begin || address >= begin + region.size.load()) continue;
    // The page that failed becomes one of zeros, and the read is tried again.
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::byte* const at = begin + (address - begin) / static_cast<std::ptrdiff_t>(page) *
                                      static_cast<std::ptrdiff_t>(page);
    if (::mmap(at, page, PROT_READ, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) {
      region.cut.store(true);
      return;
    }
  }
  // Not ours: as if this handler were not there, when the read is tried again.
  ::sigaction(signal_number, &previous_action, nullptr);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, const char* what)
    : path_(path), what_(what) {
  const auto refuse = [&](const std::string& why) {
    if (descriptor_ >= 0) ::close(descriptor_);
    throw input_error(fmt::format("cannot read {} {}", what_, path_.string()), why,
                      "check the path and the permissions");
  };
  // A FIFO would wait for a writer for ever.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) refuse(std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) refuse(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse("it is not a regular file");
  if (status.st_size == 0) refuse("the file is empty");
  const auto size = static_cast<std::size_t>(status.st_size);

  const std::lock_guard lock(table_mutex);
  static std::once_flag installed;
  std::call_once(installed, [] {
    struct sigaction action {};
    action.sa_sigaction = handle_bus_error;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGBUS, &action, &previous_action);
  });
  for (MappedRegion& candidate : regions) {
    if (candidate.begin.load() == nullptr) region_ = &candidate;
  }
  if (region_ == nullptr) refuse(fmt::format("{} files are mapped already", kMaxRegions));
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (address == MAP_FAILED) refuse(std::strerror(errno));
  region_->size.store(size);
  region_->cut.store(false);
  region_->begin.store(static_cast<std::byte*>(address));
}

MappedFile::~MappedFile() {
  const std::lock_guard lock(table_mutex);
  std::byte* const begin = region_->begin.load();
  region_->begin.store(nullptr);
  ::munmap(begin, region_->size.load());
  ::close(descriptor_);
}

std::span<const std::byte> MappedFile::bytes() const {
  return {region_->begin.load(), region_->size.load()};
}

void MappedFile::release_pages() const {
  ::madvise(region_->begin.load(), region_->size.load(), MADV_DONTNEED);
}

void MappedFile::add_to(Sha256& sum) const {
  constexpr std::size_t kPiece = 64 << 20;
  std::byte* const begin = region_->begin.load();
  const std::size_t size = region_->size.load();
  for (std::size_t at = 0; at < size; at += kPiece) {
    const std::size_t length = std::min(kPiece, size - at);
    sum.update(begin + at, length);
    ::madvise(begin + at, length, MADV_DONTNEED);
  }
}

void MappedFile::require_whole() const {
  struct stat status {};
  const bool as_long = ::fstat(descriptor_, &status) == 0 &&
                       static_cast<std::size_t>(status.st_size) >= region_->size.load();
  if (as_long && !region_->cut.load()) return;
  throw input_error(fmt::format("cannot read {} {}", what_, path_.string()),
                    "it became shorter while it was read", "wait until it is complete");
}

}  // namespace kvloupe
