// Paged attention of one chunk against dense attention and the other ways to execute a block mask, on
// random inputs of shape S (24 query heads, 8 KV heads, head_dim 128, of the device's timed_type(),
// blocks of 128): one layer, the chunk open, as CompactAttention runs it (its Figure 1b, Table 9 and
// section 4.4).
#pragma once

#include "core/base/cancel.h"
#include "core/measure/latency.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::measure {

// One sparsity: the share of past blocks that are dropped. Which ones is drawn at random, so few
// kept blocks are neighbours; each row keeps equally many.
struct PagedSide {
  double sparsity = 0;
  std::int64_t kept_past = 0;  // tokens a row (a KV head) keeps
  LatencyStats paged;          // block tables, in place
  LatencyStats gathered;       // the same KVs copied together, then attention
  // A mask of its own for each query head and query block, as many past blocks in each.
  LatencyStats block_sparse;
  double bytes = 0;  // of K and V that the rows attend to, each row's read once
  double flops = 0;  // of the two products, the causal triangle of the chunk counted once
};

struct PagedBench {
  std::int64_t past_len = 0, chunk_len = 0;
  LatencyStats dense;  // the fastest of the dense variants
  std::string dense_variant;
  std::vector<DenseLeftOut> dense_left_out;
  std::vector<PagedSide> sides;  // in the order asked for
  int discarded = 0;

  double speed_up(std::size_t side) const { return dense.median_ms / sides[side].paged.median_ms; }
};

// Memory that bench_paged needs, less that of a dense form which it does without where there is no more.
double paged_bench_bytes(std::int64_t past_len, std::int64_t chunk_len, const std::string& device);

// All sides take turns with the dense variants; three rounds where a part takes more than 5 s, else
// `repetitions`, after a first one that is not counted.
PagedBench bench_paged(std::int64_t past_len, std::int64_t chunk_len,
                       const std::vector<double>& sparsities, int repetitions,
                       const std::string& device, const WorkContext& context);

}  // namespace kvloupe::measure
