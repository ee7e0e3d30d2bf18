#include "app/state/questions/results/published.h"

#include "app/state/open_results.h"
#include "app/state/workspace.h"
#include "core/base/paths.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace kvloupe::state {
namespace {

using analysis::PublishedScore;
using Answer = PublishedQuestion::Answer;

constexpr const char* kNone = "none";
constexpr std::size_t kMostColumns = 12;  // that one table still shows beside each other

// "compact_attention_fp" is a variant of "compact_attention".
bool is_of(const std::string& method, const std::string& id) {
  return method == id || method.starts_with(id + "_");
}

// 0 where it is no number.
double number_of(const PublishedScore& score) { return parse_double(score.value).value_or(0); }

// What the score is of, besides model and method: "ruler, 4096".
std::string column_of(const PublishedScore& score) {
  return score.length.empty() ? score.task : score.task + ", " + score.length;
}

std::vector<std::string> columns_of(const std::vector<PublishedScore>& scores) {
  std::vector<std::string> columns;
  for (const PublishedScore& score : scores)
    if (std::ranges::find(columns, column_of(score)) == columns.end())
      columns.push_back(column_of(score));
  return columns;
}

// A row a score.
Answer long_table(const std::vector<PublishedScore>& scores) {
  Answer answer{{{"place", "model", "task", "length", "method", "budget", "metric", "value"}, {}}};
  for (const PublishedScore& s : scores) {
    answer.table.rows.push_back(
        {s.place, s.model, s.task, s.length, s.method, s.budget, s.metric, s.value});
    answer.doubts.resize(answer.doubts.size() + 7);
    answer.doubts.push_back(s.doubt);
  }
  return answer;
}

// A row a model, method and budget, a column a task and length.
Answer wide_table(const std::vector<PublishedScore>& scores) {
  Answer answer{{{"place", "model", "method", "budget", "metric"}, {}}};
  const std::size_t fixed = answer.table.columns.size();
  const std::vector<std::string> columns = columns_of(scores);
  for (const std::string& column : columns) answer.table.columns.emplace_back(column);
  const std::size_t width = answer.table.columns.size();
  using Key = std::array<std::string, 5>;
  std::map<Key, std::size_t> rows;
  for (const PublishedScore& s : scores) {
    const Key key{s.place, s.model, s.method, s.budget, s.metric};
    const auto [row, first] = rows.try_emplace(key, answer.table.rows.size());
    if (first) {
      answer.table.rows.emplace_back(key.begin(), key.end()).resize(width);
      answer.doubts.resize(answer.doubts.size() + width);
    }
    const auto column = fixed + static_cast<std::size_t>(std::ranges::find(columns, column_of(s)) -
                                                         columns.begin());
    answer.table.rows[row->second][column] = s.value;
    answer.doubts[row->second * width + column] = s.doubt;
  }
  return answer;
}

}  // namespace

PublishedQuestion::Answer PublishedQuestion::work(Steps& /*steps*/) const {
  const analysis::Paper& source = analysis::paper_named(paper);
  std::set<std::string> ids = {kDense}, families;
  for (const std::string& method : methods) ids.insert(selection::method_id(method));
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
  if (std::ranges::any_of(scores, [](const PublishedScore& s) {
        return s.metric != "perplexity" && number_of(s) > 1;
      }))
    words += " As printed, up to 100; the map above goes to 1.";
  Answer answer =
      columns_of(scores).size() <= kMostColumns ? wide_table(scores) : long_table(scores);
  answer.words = std::move(words);
  return answer;
}

std::uint64_t PublishedQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.words.size();
  for (const std::string& doubt : answer.doubts) sum += sizeof(Cell) + sizeof(doubt) + doubt.size();
  return sum;
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
