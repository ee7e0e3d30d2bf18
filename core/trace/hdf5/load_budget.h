// What reading a file may cost. A small file can claim, pack or cross-refer to any amount of data; a sound one is read in
// bytes and processor time in proportion to its own size. Free of HDF5.
#pragma once

#include "core/base/memory_account.h"
#include "core/trace/hdf5/defect.h"

#include <cstdint>
#include <string>

namespace kvloupe::trace {

// What a load of the trace may be measured by: its bytes and those of its sidecar, 0 where absent.
std::uint64_t bytes_on_disk(const std::string& trace_path);

// Bounds what its thread reads while it lives. Inside another one it does nothing, so that the
// outermost covers all of a load; only a budget of a whole work holds several loads.
class LoadBudget {
 public:
  enum class Scope { Load, Work };

  // Packed masks and texts unpack to a multiple of their bytes, a small file to this much besides.
  static constexpr std::uint64_t kFreeBytes = 256ull << 20;
  static constexpr std::uint64_t kBytesPerStoredByte = 16;
  // Processor time of the thread, not the clock's: a slow disk is no fault of the file.
  static constexpr std::uint64_t kFreeMilliseconds = 6000;
  static constexpr std::uint64_t kStoredBytesPerMillisecond = 16 << 10;

  // For files of so many bytes. A Work counts the time of the loads in it alone.
  explicit LoadBudget(std::uint64_t file_bytes, Scope scope = Scope::Load);
  // For a trace whose arrays will be charged to `memory`: an Error{Input} as by charge_load before
  // one is allocated that there is no room for.
  LoadBudget(std::string trace_path, const MemoryAccount& memory);
  ~LoadBudget();
  LoadBudget(const LoadBudget&) = delete;
  LoadBudget& operator=(const LoadBudget&) = delete;

  // A Defect that names `what` when so many bytes more are more than is left: asked before they are
  // allocated. These do nothing where no budget lives.
  static void require(std::uint64_t bytes, const char* what);
  // The same, and they are gone from what is left; also a Defect when the time is over.
  static void spend(std::uint64_t bytes, const char* what);

 private:
  Scope scope_;
  std::string trace_path_;
  const MemoryAccount* memory_ = nullptr;
  bool counts_ = false;
  LoadBudget* outer_ = nullptr;
  std::uint64_t bytes_left_, milliseconds_left_;
  std::uint64_t started_;  // on the thread's clock
};

}  // namespace kvloupe::trace
