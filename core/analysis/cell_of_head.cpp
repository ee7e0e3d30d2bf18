#include "core/analysis/cell_of_head.h"

#include "core/base/error.h"

#include <fmt/format.h>

namespace kvloupe::analysis {

const replay::ReplayCell& cell_of_head(const replay::ReplayResult& replay,
                                       const trace::TraceInfo& info, int layer, int chunk,
                                       int q_head) {
  const replay::ReplayCell* cell = replay.find(layer, chunk);
  if (cell == nullptr && chunk >= 0 && chunk < static_cast<int>(info.chunks.size()) &&
      !info.has_queries(chunk))
    throw trace::lacks_queries(info, chunk);
  if (cell == nullptr || q_head < 0 || q_head >= info.model.num_q_heads)
    throw input_error(
        fmt::format("layer {}, chunk {}, query head {} cannot be shown", layer, chunk, q_head),
        fmt::format("the run has nothing there, or the model's {} query heads end before it",
                    info.model.num_q_heads),
        "choose a layer, a chunk and a head inside the trace");
  return *cell;
}

}  // namespace kvloupe::analysis
