#include "app/state/questions/kept/method_diff.h"

#include "app/state/other_trace.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/units.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace kvloupe::state {
namespace {

using Answer = MethodDiffQuestion::Answer;
using DiffCell = MethodDiffQuestion::Cell;

constexpr const char* kViewId = "method_diff";

Result<MethodDiffQuestion> ask(Workspace& workspace) {
  std::string why;
  const MethodDiffQuestion question = method_diff_question(workspace, why);
  if (why.empty()) return workspace.ask(question);
  Result<MethodDiffQuestion> none;
  none.question = question;
  none.note = why;
  return none;
}

std::string problem(Workspace& workspace) { return problem_of(ask(workspace)); }

Table table(Workspace& workspace) {
  const auto result = ask(workspace);
  if (!result) return {};
  return replay::diff_table(result->diff, replay::pointers_to(result->diff.rows), false);
}

Array array(Workspace& workspace) {
  const auto result = ask(workspace);
  if (!result) return {};
  const analysis::Matrix& jaccard = result->jaccard;
  return array_of("<f4", {jaccard.rows, jaccard.cols}, jaccard.values);
}

// Rows come by layer and chunk.
void add_cells(Answer& answer) {
  const auto& rows = answer.diff.rows;
  for (auto row = rows.begin(); row != rows.end();) {
    DiffCell cell{row->layer, row->chunk, row->chunk_b};
    const auto end = std::find_if(row, rows.end(), [&](const replay::DiffRow& other) {
      return other.layer != cell.layer || other.chunk != cell.chunk;
    });
    const auto count = static_cast<double>(end - row);
    for (; row != end; ++row) {
      cell.both += row->both;
      cell.only_a += row->only_a;
      cell.only_b += row->only_b;
      cell.jaccard += row->jaccard() / count;
      cell.mass_a += row->mass_a / count;
      cell.mass_b += row->mass_b / count;
    }
    if (answer.layers.empty() || answer.layers.back() != cell.layer)
      answer.layers.push_back(cell.layer);
    if (answer.layers.size() == 1) answer.chunks.push_back(cell.chunk);
    answer.cells.push_back(cell);
  }
}

}  // namespace

MethodDiffQuestion method_diff_question(const Workspace& workspace, std::string& why) {
  MethodDiffQuestion question{workspace.place(), workspace.method(Slot::A),
                              workspace.method(Slot::B)};
  const std::string& beside = workspace.option(kViewId, "beside");
  if (beside == "none" || question.place.empty()) return question;
  const MethodChoice wanted = beside == "other" ? workspace.method() : question.b;
  if (beside == "other") question.a = wanted;
  question.other = other_trace(workspace, why);
  if (!question.other) return question;
  question.b = choice_in(wanted, *question.other, why);
  return question;
}

Place MethodDiffQuestion::place_b() const {
  if (!other) return place;
  Place there = place;
  there.trace = other;
  clamp(there);
  return there;
}

std::string MethodDiffQuestion::obstacle() const {
  if (place.empty()) return "Open a trace";
  if (a.empty() || b.empty()) return "Choose methods as A and B";
  for (const auto& [method, at] : {std::pair{&a, place}, std::pair{&b, place_b()}})
    if (facts_of(at, *method).keeps_every_key())
      return fmt::format(
          "{} cuts lanes and keeps every key: choose a method that chooses among keys",
          method->id());
  return "";
}

Answer MethodDiffQuestion::work(Steps& steps) const {
  const session::TraceSession& session = *place.trace->session;
  Answer answer;
  answer.diff = engine().diff_selections({session, a}, {other ? *other->session : session, b},
                                         {{}, {}, place.device}, steps.context);
  add_cells(answer);
  answer.jaccard.rows = std::ssize(answer.layers);
  answer.jaccard.cols = std::ssize(answer.chunks);
  for (std::size_t i = 0; i < answer.cells.size(); ++i) {
    const DiffCell& cell = answer.cells[i];
    answer.jaccard.values.push_back(static_cast<float>(cell.jaccard));
    if (cell.only_a + cell.only_b > 0)
      answer.by_jaccard.push_back(static_cast<std::int32_t>(i));
    else
      ++answer.same;
  }
  const auto order = [&](std::int32_t i) {
    const DiffCell& cell = answer.cells[static_cast<std::size_t>(i)];
    return std::tuple(cell.jaccard, cell.chunk, cell.layer);
  };
  std::sort(answer.by_jaccard.begin(), answer.by_jaccard.end(),
            [&](std::int32_t x, std::int32_t y) { return order(x) < order(y); });
  return answer;
}

std::uint64_t MethodDiffQuestion::bytes(const Answer& answer) {
  return sizeof(answer) +
         answer.diff.rows.size() *
             (sizeof(replay::DiffRow) + 2 * replay::kNamedKeys * sizeof(std::int32_t)) +
         answer.cells.size() * (sizeof(DiffCell) + sizeof(float) + sizeof(std::int32_t));
}

std::string words_of_divergence(const replay::Diff& diff) {
  const replay::DiffRow* const first = diff.first_divergence();
  if (first == nullptr) return "";
  return fmt::format("chunk {}{}, layer {}, {} {}: only A keeps {} keys, only B {}", first->chunk,
                     diff.two_traces ? fmt::format(" ({} of B)", first->chunk_b) : "", first->layer,
                     replay::words_of_axis(diff.layout.axis), first->row,
                     format_count(first->only_a), format_count(first->only_b));
}

ViewInfo method_diff_view() {
  return ViewInfo{kViewId, "A and B",
                  "in which layers and chunks A and B keep other keys, and where they part first",
                  "Two selections"}
      .follow(At::Layer | At::Chunk)
      .take_both()
      .with({{"beside",
              {"none", "other", "other_b"},
              "none: A and B in this trace; other: the method shown, here as A and in another "
              "open trace as B (export: --other-trace); other_b: A here, B in the other trace; "
              "keys and chunks are matched by their tokens",
              {"A and B here", "two traces", "A here, B there"}}})
      .tabulate_all_chunks()
      .draw(problem, table, array);
}

}  // namespace kvloupe::state
