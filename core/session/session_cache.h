// The cache behind a TraceSession (private to core/session: needs Torch).
#pragma once

#include "core/session/session.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::session {

// q, k or v of one layer, whole.
struct LayerArray {
  at::Tensor values;  // [heads, num_tokens, head_dim], fp32
  // Per head the positions whose row holds a NaN or Inf, ascending.
  std::vector<std::vector<std::int32_t>> not_finite;
};

// Layers that nobody uses may go. What is in use is charged until its last user lets go of it.
struct TraceSession::Cache final : MemoryCache {
  Cache(const trace::TraceReader& trace_reader, MemoryAccountPtr account);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  std::shared_ptr<const LayerArray> get(int layer, trace::Stored what);
  // Rows [begin, end) alone, which are not kept.
  LayerArray read(int layer, trace::Stored what, std::int32_t begin, std::int32_t end) const;
  // Rows [0, end) of one head: [end, head_dim]. Of the layer where that is held, else read alone and not
  // kept, so that who needs little does not wait for a layer.
  at::Tensor head(int layer, trace::Stored what, int head, std::int32_t end);
  // The basis of a layer fitted on this very trace; `fit` makes it when missing.
  trace::LayerBasis basis(trace::BasisKind kind, int layer,
                          const std::function<trace::LayerBasis()>& fit);
  std::optional<std::uint64_t> oldest_use() const override;
  std::shared_ptr<const void> give_up_oldest() override;

  const trace::TraceReader& reader;
  const MemoryAccountPtr memory;

 private:
  using Key = std::pair<int, trace::Stored>;
  struct Entry {
    std::shared_ptr<const LayerArray> array;
    std::uint64_t used = 0;  // MemoryAccount::now
  };
  using Entries = std::map<Key, Entry>;
  std::shared_ptr<const LayerArray> find(const Key& key);
  Entries::const_iterator oldest() const;

  mutable std::mutex mutex_;  // guards the entries and the bases
  std::mutex load_mutex_;     // one load at a time: reads are serial anyway
  Entries entries_;
  // Small beside the arrays and slow to make: they stay.
  struct Basis {
    trace::LayerBasis basis;
    MemoryCharge charge;
  };
  std::map<std::pair<trace::BasisKind, int>, Basis> bases_;
};

int num_heads(const trace::ModelInfo& model, trace::Stored what);

}  // namespace kvloupe::session
