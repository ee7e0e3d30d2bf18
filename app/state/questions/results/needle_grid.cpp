#include "app/state/questions/results/needle_grid.h"

#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace kvloupe::state {
namespace {

using analysis::ScoreCell;
using trace::ResultSample;
using Answer = NeedleGridQuestion::Answer;
using Grid = NeedleGridQuestion::Grid;

bool has_needle(const ResultSample& sample) {
  return sample.length >= 0 && !std::isnan(sample.depth);
}

Table table(Workspace& workspace) {
  const NeedleGridQuestion question = needle_grid_question(workspace);
  Table table{{"task", "method", "length", "depth"}, {}};
  add_score_columns(table);
  const auto result = workspace.ask(question);
  if (!result) return table;
  for (const Grid& grid : result->grids)
    for (std::size_t r = 0; r < result->lengths.size(); ++r)
      for (std::size_t c = 0; c < result->depths.size(); ++c) {
        const ScoreCell& cell = grid.scores.at(r, c);
        if (cell.samples.empty()) continue;
        std::vector<Cell> row{grid.task, MethodText{grid.method}, result->lengths[r],
                              result->depths[c]};
        add_scores(cell, question.against, row);
        table.rows.push_back(std::move(row));
      }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(needle_grid_question(workspace));
  if (!result) return {};
  std::vector<double> means;
  for (const Grid& grid : result->grids)
    for (const ScoreCell& cell : grid.scores.cells) means.push_back(cell.mean);
  return array_of(
      "<f8", {std::ssize(result->grids), std::ssize(result->lengths), std::ssize(result->depths)},
      means);
}

std::string problem(Workspace& workspace) {
  const auto result = workspace.ask(needle_grid_question(workspace));
  const std::string problem = problem_of(result);
  if (!problem.empty() || !result->grids.empty()) return problem;
  return "no sample has a length and a depth: run the task kvloupe_niah.";
}

// A table with a cell for each of these lengths and depths, with or without samples.
analysis::ScoreTable all_cells(const analysis::ScoreTable& found,
                               const std::vector<std::string>& lengths,
                               const std::vector<std::string>& depths) {
  analysis::ScoreTable table{lengths, depths, {}};
  const auto place = [](const std::vector<std::string>& names, const std::string& name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  };
  for (const std::string& length : lengths)
    for (const std::string& depth : depths) {
      const std::size_t r = place(found.rows, length), c = place(found.columns, depth);
      const bool known = r < found.rows.size() && c < found.columns.size();
      table.cells.push_back(known ? found.at(r, c) : ScoreCell());
    }
  return table;
}

double loss_of(const ScoreCell& cell) { return cell.paired > 0 ? cell.loss : 1 - cell.mean; }

// Where a method loses most, and in how many of its cells just as much.
struct Loss {
  const Grid* grid = nullptr;
  std::size_t at = 0;
  std::int64_t alike = 0, cells = 0;

  const ScoreCell& cell() const { return grid->scores.cells[at]; }
  bool is_worse_than(const Loss& other) const {
    if (other.grid == nullptr) return true;
    return std::pair(loss_of(cell()), alike) > std::pair(loss_of(other.cell()), other.alike);
  }
};

std::optional<Loss> worst_of(const Grid& grid) {
  Loss worst{&grid};
  for (std::size_t i = 0; i < grid.scores.cells.size(); ++i) {
    const ScoreCell& cell = grid.scores.cells[i];
    if (cell.scored == 0) continue;
    ++worst.cells;
    if (loss_of(cell) <= 0) continue;
    if (worst.alike == 0 || loss_of(cell) > loss_of(worst.cell())) {
      worst.at = i;
      worst.alike = 1;
    } else if (loss_of(cell) == loss_of(worst.cell()) && cell.mean == worst.cell().mean) {
      ++worst.alike;
    }
  }
  return worst.alike > 0 ? std::optional(worst) : std::nullopt;
}

// " quoka 64 and quoka 256 find all that dense finds.", of all tasks; of many methods how many do.
std::string of_the_good(const NeedleGridQuestion& question, const Answer& answer) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> methods, good;
  for (const Grid& grid : answer.grids)
    if (grid.method != question.against && std::ranges::find(methods, grid.method) == methods.end())
      methods.push_back(grid.method);
  for (const std::string& method : methods) {
    bool compared = false, loses = false;
    for (const Grid& grid : answer.grids) {
      if (grid.method != method) continue;
      loses |= worst_of(grid).has_value();
      for (const ScoreCell& cell : grid.scores.cells) compared |= cell.paired > 0;
    }
    if (compared && !loses) good.push_back(question.results->label_of(method));
  }
  if (good.empty()) return "";
  const std::string& all = question.results->label_of(question.against);
  if (good.size() > kMostNamed)
    return fmt::format(" {} of {} methods find all that {} finds.", good.size(), methods.size(),
                       all);
  if (good.size() == 1) return fmt::format(" {} finds all that {} finds.", good.front(), all);
  const std::string last = good.back();
  good.pop_back();
  return fmt::format(" {} and {} find all that {} finds.", fmt::join(good, ", "), last, all);
}

