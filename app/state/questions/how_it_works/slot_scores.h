// The view slot_scores: how each query slot of QuoKA scores the keys of a KV head, and which slot each kept
// key owes its place to.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/slot_scores.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

struct SlotScoresQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "slot scores";
  std::string stand_in;  // why this is not the method chosen; empty: it is

  struct Answer {
    analysis::SlotScores slots;
    std::vector<std::int32_t> won;  // [slots] kept keys that the slot scores highest
    std::int64_t num_kept = 0;
    // Of the slots' scores, of those that rank; least < most. Position 0, the sink, is apart where it is not
    // the only key.
    struct Range {
      float least = 0, most = 0;
    };
    Range scores, ranked;
    bool sink_beyond = false;  // position 0 scores more in some slot than `scores` reaches
    MethodFacts facts;

    // The query of the slot in the place's query head.
    std::int32_t query(const Place& at, std::int64_t slot) const;
  };

  std::string title() const { return "Scoring keys slot by slot"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// For the current selection: the method shown, or one that has slots in its place.
SlotScoresQuestion slot_scores_question(const Workspace& workspace);

}  // namespace kvloupe::state
