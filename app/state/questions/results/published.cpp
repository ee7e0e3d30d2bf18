#include "app/state/questions/results/published.h"

#include "app/state/workspace.h"
#include "core/base/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kvloupe::state {
namespace {

using analysis::PublishedScore;

constexpr const char* kNone = "none";

std::string id_of(const std::string& method) { return method.substr(0, method.find(':')); }

// "compact_attention_fp" is a variant of "compact_attention".
bool is_of(const std::string& method, const std::string& id) {
  return method == id || method.starts_with(id + "_");
}

}  // namespace

PublishedQuestion::Answer PublishedQuestion::work(Steps& /*steps*/) const {
  const analysis::Paper& source = analysis::paper_named(paper);
  std::set<std::string> ids = {"dense"}, families;
  for (const std::string& method : methods) ids.insert(id_of(method));
  for (const trace::ResultSample& sample : results->file.samples)
    families.insert(analysis::task_family(sample.task));
  std::vector<PublishedScore> scores =
      analysis::read_published(paths::share_dir() / "papers" / (paper + ".csv"));
  std::erase_if(scores, [&](const PublishedScore& score) {
    return !analysis::is_of_answers(score) || std::ranges::none_of(ids, [&](const std::string& id) {
      return is_of(score.method, id);
    });
  });
  if (scores.empty())
    return {{},
            {},
            fmt::format("{} ({}) prints no scores of these methods.", source.title, source.source)};
  std::vector<PublishedScore> same;
  for (const PublishedScore& score : scores)
    if (families.contains(analysis::task_family(score.task))) same.push_back(score);
  std::string words =
      fmt::format("Printed in {} ({}), of other models and prompts.", source.title, source.source);
  if (same.empty())
    words += " None is of these tasks: all tasks are listed.";
  else
    scores = std::move(same);
  Answer answer{{{"place",
                  "model",
                  "task",
                  "length",
                  "method",
                  "budget",
                  "metric",
                  "value",
                  {"doubt", "why it may be wrong"}},
                 {}},
                {},
                std::move(words)};
  for (const PublishedScore& s : scores) {
    answer.table.rows.push_back(
        {s.place, s.model, s.task, s.length, s.method, s.budget, s.metric, s.value, s.doubt});
    answer.doubts.push_back(!s.doubt.empty());
  }
  return answer;
}

std::uint64_t PublishedQuestion::bytes(const Answer& answer) {
  constexpr std::uint64_t kRow = 9 * sizeof(Cell);
  return sizeof(answer) + answer.words.size() + kRow * answer.table.rows.size();
}

PublishedQuestion published_question(const Workspace& workspace) {
  const std::string& paper = workspace.option("task_scores", "published");
  return {of_results(workspace), paper == kNone ? "" : paper};
}

std::vector<std::string> published_choices() {
  std::vector<std::string> choices = {kNone};
  for (const analysis::Paper& paper : analysis::papers()) choices.emplace_back(paper.id);
  return choices;
}

std::vector<std::string> published_labels() {
  std::vector<std::string> labels = {"nothing"};
  for (const analysis::Paper& paper : analysis::papers()) labels.emplace_back(paper.title);
  return labels;
}

}  // namespace kvloupe::state