// No method loses anything: of those that were asked. Samples that were refused, or not yet run, have no score.
std::string finding_without_loss(const NeedleGridQuestion& question, const Answer& answer,
                                 bool compared) {
  const std::string& other = question.results->label_of(question.against);
  std::size_t grids = 0, with_scores = 0;
  std::int64_t refused = 0;
  for (const Grid& grid : answer.grids) {
    if (compared && grid.method == question.against) continue;
    bool has_scores = false;
    std::int64_t refused_of_it = 0;
    for (const ScoreCell& cell : grid.scores.cells) {
      has_scores |= (compared ? cell.paired : cell.scored) > 0;
      refused_of_it += cell.refused;
    }
    ++grids;
    with_scores += has_scores ? 1 : 0;
    refused += has_scores ? 0 : refused_of_it;
  }
  if (with_scores == grids)
    return compared ? fmt::format("Every method finds all that {} finds.", other)
                    : "All needles are found.";
  const std::string why = refused == 0 ? std::string()
                                       : fmt::format(": {} {} refused", words_of_samples(refused),
                                                     refused == 1 ? "was" : "were");
  if (with_scores == 0)
    return (compared ? fmt::format("No sample is scored of a method and of {}", other)
                     : "No sample is scored") +
           why + ".";
  const std::string good = of_the_good(question, answer);
  return (good.empty() ? "" : good.substr(1) + " ") +
         fmt::format("The others share no scored sample with {}{}.", other, why);
}

// Where a method misses most of what the other one finds; of one method alone, where it misses most.
std::string finding_of(const NeedleGridQuestion& question, const Answer& answer) {
  const std::string& other = question.results->label_of(question.against);
  Loss worst;
  bool compared = false;
  for (const Grid& grid : answer.grids) compared |= grid.method != question.against;
  for (const Grid& grid : answer.grids) {
    if (compared && grid.method == question.against) continue;
    const auto loss = worst_of(grid);
    if (loss && loss->is_worse_than(worst)) worst = *loss;
  }
  if (worst.grid == nullptr) return finding_without_loss(question, answer, compared);
  const ScoreCell& cell = worst.cell();
  const std::string where =
      worst.alike == 1
          ? fmt::format(" at {}, depth {} %",
                        length_text(answer.lengths[worst.at / answer.depths.size()]),
                        format_shortest(answer.depths[worst.at % answer.depths.size()]))
      : worst.alike == worst.cells ? fmt::format(" in all {} cells", worst.cells)
                                   : fmt::format(" in {} of {} cells", worst.alike, worst.cells);
  std::string text =
      fmt::format("{} misses most{}: it scores {}", name_of(question, answer, *worst.grid), where,
                  score_text(cell.paired > 0 ? cell.paired_mean : cell.mean));
  if (cell.paired > 0)
    text += fmt::format(" where {} scores {}", other, score_text(cell.their_mean));
  if (worst.alike == 1)
    text += fmt::format(" ({})", words_of_samples(cell.paired > 0 ? cell.paired : cell.scored));
  return text + "." + (compared ? of_the_good(question, answer) : "");
}

}  // namespace

NeedleGridQuestion needle_grid_question(const Workspace& workspace) {
  return {of_results(workspace)};
}

std::string name_of(const NeedleGridQuestion& question, const Answer& answer, const Grid& grid) {
  const std::string& method = question.results->label_of(grid.method);
  return answer.several_tasks ? printable(grid.task) + ", " + method : method;
}

Answer NeedleGridQuestion::work(Steps& steps) const {
  Answer answer;
  std::set<std::int64_t> lengths;
  std::set<double> depths;
  std::set<std::string> tasks;
  std::set<std::pair<std::string, std::string>> asked;  // task and method
  for (const ResultSample& sample : results->file.samples) {
    if (!shows(sample) || !has_needle(sample)) continue;
    lengths.insert(sample.length);
    depths.insert(sample.depth);
    tasks.insert(sample.task);
    asked.emplace(sample.task, sample.method);
  }
  if (lengths.size() * depths.size() * asked.size() > analysis::kMostScoreCells)
    throw input_error("the needles cannot be laid out",
                      fmt::format("there are {} lengths, {} depths and {} methods and tasks",
                                  lengths.size(), depths.size(), asked.size()),
                      "show fewer methods");
  answer.lengths.assign(lengths.begin(), lengths.end());
  answer.depths.assign(depths.begin(), depths.end());
  answer.several_tasks = tasks.size() > 1;
  std::vector<std::string> length_names, depth_names;
  for (const std::int64_t length : answer.lengths) length_names.push_back(std::to_string(length));
  for (const double depth : answer.depths) depth_names.push_back(format_shortest(depth));
  const auto depth_of = [](const ResultSample& sample) { return format_shortest(sample.depth); };
  for (const std::string& task : tasks)
    for (const std::string& method : methods) {
      if (!asked.contains({task, method})) continue;
      steps.context.cancel.throw_if_cancelled();
      const auto length_of = [&](const ResultSample& sample) {
        const bool here = sample.task == task && sample.method == method && has_needle(sample);
        return here ? std::to_string(sample.length) : std::string();
      };
      const auto found = analysis::score_table(results->file, length_of, depth_of, against, {});
      if (!found.rows.empty())
        answer.grids.push_back({task, method, all_cells(found, length_names, depth_names)});
    }
  answer.finding = answer.grids.empty() ? "" : finding_of(*this, answer);
  return answer;
}

std::uint64_t NeedleGridQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + bytes_in(answer.lengths) + bytes_in(answer.depths);
  for (const Grid& grid : answer.grids)
    for (const ScoreCell& cell : grid.scores.cells) sum += sizeof(cell) + bytes_in(cell.samples);
  return sum;
}

ViewInfo needle_grid_view() {
  return ViewInfo{"needle_grid", "Needle grid",
                  "which needles each method finds, by the text's length and the needle's depth",
                  "Results of an evaluation"}
      .of_results()
      .on_paper(0.6F)
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
