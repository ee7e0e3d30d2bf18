// What is said of the chunks that a mean is over: no mean mixes chunks of the prompt with decode steps.
#pragma once

#include "app/state/number_chunks.h"

#include <string>
#include <vector>

namespace kvloupe::state {

// As words_of() of the chunks, where these have both phases of those of one alone: "from the question on (chunks 14 to
// 15)", "all prefill chunks".
inline std::string words_of(const NumberChunks& chunks, const trace::TraceInfo& info,
                            trace::Phase phase) {
  const auto is_other = [&](int chunk) {
    return info.chunks[static_cast<std::size_t>(chunk)].phase != phase;
  };
  NumberChunks averaged = chunks;
  if (!averaged.range) averaged.range = {0, static_cast<int>(info.chunks.size()) - 1};
  std::vector<int> counted = averaged.list();
  const auto others = std::erase_if(counted, is_other);
  if (others == 0 || counted.empty()) return words_of(chunks, info);
  if (!chunks.range) {
    const std::string stored = info.query_offsets.empty() ? "" : "stored ";
    return "all " + stored + (phase == trace::Phase::Prefill ? "prefill chunks" : "decode steps");
  }
  averaged.range = {counted.front(), counted.back()};
  averaged.stored.clear();
  if (averaged.list() != counted) averaged.stored = counted;
  return words_of(averaged, info);
}

}  // namespace kvloupe::state
