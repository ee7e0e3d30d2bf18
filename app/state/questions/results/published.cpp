#include "app/state/questions/results/published.h"

#include "app/state/workspace.h"
#include "core/base/paths.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

std::string PublishedQuestion::key() const {
  return fmt::format("{}|{}|{}", paper, fmt::join(methods, ","), fmt::join(tasks, ","));
}

PublishedQuestion::Answer PublishedQuestion::work(Steps& /*steps*/) const {
  const analysis::Paper& source = analysis::paper_named(paper);
  std::vector<PublishedScore> scores =
      analysis::read_published(paths::share_dir() / "papers" / (paper + ".csv"));
  std::erase_if(scores, [&](const PublishedScore& score) {
    return !analysis::is_of_answers(score) ||
           std::ranges::none_of(methods,
                                [&](const std::string& id) { return is_of(score.method, id); });
  });
  if (scores.empty())
    return {{},
            fmt::format("{} ({}) prints no scores of these methods.", source.title, source.source)};
  std::set<std::string> families;
  for (const std::string& task : tasks) families.insert(analysis::task_family(task));
  std::vector<PublishedScore> same;
  for (const PublishedScore& score : scores)
    if (families.contains(analysis::task_family(score.task))) same.push_back(score);
  std::string words =
      fmt::format("Printed in {} ({}), of other models and prompts.", source.title, source.source);
  if (same.empty())
    words += " None is of these tasks: all tasks are listed.";
  else
    scores = std::move(same);
  return {std::move(scores), std::move(words)};
}

std::uint64_t PublishedQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.words.size();
  for (const PublishedScore& score : answer.scores) sum += sizeof(score) + score.doubt.size();
  return sum;
}

PublishedQuestion published_question(const Workspace& workspace) {
  PublishedQuestion question;
  const OfResults shown = of_results(workspace);
  const std::string& paper = workspace.option("task_scores", "published");
  if (!shown.results || paper == kNone) return question;
  question.paper = paper;
  std::set<std::string> methods = {"dense"}, tasks;
  for (const std::string& method : shown.methods) methods.insert(id_of(method));
  for (const trace::ResultSample& sample : shown.results->file.samples) tasks.insert(sample.task);
  question.methods.assign(methods.begin(), methods.end());
  question.tasks.assign(tasks.begin(), tasks.end());
  return question;
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
