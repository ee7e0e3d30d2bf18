// An open trace. Shared by all jobs; every member may be called from any thread. Free of Torch:
// session_tensors.h gives the tensors to the analyses.
#pragma once

#include "core/base/memory_account.h"
#include "core/selection/spec/basis_maker.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/hdf5/load_budget.h"
#include "core/trace/trace_reader.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::session {

// What the arrays of a loaded trace hold in memory.
struct LoadBytes {
  std::uint64_t tokens = 0;  // ids and texts
  std::uint64_t chunks = 0;  // their table and what is listed by chunk
  std::uint64_t runs = 0;    // what is said of runs; what they kept is read on demand
  std::uint64_t sum() const { return tokens + chunks + runs; }
};

// The prompt in chunks of `size` from position 0; decoded tokens stay chunks of one. Throws
// Error{Usage} for a size below 1, Error{Input} where chunks have no queries.
std::vector<trace::ChunkInfo> cut_anew(const trace::TraceInfo& info, int size);

class TraceSession {
 public:
  // Charges `memory` for what it loads and caches. With a `chunk_size` the prompt is cut anew
  // (cut_anew), and the recorded runs, which are of other chunks, are left out. Throws Error{Input},
  // also where the load alone finds no room. What is selected on it asks `bases` for what is missing.
  explicit TraceSession(const std::filesystem::path& path,
                        MemoryAccountPtr memory = std::make_shared<MemoryAccount>(),
                        std::optional<int> chunk_size = {}, selection::BasisMaker bases = {});

  const trace::TraceInfo& info() const { return cut_ ? *cut_ : reader_.info(); }
  std::optional<int> chunk_size() const { return chunk_size_; }  // of a prompt cut anew
  // As it stands in the file: its own chunks.
  const trace::TraceReader& reader() const { return reader_; }
  const std::vector<std::int32_t>& token_ids() const { return ids_; }
  const std::vector<std::string>& token_texts() const { return texts_; }  // raw bytes
  LoadBytes load_bytes() const;
  const MemoryAccountPtr& memory() const { return memory_; }
  const selection::BasisMaker& bases() const { return bases_; }
  selection::ModelShape shape() const { return selection::shape_of(info().model); }

  struct Cache;
  Cache& cache() const;  // for session_tensors.h

 private:
  // One budget for all of the load.
  TraceSession(const std::filesystem::path& path, MemoryAccountPtr memory,
               std::optional<int> chunk_size, selection::BasisMaker bases,
               const trace::LoadBudget& budget);

  MemoryAccountPtr memory_;
  trace::TraceReader reader_;
  std::optional<int> chunk_size_;
  selection::BasisMaker bases_;
  std::optional<trace::TraceInfo> cut_;  // where it is not the reader's
  std::vector<std::int32_t> ids_;
  std::vector<std::string> texts_;
  MemoryCharge load_;
  // Made when the first tensor is asked for: reading a trace needs no Torch.
  mutable std::once_flag cache_made_;
  mutable std::shared_ptr<Cache> cache_;
};

using SessionPtr = std::shared_ptr<const TraceSession>;

}  // namespace kvloupe::session
