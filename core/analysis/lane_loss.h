// Retention losses of vectors in a basis, against the number of lanes kept. Private to
// core/analysis: needs Torch.
#pragma once

#include "core/base/cancel.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

// Mean over the rows of `lanes` [n, d] of | ||v|| - ||v[I]|| | / ||v||, for each number of lanes in
// `kept`: I the row's own largest lanes, or the first ones. A zero row loses nothing.
std::vector<double> own_lane_loss(const at::Tensor& lanes, const std::vector<int>& kept,
                                  bool leading);

// The same of keys [P + m, d] under the largest lanes of the queries [m, d] that see them: mean over
// the pairs (query t, key j), P + t - window < j <= P + t; window 0: all j <= P + t.
std::vector<double> query_lane_loss(const at::Tensor& queries, const at::Tensor& keys,
                                    const std::vector<int>& kept, const CancelToken& cancel,
                                    std::int64_t window = 0);

// Vectors (rows of `lanes` [n, d]) by how many of their `largest` lanes of largest magnitude are among
// the first `leading`: [largest + 1]. Ties go to the lowest lane.
std::vector<std::int64_t> leading_counts(const at::Tensor& lanes, int largest, int leading);

}  // namespace kvloupe::analysis
