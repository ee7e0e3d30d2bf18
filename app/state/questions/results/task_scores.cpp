#include "app/state/questions/results/task_scores.h"

#include "app/state/open_results.h"
#include "app/state/questions/results/published.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/method_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace kvloupe::state {
namespace {

using analysis::ScoreCell;
using trace::ResultSample;
using Answer = TaskScoresQuestion::Answer;

constexpr const char* kView = "task_scores";
constexpr const char* kBudget = "budget";

Table table(Workspace& workspace) {
  const TaskScoresQuestion question = task_scores_question(workspace);
  Table table{{"method", table::Column(question.across)}, {}};
  add_score_columns(table);
  const auto result = workspace.ask(question);
  if (!result) return table;
  const analysis::ScoreTable& scores = result->scores;
  for (std::size_t r = 0; r < scores.rows.size(); ++r)
    for (std::size_t c = 0; c < scores.columns.size(); ++c) {
      if (scores.at(r, c).samples.empty()) continue;
      std::vector<Cell> row{MethodText{scores.rows[r]}, scores.columns[c]};
      add_scores(scores.at(r, c), question.against, row);
      table.rows.push_back(std::move(row));
    }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(task_scores_question(workspace));
  if (!result) return {};
  std::vector<double> means;
  for (const ScoreCell& cell : result->scores.cells) means.push_back(cell.mean);
  return array_of("<f8", {std::ssize(result->scores.rows), std::ssize(result->scores.columns)},
                  means);
}

// The same SPEC without its budget: what a row of all budgets is called.
std::string without_budget(const std::string& method) {
  try {
    return replay::short_name(selection::MethodSpec::parse(method),
                              {"budget_tokens", "budget_ratio"});
  } catch (const Error&) {
    return method;
  }
}

std::string number_or_nothing(std::int64_t number) {
  return number < 0 ? "" : std::to_string(number);
}

analysis::NameOfSample column_of(const std::string& across) {
  if (across == "length")
    return [](const ResultSample& sample) { return number_or_nothing(sample.length); };
  if (across == "depth")
    return [](const ResultSample& sample) {
      return std::isnan(sample.depth) ? "" : format_shortest(sample.depth);
    };
  // Dense has no budget, and stands beside all of them; so do methods that keep as much as they see fit.
  if (across == kBudget)
    return [](const ResultSample& sample) {
      if (sample.method == kDense) return std::string(kAllKeys);
      return sample.budget < 0 ? std::string(kOwnBudget) : std::to_string(sample.budget);
    };
  return [](const ResultSample& sample) { return sample.task; };
}

std::string column_label(const std::string& across, const std::string& column) {
  if (across == "depth") return column + " %";
  if (across == "task") return printable(column);
  if (column == kAllKeys) return "all keys";
  if (column == kOwnBudget) return "no fixed budget";
  const auto number = parse_int(column);
  if (!number) return column;
  return format_count(*number) + (across == "length" ? " tokens" : " keys");
}

// The cell that is furthest below what it is compared with.
std::ptrdiff_t worst_of(const analysis::ScoreTable& scores) {
  std::ptrdiff_t worst = -1;
  for (std::size_t i = 0; i < scores.cells.size(); ++i) {
    const ScoreCell& cell = scores.cells[i];
    if (cell.loss > 0 &&
        (worst < 0 || cell.loss > scores.cells[static_cast<std::size_t>(worst)].loss))
      worst = static_cast<std::ptrdiff_t>(i);
  }
  return worst;
}

const char* place_word(const std::string& across, const std::string& column) {
  if (column == kOwnBudget) return "with";
  return across == "task" ? "in" : across == "depth" ? "at depth" : "at";
}

std::string finding_of(const TaskScoresQuestion& question, const Answer& answer) {
  const analysis::ScoreTable& scores = answer.scores;
  const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(answer.worst, 0));
  const ScoreCell* worst = answer.worst < 0 ? nullptr : &scores.cells[at];
  const std::string other = question.results->label_of(question.against);
  if (worst == nullptr) {
    std::int64_t paired = 0, lost = 0;
    for (const ScoreCell& cell : scores.cells) {
      paired += cell.paired;
      lost += cell.worse;
    }
    if (paired == 0) return "";
    if (answer.left_out == 0)
      return fmt::format("No method does worse than {} {}.", other,
                         lost > 0 ? "on average" : "on any sample");
    return fmt::format("Of the samples with a {}, no method does worse than {} {}.",
                       question.across, other, lost > 0 ? "on average" : "on any");
  }
  const std::string p = p_text(worst->p);
  return fmt::format("{} falls furthest below {} {} {}: {} against {} ({}{}).",
                     answer.row_labels[at / scores.columns.size()], other,
                     place_word(question.across, scores.columns[at % scores.columns.size()]),
                     answer.column_labels[at % scores.columns.size()],
                     score_text(worst->paired_mean), score_text(worst->their_mean),
                     words_of_samples(worst->paired), p.empty() ? "" : ", " + p);
}

