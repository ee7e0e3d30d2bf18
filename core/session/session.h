// An open trace with a bounded cache of what was read. Shared by all jobs; every member may be
// called from any thread. Torch-free here; session_tensors.h gives the tensors to the analyses.
#pragma once

#include "core/selection/method_spec.h"
#include "core/trace/trace_reader.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::session {

class TraceSession {
 public:
  static constexpr std::uint64_t kDefaultMemoryLimit = 2ULL << 30;
  explicit TraceSession(const std::filesystem::path& path,
                        std::uint64_t memory_limit_bytes = kDefaultMemoryLimit);
  ~TraceSession();

  const trace::TraceInfo& info() const;
  const trace::TraceReader& reader() const;
  const std::vector<std::int32_t>& token_ids() const;
  const std::vector<std::string>& token_texts() const;  // raw bytes
  selection::ModelShape shape() const;
  std::uint64_t cached_bytes() const;

  struct Cache;
  Cache& cache() const;  // for session_tensors.h

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

using SessionPtr = std::shared_ptr<const TraceSession>;

}  // namespace kvloupe::session
