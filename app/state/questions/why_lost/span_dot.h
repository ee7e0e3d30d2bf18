// In how many heads the watched span is lost, said in a word beside the workspace that explains it.
#pragma once

#include "app/state/questions/why_lost/span_loss.h"

namespace kvloupe::state {

// The counts of SpanCountQuestion, asked for when nothing else is.
struct SpanDotQuestion {
  static constexpr const char* kName = "span dot";
  static constexpr Pace kPace = Pace::Patient;
  SpanCountQuestion counts;
  struct Answer {
    int lost = 0, heads = 0;  // heads that lose some of it, of those that have it
  };

  const Place& asked_at() const { return counts.place; }
  std::string key() const { return counts.key(); }
  Lane lane() const { return counts.lane(); }
  std::string title() const { return counts.title(); }
  std::string obstacle() const { return counts.obstacle(); }
  Answer work(Steps& steps) const;
};
SpanDotQuestion span_dot_question(const Workspace& workspace, const MethodChoice& method);

// "lost in 61 of 90 heads"
std::string words_of(const SpanDotQuestion::Answer& answer);

}  // namespace kvloupe::state
