// ||O - O^|| / ||O|| of a cell by its definition, in plain loops.
#pragma once

#include "core/replay/replay.h"
#include "tests/replay/small_trace.h"

#include <cmath>
#include <functional>
#include <vector>

namespace kvloupe::replay::testing {

// O^ is what a query attends to where it sees what `sees(query, key)` says.
inline double plain_output_error(const SmallTrace& trace, const ReplayCell& cell, int head,
                                 const std::function<bool(int query, int key)>& sees) {
  const int dim = trace.shape().head_dim;
  double difference = 0, size = 0;
  for (int query = cell.span.begin; query < cell.span.end(); ++query) {
    std::vector<double> full(dim, 0.0), kept(dim, 0.0);
    double share = trace.sink_weight(head) > 0 ? 1 : 0;  // a head's sink takes the rest of 1
    for (int key = 0; key <= query; ++key) {
      const double p = trace.probability(cell.layer, head, query, key);
      if (trace.sink_weight(head) > 0) share -= p;
      const float* value = trace.value(cell.layer, head / trace.gqa_group_size(), key);
      share += sees(query, key) ? p : 0;
      for (int i = 0; i < dim; ++i) {
        full[i] += p * static_cast<double>(value[i]);
        if (sees(query, key)) kept[i] += p * static_cast<double>(value[i]);
      }
    }
    for (int i = 0; i < dim; ++i) {
      difference += std::pow(full[i] - kept[i] / share, 2);
      size += full[i] * full[i];
    }
  }
  return std::sqrt(difference / size);
}

}  // namespace kvloupe::replay::testing
