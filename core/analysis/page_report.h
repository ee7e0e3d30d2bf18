// What a page method (Quest) sees of one head's keys, and what it takes: the bound of each page
// beside the best logit that a key of it truly has, and how the pages taken change from step to
// step. Logits are scaled, as softmax gets them: q . k * softmax_scale.
#pragma once

#include "core/replay/replay.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace kvloupe::analysis {

// As many pages as were taken, those of the best logits, would a perfect bound have taken.
enum class PageVerdict : std::uint8_t {
  Hit,     // taken, and among them
  Miss,    // among them, not taken
  Waste,   // taken, not among them
  Forced,  // taken by rule: the last page
  Neither,
};
const char* name_of(PageVerdict verdict);  // "hit", "miss", "waste", "forced", "neither"

// What happened to a page at a step, against the steps before it.
enum class PageMove : std::uint8_t {
  Out,         // not taken, and never before
  Dropped,     // not taken, but at an earlier step
  New,         // taken for the first time
  Kept,        // taken, as at the step before
  Reselected,  // taken, after the step before had dropped it
};
const char* name_of(PageMove move);  // "out", "dropped", "new", "kept", "reselected"

struct PageScore {
  std::int32_t begin = 0, end = 0;  // tokens that the step sees of it
  float bound = 0;                  // the largest over the chunk's rows
  float best = 0;                   // the largest true logit of its keys over the rows
  PageVerdict verdict = PageVerdict::Neither;
  std::optional<PageMove> move;  // none where a chunk before is missing

  bool taken() const {
    return verdict == PageVerdict::Hit || verdict == PageVerdict::Waste ||
           verdict == PageVerdict::Forced;
  }
  float looseness() const { return bound - best; }
};

// One chunk of the phase shown in which the method selected.
struct PageStep {
  int chunk = 0;
  trace::ChunkInfo span;
  std::vector<PageMove> moves;  // of every page that holds past keys
  int taken = 0, fresh = 0, reselected = 0;
  // |this and the step before| / |this or the step before|; unset for the first step.
  std::optional<double> jaccard;
};

struct PageReport {
  std::string method;  // canonical SPEC
  int layer = 0, chunk = 0, q_head = 0, row = 0;
  trace::ChunkInfo span;
  int page_size = 0;
  std::optional<trace::DenseReason>
      dense_reason;              // then nothing is chosen here, and no page has a verdict
  std::vector<PageScore> pages;  // those that hold past keys
  // The chunks of the same phase as this one: a step follows the steps of its phase.
  std::vector<PageStep> steps;
  int hits = 0, misses = 0, wastes = 0, forced = 0;

  double mean_looseness() const;
  // Of the pages that are not forced: share of the best that were taken; 1 if there are none.
  double page_recall() const;
};

// `replay` holds the layer's cells of `spec`, a resolved page method. Throws Error{Input} for a
// chunk or head that the trace does not have.
PageReport page_report(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const replay::ReplayResult& replay, int layer, int chunk, int q_head,
                       const WorkContext& context);

inline const char* name_of(PageVerdict verdict) {
  switch (verdict) {
    case PageVerdict::Hit: return "hit";
    case PageVerdict::Miss: return "miss";
    case PageVerdict::Waste: return "waste";
    case PageVerdict::Forced: return "forced";
    case PageVerdict::Neither: return "neither";
  }
  return "";
}

inline const char* name_of(PageMove move) {
  switch (move) {
    case PageMove::Out: return "out";
    case PageMove::Dropped: return "dropped";
    case PageMove::New: return "new";
    case PageMove::Kept: return "kept";
    case PageMove::Reselected: return "reselected";
  }
  return "";
}

inline double PageReport::mean_looseness() const {
  double sum = 0;
  for (const PageScore& page : pages) sum += static_cast<double>(page.looseness());
  return pages.empty() ? 0 : sum / static_cast<double>(pages.size());
}

inline double PageReport::page_recall() const {
  return hits + misses > 0 ? static_cast<double>(hits) / (hits + misses) : 1;
}

}  // namespace kvloupe::analysis
