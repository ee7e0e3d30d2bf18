#include "core/trace/hdf5/load_budget.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

namespace kvloupe::trace {
namespace {

thread_local LoadBudget* innermost = nullptr;

std::uint64_t thread_milliseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1000 +
         static_cast<std::uint64_t>(time.tv_nsec) / 1'000'000;
}

}  // namespace

LoadBudget::LoadBudget(std::uint64_t file_bytes, Scope scope)
    : scope_(scope),
      bytes_left_(kFreeBytes + kBytesPerStoredByte * file_bytes),
      milliseconds_left_(kFreeMilliseconds + file_bytes / kStoredBytesPerMillisecond),
      started_(thread_milliseconds()) {
  if (innermost && innermost->scope_ == Scope::Load) return;
  counts_ = true;
  outer_ = std::exchange(innermost, this);
}

LoadBudget::LoadBudget(std::string trace_path, const MemoryAccount& memory)
    : LoadBudget(bytes_on_disk(trace_path)) {
  trace_path_ = std::move(trace_path);
  memory_ = &memory;
}

LoadBudget::~LoadBudget() {
  if (!counts_) return;
  innermost = outer_;
  if (!outer_) return;
  const std::uint64_t used = thread_milliseconds() - started_;
  outer_->milliseconds_left_ -= std::min(used, outer_->milliseconds_left_);
}

void LoadBudget::require(std::uint64_t bytes, const char* what) {
  for (const LoadBudget* budget = innermost; budget; budget = budget->outer_) {
    if (budget->memory_ != nullptr && bytes > budget->memory_->room())
      refuse_load(*budget->memory_, budget->trace_path_, bytes);
    if (bytes <= budget->bytes_left_) continue;
    throw h5::Defect(fmt::format("{} takes {} of memory where a file of this size may take {}",
                                 what, format_bytes(bytes), format_bytes(budget->bytes_left_)));
  }
}

void LoadBudget::spend(std::uint64_t bytes, const char* what) {
  require(bytes, what);
  const std::uint64_t used = innermost && innermost->scope_ == Scope::Load
                                 ? thread_milliseconds() - innermost->started_
                                 : 0;
  for (LoadBudget* budget = innermost; budget; budget = budget->outer_) {
    budget->bytes_left_ -= bytes;
    if (used > budget->milliseconds_left_) {
      throw h5::Defect(fmt::format("{} takes too long for a file of its size", what));
    }
  }
}

}  // namespace kvloupe::trace
