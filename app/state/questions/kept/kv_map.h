// The view kv_map: which keys a row kept, chunk by chunk, and what share of the true attention they
// carry.
#pragma once

#include "app/state/kept_of_span.h"
#include "app/state/number_chunks.h"
#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/kv_map.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct KvMapQuestion : OfRun<At::Head> {
  static constexpr const char* kName = "kv map";
  struct Answer {
    analysis::KvMap map;
    analysis::KvMapGrid grid;  // of very large maps only, else empty
    std::array<bool, analysis::kNumKeyStates> present{};
    MethodFacts facts;
  };

  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.map.states, answer.map.evict_chunk, answer.grid.counts);
  }
};

// Nothing where none lies before it.
std::optional<KeptOfSpan> kept_of_span(const KvMapQuestion::Answer& answer, const Place& place);

// Mass recall of the row by chunk; 1 where everything was kept.
struct RecallQuestion : OfMethod<At::Head> {
  static constexpr const char* kName = "recall";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = std::vector<double>;

  std::string title() const { return MeasuredRunQuestion{place, method}.title(); }
  Answer work(Steps& steps) const;
};

// The mean over those of the chunks in which the row chose among keys; empty where it did in none, or
// where recall says nothing of the method.
std::optional<double> mean_recall(const RecallQuestion::Answer& recall, const MethodFacts& facts,
                                  const NumberChunks& chunks, const trace::TraceInfo& info);

// "Chunk 8: 19 of needle's 22 keys are kept, mass recall 0.912. From the question on (chunk 15): mass recall
// 0.693.": of the chunk shown, and where other ones were chosen for numbers of those, too. `recall` may be
// null; empty where nothing is to be said.
std::string finding_of(const KvMapQuestion::Answer& answer, const RecallQuestion::Answer* recall,
                       const NumberChunks& chunks, const Place& place);

}  // namespace kvloupe::state
