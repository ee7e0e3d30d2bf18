// Where queries and keys of one head lie: in principal components of the queries and keys of a chunk,
// or of the whole head, with the mean query of each chunk.
#pragma once

#include "core/analysis/pca.h"
#include "core/base/cancel.h"
#include "core/session/session.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

struct PointsRequest {
  int layer = 0, q_head = 0;
  std::optional<int> chunk;    // its queries, and the keys up to its end; empty: all of the head
  int components = 2;          // 2 or 3
  bool apart = false;          // components of the queries alone, and of the keys alone
  bool before_rotary = false;  // as they were before the rotary embedding
  int max_queries = 4096;      // of the whole head; those of a chunk are all there
  int max_keys = 1500;
};

struct HeadPoints {
  // Fitted on the queries and keys below, the same for both unless they are apart.
  Pca query_pca, key_pca;
  std::vector<std::array<float, 3>> queries, keys;  // projected (third 0 for two components)
  // Evenly thinned to as many as were asked for, the first (the sink) always among them.
  std::vector<std::int32_t> query_positions, key_positions;
  std::vector<std::array<float, 3>> every_key;  // where each key stands, by its position
  std::vector<float> relevance;  // S_q of each query, in its own chunk and as methods see it
  // The mean of all queries of each chunk, among the queries; of one chunk or of all.
  std::vector<std::array<float, 3>> mean_queries;
  int first_chunk = 0;  // of mean_queries
};

// Throws Error{Input} for a place outside the trace, and where it does not tell what was before the
// rotary embedding.
HeadPoints head_points(const session::TraceSession& session, const PointsRequest& request,
                       const WorkContext& context);

// Of one head, from its exact attention, position 0 (the sink) excluded.
struct HeadAttention {
  std::vector<float> given;     // of each query of the trace: largest p over keys
  std::vector<float> received;  // of each key of the trace: largest p that a query gives
};
// Of the queries of a chunk or of all, by position; 0 for queries that were not asked and keys that
// nobody saw.
HeadAttention head_attention(const session::TraceSession& session, int layer, int q_head,
                             std::optional<int> chunk, const WorkContext& context);

}  // namespace kvloupe::analysis
