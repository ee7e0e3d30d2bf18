#include "app/state/questions/results/lost_answer.h"

#include "app/state/questions/why_lost/span_loss.h"
#include "app/state/sample_recording.h"
#include "app/state/shell_words.h"
#include "app/state/workspace.h"

#include <algorithm>
#include <filesystem>
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

std::string record_command(const ReadResults& results, const trace::ResultSample& sample) {
  std::string line = "python -m kvloupe";
  for (const std::string& word : record_arguments(results.file.path, sample.id))
    line += " " + shell_word(word);
  return line;
}

void open_lost_answer(Workspace& workspace, const std::string& trace, const std::string& method) {
  ViewState what;
  what.trace = trace;
  what.methods = {method};
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
