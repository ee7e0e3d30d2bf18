// The view aqua_lanes: which lanes the queries of a chunk use, and what norm and scores lose with the
// others.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/lane_report.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

struct AquaLanesQuestion : OfMethod<At::Layer | At::KvHead | At::Chunk> {
  static constexpr const char* kName = "aqua lanes";
  static constexpr Pace kPace = Pace::Patient;
  // The method is one of lanes; they are chosen anew, whatever was recorded.
  std::string stand_in;  // why this is not the method chosen; empty: it is
  TracePtr beside = {};  // another trace of the model, or none

  struct Answer {
    struct Line {
      analysis::LaneChoice choice = analysis::LaneChoice::Magnitude;
      std::vector<double> loss;  // for each of report.kept; the mean over the group's heads
    };
    // Of one basis. Without such a basis: no lines.
    struct Losses {
      std::vector<Line> of_keys, of_queries;
    };
    // What a key loses of its norm at the method's own number of lanes, in the method's basis.
    struct KeyLoss {
      double own_lanes = 0, leading_lanes = 0, query_lanes = 0;
    };
    analysis::LaneReport report;
    std::vector<Losses> losses;  // of each of report.bases
    // Of the other trace: the same head's vectors up to its last prompt chunk, in each basis but one
    // fitted on a trace.
    std::vector<Losses> losses_beside;
    std::string name_beside;  // of the trace; empty: none is drawn
    // The ends of axes; those of losses are common to the bases, so that they compare by eye.
    double most_lost_of_keys = 0, most_lost_of_queries = 0, most_score_error = 0;
    std::optional<KeyLoss> key_loss;
    analysis::BreakEven break_even;
    analysis::LaneMemory memory;
    std::string note;   // what the numbers leave out; empty: nothing
    MethodFacts facts;  // of the lanes shown: in another basis where the method's cannot be had
  };

  std::string key() const { return OfMethod::key(beside ? beside->key() : std::string()); }
  std::string title() const { return "Rotating queries and keys"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// For the current selection: the method shown, or one that prunes lanes in its place.
AquaLanesQuestion aqua_lanes_question(const Workspace& workspace);

}  // namespace kvloupe::state