std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(task_scores_question(workspace));
  const std::string problem = problem_of(result);
  if (!problem.empty() || !result->scores.cells.empty()) return problem;
  return fmt::format("no sample has a {}", result.question.across);
}

}  // namespace

ResultsSight scores_across_more_than_one(const ReadResults& results) {
  ResultsSight sight;
  for (const char* across : {"task", kBudget, "length"}) {
    std::set<std::string> columns;
    for (const ResultSample& sample : results.file.samples)
      if (sample.method != kDense) columns.insert(column_of(across)(sample));
    columns.erase("");
    columns.erase(kOwnBudget);
    if (columns.size() < 2) continue;
    if (across != std::string_view("task")) sight.options[std::string(kView) + ".across"] = across;
    break;
  }
  return sight;
}

TaskScoresQuestion task_scores_question(const Workspace& workspace) {
  return {of_results(workspace), workspace.option(kView, "across")};
}

Answer TaskScoresQuestion::work(Steps& /*steps*/) const {
  const bool budgets = across == kBudget;
  const auto row = [&](const ResultSample& sample) {
    if (!shows(sample)) return std::string();
    return budgets && sample.budget >= 0 ? without_budget(sample.method) : sample.method;
  };
  std::vector<std::string> first = budgets ? std::vector<std::string>{kDense} : methods;
  Answer answer{
      analysis::score_table(results->file, row, column_of(across), against, first), {}, {}, {}};
  answer.left_out = std::ranges::count_if(results->file.samples, [&](const ResultSample& sample) {
    return !row(sample).empty() && column_of(across)(sample).empty();
  });
  for (const std::string& name : answer.scores.rows)
    answer.row_labels.push_back(budgets ? printable(name) : results->label_of(name));
  for (const std::string& name : answer.scores.columns)
    answer.column_labels.push_back(column_label(across, name));
  answer.worst = worst_of(answer.scores);
  answer.finding = finding_of(*this, answer);
  return answer;
}

std::uint64_t TaskScoresQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + bytes_in(answer.row_labels) +
                      bytes_in(answer.column_labels) + bytes_in(answer.scores.rows);
  for (const ScoreCell& cell : answer.scores.cells) sum += sizeof(cell) + bytes_in(cell.samples);
  return sum;
}

ViewInfo task_scores_view() {
  return ViewInfo{kView, "Task scores",
                  "how many questions of each task a method answers, beside dense attention",
                  "Results of an evaluation"}
      .of_results()
      .on_paper(0.4F)
      .with({{"across",
              {"task", "length", "depth", "budget"},
              "what has a column: the task, the text's length, the needle's depth or the budget"},
             {"published", published_choices(),
              "a paper whose own scores stand below, of other models", published_labels()},
             {"value",
              {"score", "relative", "difference"},
              "what colours the cells: the mean score, its share of what the method compared with "
              "has, or the difference",
              {"score", "share of the other's", "difference"}}})
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
