// The view head_merge: what each query head of a row would have kept alone, what the row keeps for all
// of them, and what the merge lost.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/replay/key_life.h"

#include <string>

namespace kvloupe::state {

struct HeadMergeQuestion : OfMethodAnew<At::Layer | At::Chunk> {
  static constexpr const char* kName = "head merge";
  static constexpr Pace kPace = Pace::Patient;
  struct Answer {
    replay::HeadChoices choices;
    std::string nothing;  // why nothing is merged here; empty: it is
    selection::RowLayout layout;
    int row = 0;
    double most_share = 0;  // the largest that a key lost or gained has of its head's mass
  };

  // The row of the method that speaks for the place's head.
  int row() const;
  std::string key() const {
    return OfMethodAnew::key(row());
  }  // the heads of a row share an answer
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Why the method merges no heads in any layer; empty: it does in some.
std::string why_no_merge(const MethodChoice& method, const OpenTrace& trace);

class Workspace;
HeadMergeQuestion head_merge_question(const Workspace& workspace);
// What the merge costs, and whom most.
std::string sentence_of(const HeadMergeQuestion& question, const HeadMergeQuestion::Answer& answer);

}  // namespace kvloupe::state
