// An open trace. Shared by all jobs; every member may be called from any thread. Free of Torch:
// session_tensors.h gives the tensors to the analyses.
#pragma once

#include "core/selection/method_spec.h"
#include "core/trace/trace_reader.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kvloupe::session {

class TraceSession {
 public:
  static constexpr std::uint64_t kDefaultMemoryLimit = 2ULL << 30;
  explicit TraceSession(const std::filesystem::path& path,
                        std::uint64_t memory_limit_bytes = kDefaultMemoryLimit);

  const trace::TraceInfo& info() const { return reader_.info(); }
  const trace::TraceReader& reader() const { return reader_; }
  const std::vector<std::int32_t>& token_ids() const { return ids_; }
  const std::vector<std::string>& token_texts() const { return texts_; }  // raw bytes
  selection::ModelShape shape() const { return selection::shape_of(info().model); }

  struct Cache;
  Cache& cache() const;  // for session_tensors.h

 private:
  trace::TraceReader reader_;
  std::vector<std::int32_t> ids_;
  std::vector<std::string> texts_;
  std::uint64_t memory_limit_;
  // Made when the first tensor is asked for: reading a trace needs no Torch.
  mutable std::once_flag cache_made_;
  mutable std::shared_ptr<Cache> cache_;
};

using SessionPtr = std::shared_ptr<const TraceSession>;

}  // namespace kvloupe::session
