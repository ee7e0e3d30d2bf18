// The cache behind a TraceSession (private to core/session: needs Torch).
#pragma once

#include "core/session/session.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kvloupe::session {

// q, k or v of one layer, whole.
struct LayerArray {
  at::Tensor values;  // [heads, num_tokens, head_dim], fp32
  // Per head the positions whose row holds a NaN or Inf, ascending.
  std::vector<std::vector<std::int32_t>> not_finite;
};

// Least recently used layers leave when the limit is passed; the newest always stays. An array in
// use lives on with its user.
struct TraceSession::Cache {
  Cache(const trace::TraceReader& trace_reader, std::uint64_t limit_bytes)
      : reader(trace_reader), limit(limit_bytes) {}

  std::shared_ptr<const LayerArray> get(int layer, trace::Stored what);
  // The basis of a layer fitted on this very trace; `fit` makes it when missing.
  trace::LayerBasis basis(trace::BasisKind kind, int layer,
                          const std::function<trace::LayerBasis()>& fit);
  std::uint64_t bytes() const;

  const trace::TraceReader& reader;
  const std::uint64_t limit;

 private:
  using Key = std::pair<int, trace::Stored>;
  using Entry = std::pair<Key, std::shared_ptr<const LayerArray>>;
  std::shared_ptr<const LayerArray> find(const Key& key);
  void insert(const Key& key, std::shared_ptr<const LayerArray> array);

  mutable std::mutex mutex_;  // guards the list and the bases
  std::mutex load_mutex_;     // one load at a time: reads are serial anyway
  std::list<Entry> entries_;  // most recently used first
  std::uint64_t bytes_ = 0;
  // Small beside the arrays and slow to make: they stay.
  std::map<std::pair<trace::BasisKind, int>, trace::LayerBasis> bases_;
};

int num_heads(const trace::ModelInfo& model, trace::Stored what);
bool row_is_finite(const float* row, std::int64_t head_dim);

}  // namespace kvloupe::session
