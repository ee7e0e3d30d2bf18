#include "app/state/questions/results/lost_answer.h"

#include "app/state/open_results.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "app/state/sample_recording.h"
#include "app/state/shell_words.h"
#include "app/state/workspace.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kAnswer = "answer";  // the span that eval records
constexpr const char* kWhyLost = "lost";   // the workspace

}  // namespace

std::string trace_of(const ReadResults& results, const trace::ResultSample& sample) {
  if (sample.trace.empty()) return "";
  const std::filesystem::path relative = std::filesystem::path(sample.trace).lexically_normal();
  if (relative.is_absolute() || *relative.begin() == "..") return "";
  return (std::filesystem::path(results.file.path).parent_path() / relative).string();
}

std::string record_command(const ReadResults& results, const trace::ResultSample& sample,
                           const RecordedFrom& from) {
  std::string line = "python -m kvloupe";
  for (const std::string& word : record_arguments(results.file.path, sample.id, from))
    line += " " + shell_word(word);
  return line;
}

std::string method_that_answered(const ReadResults& results, const trace::ResultSample& sample) {
  const double sign = sample.higher_is_better ? 1 : -1;
  // More is better; NaN, a score that is not known, compares with nothing.
  const auto worth = [&](const trace::ResultSample& other) {
    const bool known = other.budget >= 0;
    return std::tuple(sign * other.score, known && other.budget == sample.budget, known,
                      -other.budget);
  };
  const trace::ResultSample* best = nullptr;
  for (const trace::ResultSample& other : results.file.samples)
    if (other.task == sample.task && other.sample == sample.sample && other.method != kDense &&
        sign * other.score > sign * sample.score &&
        (best == nullptr || worth(other) > worth(*best)))
      best = &other;
  return best != nullptr ? best->method : "";
}

void open_lost_answer(Workspace& workspace, const ReadResults& results,
                      const trace::ResultSample& sample) {
  const std::string trace = trace_of(results, sample);
  ViewState what;
  what.trace = trace;
  what.methods = {sample.method};
  if (const std::string other = method_that_answered(results, sample); !other.empty())
    what.methods.push_back(other);
  what.place.span = kAnswer;
  what.perspective = kWhyLost;
  workspace.traces.open(trace, what, Unknown::PassOver);
  std::error_code ignored;
  workspace.results.sight.following = std::filesystem::absolute(trace, ignored).string();
}

void follow_lost_answer(Workspace& workspace) {
  std::string& following = workspace.results.sight.following;
  if (following.empty()) return;
  const TraceTab* active = workspace.traces.active();
  if (active == nullptr || active->path != following) return following.clear();
  if (!workspace.has_trace()) return;
  const SpanLossNow now =
      span_loss_now(workspace, span_loss_question(workspace, workspace.method(Slot::A)), false);
  const bool hopeless = !now.error.empty() || !now.question.span;
  if (!hopeless && (!now.doing.empty() || now.loss == nullptr || !now.loss->has_causes)) return;
  following.clear();
  if (hopeless || now.loss->heads.empty()) return;
  const auto& heads = now.loss->heads;
  const auto most = std::max_element(heads.begin(), heads.end(), [](const auto& a, const auto& b) {
    return a.lost_mass < b.lost_mass;
  });
  if (most->lost() == 0) return;
  workspace.cursor.change("", [&](Selection& selection) {
    selection.place.layer = most->layer;
    selection.place.q_head = most->row * now.loss->layout.q_heads_per_row;
  });
}

}  // namespace kvloupe::state
