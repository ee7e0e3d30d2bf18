// The heavy hitters of H2O: keys by the attention that they have received so far.
#pragma once

#include "core/selection/selector.h"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace kvloupe::selection {

// acc[g,j] += sum over the chunk's rows t of the mean over the group's heads of p[h,t,j], where p is
// the causal softmax over the keys at hand. The sums of a head's block of rows are fp32; across heads,
// blocks and chunks they are added in fp64: at 1e5 queries an fp32 sum would no longer see what one
// query adds.
class HeavyHitters {
 public:
  // Recents are the newest floor(B * recent_ratio) keys; by_age divides acc by the number of
  // queries that have seen the key.
  HeavyHitters(double recent_ratio, bool by_age) : recent_ratio_(recent_ratio), by_age_(by_age) {}

  // Adds one chunk, for every chunk of a layer in order. Per KV head `pools` has the positions alive
  // before the chunk and then the chunk's own. What is in no pool any more is forgotten.
  void observe(const Cell& cell, const std::vector<std::vector<std::int32_t>>& pools);
  // The same for scores of the method's own: per KV head the sum over the chunk's rows and the group's
  // heads of p, for each key of the pool.
  void add(const Cell& cell, const std::vector<std::vector<std::int32_t>>& pools,
           std::vector<std::vector<double>> masses);

  // acc, by age where asked for, of each key of the pool that was observed last.
  std::vector<float> scores(const Cell& cell, std::int64_t kv_head) const;
  // The recents and the best of the rest: `budget` keys of `pool`, the end of the one that was
  // observed last. `scores`, where not null, is given what speaks for each of them.
  SelectedRow survivors(const Cell& cell, std::int64_t kv_head, std::span<const std::int32_t> pool,
                        std::int64_t budget, std::vector<float>* scores = nullptr) const;

 private:
  struct Tally {
    std::vector<std::int32_t> positions;  // ascending
    std::vector<double> mass;             // acc, parallel to it
  };

  double recent_ratio_;
  bool by_age_;
  std::map<int, std::vector<Tally>> layers_;  // per KV head
};

}  // namespace kvloupe::selection
