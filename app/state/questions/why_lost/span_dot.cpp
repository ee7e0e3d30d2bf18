#include "app/state/questions/why_lost/span_dot.h"

#include "app/state/workspace.h"

#include <fmt/format.h>

namespace kvloupe::state {

SpanDotQuestion::Answer SpanDotQuestion::work(Steps& steps) const {
  const auto loss = steps.need(counts);
  Answer answer;
  answer.heads = static_cast<int>(loss->heads.size());
  for (const replay::SpanHead& head : loss->heads) answer.lost += head.keeps_all() ? 0 : 1;
  return answer;
}

SpanDotQuestion span_dot_question(const Workspace& workspace, const MethodChoice& method) {
  SpanDotQuestion dot{{workspace.place(), method, {}, {}}};
  SpanCountQuestion& counts = dot.counts;
  if (counts.place.empty()) return dot;
  counts.chunks = number_chunks(workspace, NumberScope::Kind::Chunk);
  counts.span = watched_keys(counts.place);
  return dot;
}

std::string words_of(const SpanDotQuestion::Answer& answer) {
  return fmt::format("some of it lost in {} of {} heads", answer.lost, answer.heads);
}

}  // namespace kvloupe::state
