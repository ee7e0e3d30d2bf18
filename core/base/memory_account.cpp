#include "core/base/memory_account.h"

#include "core/base/error.h"
#include "core/base/large_blocks.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe {

std::uint64_t MemoryAccount::held() const {
  std::uint64_t sum = 0;
  for (const auto& bytes : held_) sum += bytes;
  return sum;
}

std::uint64_t MemoryAccount::room() const {
  const std::uint64_t stays = held(MemoryPart::Load) + held(MemoryPart::Textures);
  return limit_ - std::min(limit_, stays);
}

void MemoryAccount::add(MemoryCache& cache) {
  const std::lock_guard lock(mutex_);
  caches_.push_back(&cache);
}

void MemoryAccount::remove(MemoryCache& cache) {
  const std::lock_guard lock(mutex_);
  std::erase(caches_, &cache);
}

// Entries that are dropped are destroyed here, where no lock is held: one may be the last owner of a
// trace and its cache.
void MemoryAccount::make_room() {
  // About so much: other threads charge and give up meanwhile.
  std::uint64_t freed = 0;
  for (std::uint64_t before = held(); before > limit_ && take_oldest() != nullptr;) {
    const std::uint64_t after = held();
    freed += before - std::min(before, after);
    before = after;
  }
  if (freed > 0) give_back_freed(freed);
}

std::shared_ptr<const void> MemoryAccount::take_oldest() {
  const std::lock_guard lock(mutex_);
  MemoryCache* oldest = nullptr;
  std::uint64_t oldest_use = 0;
  for (MemoryCache* cache : caches_) {
    const auto use = cache->oldest_use();
    if (!use || (oldest != nullptr && *use >= oldest_use)) continue;
    oldest = cache;
    oldest_use = *use;
  }
  return oldest != nullptr ? oldest->give_up_oldest() : nullptr;
}

MemoryCharge::MemoryCharge(MemoryAccountPtr account, MemoryPart part, std::uint64_t bytes)
    : account_(std::move(account)), part_(part) {
  resize(bytes);
}

MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept
    : account_(std::move(other.account_)),
      part_(other.part_),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  std::swap(account_, other.account_);
  std::swap(part_, other.part_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void MemoryCharge::resize(std::uint64_t bytes) {
  if (account_ == nullptr) return;
  const std::uint64_t before = std::exchange(bytes_, bytes);
  account_->held_[MemoryAccount::index_of(part_)] += bytes - before;  // modulo 2^64
  if (bytes > before) account_->make_room();
}

void refuse_load(const MemoryAccount& account, const std::string& what, std::uint64_t bytes) {
  throw input_error(
      fmt::format("{} cannot be opened", what),
      fmt::format("its load takes {} of memory where {} of the limit of {} are left",
                  format_bytes(bytes), format_bytes(account.room()), format_bytes(account.limit())),
      "raise --memory-limit, or close other traces");
}

MemoryCharge charge_load(const MemoryAccountPtr& account, const std::string& what,
                         std::uint64_t bytes) {
  if (bytes > account->room()) refuse_load(*account, what, bytes);
  return {account, MemoryPart::Load, bytes};
}

}  // namespace kvloupe
