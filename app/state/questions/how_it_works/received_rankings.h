// The view received_rankings: the past keys ranked by the attention that a window of queries gives
// them, and which of them the method selected.
#pragma once

#include "app/state/key_fate.h"
#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/received_rankings.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

// The query heads of the place's KV head rank together.
struct ReceivedRankingsQuestion : OfPlace<At::Layer | At::KvHead | At::Chunk | At::Window> {
  static constexpr const char* kName = "received rankings";
  struct Answer {
    analysis::ReceivedRankings rankings;
    std::int64_t num_global = 0, num_query_specific = 0, num_broken = 0;
    double most_mean = 0;             // the largest of `mean`, NaN apart
    std::vector<std::int32_t> drawn;  // keys of the scatter, the most telling ones last
    std::int64_t drawn_one_in = 1;    // of the keys that are neither global nor query-specific
  };

  std::string title() const { return "Ranking keys by the attention that they receive"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Which of the ranked keys the method selected.
struct RankedSelectionQuestion : OfMethod<At::Cell | At::Window> {
  static constexpr const char* kName = "ranked selection";
  struct Answer {
    std::vector<std::uint8_t> selected;  // [keys ranked]; empty: the run has nothing for the chunk
    // Of the same keys. Lost: global or query-specific, and not selected.
    std::vector<KeyFate> fates;
    analysis::KindCount global, query_specific;
    MethodFacts facts;
  };

  std::string title() const { return RunQuestion{place, method}.title(); }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

}  // namespace kvloupe::state
