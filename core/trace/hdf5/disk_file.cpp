// Positioned reads and writes that say what failed, and notice what others did to the file.
#include "core/trace/hdf5/disk_file.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/trace/hdf5/read_at.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

DiskHook& hook() {
  static DiskHook installed;
  return installed;
}

int asked_to_fail(const DiskChange& change) { return hook() ? hook()(change) : 0; }

DiskFile open_file(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0666);
  if (descriptor < 0)
    throw input_error("cannot write " + path.string(), std::strerror(errno),
                      "check the permissions of its folder");
  return {path, descriptor};
}

constexpr std::uint64_t kPage = 4096;

// The first held piece that ends after `offset`.
template <typename Map>
auto first_beyond(Map& held, std::uint64_t offset) {
  auto piece = held.upper_bound(offset);
  if (piece != held.begin()) {
    const auto before = std::prev(piece);
    if (before->first + before->second.bytes.size() > offset) return before;
  }
  return piece;
}

// How much of it there is before the zeros at its end.
std::size_t used(std::span<const std::byte> bytes) {
  const auto last = std::find_if(bytes.rbegin(), bytes.rend(),
                                 [](std::byte byte) { return byte != std::byte{0}; });
  return static_cast<std::size_t>(bytes.rend() - last);
}

}  // namespace

void set_disk_hook(DiskHook installed) { hook() = std::move(installed); }

DiskFile::DiskFile(fs::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {
  struct stat status;
  if (::fstat(descriptor_, &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
}

DiskFile::~DiskFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DiskFile::DiskFile(DiskFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      failure_(std::move(other.failure_)),
      held_(std::move(other.held_)),
      flushed_(std::move(other.flushed_)) {}

DiskFile DiskFile::create(const fs::path& path) { return open_file(path, O_CREAT | O_EXCL); }

DiskFile DiskFile::open(const fs::path& path) { return open_file(path, 0); }

void DiskFile::fail(std::string reason) {
  if (!failure_) failure_ = std::move(reason);
}

// Adds a piece and merges it with those that it overlaps.
void DiskFile::hold(std::uint64_t offset, std::span<const std::byte> bytes, int rank) {
  std::uint64_t begin = offset, end = offset + bytes.size();
  const auto first = first_beyond(held_, offset);
  auto last = first;
  for (; last != held_.end() && last->first < offset + bytes.size(); ++last) {
    begin = std::min(begin, last->first);
    end = std::max(end, last->first + last->second.bytes.size());
  }
  std::vector<std::byte> merged(end - begin);
  for (auto piece = first; piece != last; ++piece)
    std::ranges::copy(piece->second.bytes, merged.begin() + (piece->first - begin));
  std::ranges::copy(bytes, merged.begin() + (offset - begin));
  held_.erase(first, last);
  held_.emplace(begin, Piece{std::move(merged), rank});
}

bool DiskFile::read_disk(std::uint64_t offset, std::span<std::byte> out) const {
  const auto got = read_at(descriptor_, offset, out);
  if (got) std::fill(out.begin() + static_cast<std::ptrdiff_t>(*got), out.end(), std::byte{0});
  return got.has_value();
}

bool DiskFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!read_disk(offset, out)) return false;
  for (auto piece = first_beyond(held_, offset);
       piece != held_.end() && piece->first < offset + out.size(); ++piece) {
    const std::uint64_t begin = std::max(piece->first, offset);
    const auto& bytes = piece->second.bytes;
    const std::uint64_t end = std::min(piece->first + bytes.size(), offset + out.size());
    std::memcpy(out.data() + (begin - offset), bytes.data() + (begin - piece->first), end - begin);
  }
  return true;
}

void DiskFile::check_length() {
  struct stat status;
  if (::fstat(descriptor_, &status) != 0) return fail(std::strerror(errno));
  const auto found = static_cast<std::uint64_t>(status.st_size);
  if (found < size_)
    fail(fmt::format("another program cut it from {} to {} meanwhile", format_bytes(size_),
                     format_bytes(found)));
}

void DiskFile::put(std::uint64_t offset, std::span<const std::byte> bytes) {
  if (const int code = failure_ ? 0 : asked_to_fail({*this, offset, bytes}))
    fail(std::strerror(code));
  if (!failure_) check_length();
  for (std::size_t done = 0; !failure_ && done < bytes.size();) {
    const ssize_t put = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                 static_cast<off_t>(offset + done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(std::strerror(put < 0 ? errno : ENOSPC));
    done += static_cast<std::size_t>(std::max<ssize_t>(put, 0));
  }
  size_ = std::max<std::uint64_t>(size_, offset + bytes.size());
}

void DiskFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  put(offset, bytes);
  if (failure_) hold(offset, bytes, 0);
}

void DiskFile::write_at_flush(std::uint64_t offset, std::span<const std::byte> bytes, int rank) {
  hold(offset, bytes, rank);
}

// A node's first page says how many entries it has: it comes last where entries were added, but first
// where they were moved away and zeros follow.
void DiskFile::put_by_pages(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::vector<std::byte> before(bytes.size());
  if (!read_disk(offset, before)) return fail(std::strerror(errno));
  std::vector<std::uint64_t> pages = {offset};
  for (std::uint64_t at = offset - offset % kPage + kPage; at < offset + bytes.size(); at += kPage)
    pages.push_back(at);
  if (used(bytes) >= used(before)) std::ranges::reverse(pages);
  for (std::size_t i = 0; !failure_ && i < pages.size(); ++i) {
    const std::uint64_t end =
        std::min<std::uint64_t>(pages[i] - pages[i] % kPage + kPage, offset + bytes.size());
    put(pages[i], bytes.subspan(pages[i] - offset, end - pages[i]));
  }
}

std::vector<std::uint64_t> DiskFile::flush_order() const {
  std::vector<std::uint64_t> order;
  for (auto piece = held_.rbegin(); piece != held_.rend(); ++piece) order.push_back(piece->first);
  const auto referring =
      std::stable_partition(order.begin(), order.end(),
                            [this](std::uint64_t offset) { return !flushed_.contains(offset); });
  std::stable_sort(referring, order.end(), [this](std::uint64_t left, std::uint64_t right) {
    return held_.at(left).rank > held_.at(right).rank;
  });
  return order;
}

void DiskFile::flush() {
  check();
  for (const std::uint64_t offset : flush_order()) {
    put_by_pages(offset, held_.at(offset).bytes);
    if (failure_) return;
    flushed_.insert(offset);
    held_.erase(offset);
  }
}

void DiskFile::resize(std::uint64_t size) {
  if (size == size_) return;
  if (const int code = failure_ ? 0 : asked_to_fail({*this, size, {}})) fail(std::strerror(code));
  if (!failure_) check_length();
  if (!failure_ && ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    fail(std::strerror(errno));
  size_ = size;
}

bool DiskFile::is_at(const fs::path& path) const {
  struct stat own, named;
  return ::fstat(descriptor_, &own) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

void DiskFile::check() {
  if (failure_) return;
  if (!is_at(path_)) fail("another program removed or replaced it meanwhile");
  if (!failure_) check_length();
}

void DiskFile::sync() {
  check();
  if (!failure_ && ::fsync(descriptor_) != 0) fail(std::strerror(errno));
}

}  // namespace kvloupe::trace
