#include "app/state/questions/how_much/method_compare.h"

#include "app/state/method_groups.h"
#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/units.h"
#include "core/engine/engine.h"
#include "core/replay/request_checks.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

namespace kvloupe::state {
namespace {

using replay::CompareRow;
using Row = MethodCompareQuestion::Row;
using Answer = MethodCompareQuestion::Answer;

constexpr const char* kViewId = "method_compare";

const char* name_of(replay::CellChoice cells) {
  return cells == replay::CellChoice::Common ? "common" : "own";
}
// Where no chunks are chosen the span's share is from the question on all the same.
std::string counted_key(const NumberChunks& chunks) { return chunks.chosen ? chunks.key() : ""; }
// A single key is the miss inspector's, and changes with every click.
std::optional<trace::NamedKeys> watched_several(Place place) {
  if (place.keys.size() == 1) place.keys = {};
  return watched_keys(place);
}

std::string part_key(const Place& place, bool all_layers) {
  return all_layers ? place.trace_key() + "|all layers" : place.layer_key();
}
std::string words_of_layers(const Place& place, bool all_layers) {
  return all_layers ? "all layers" : fmt::format("layer {}", place.layer);
}

Row row_of_method(MethodChoice method, const trace::TraceInfo& info) {
  Row row;
  if (const trace::RunInfo* run = method.run_info(info)) row.mode = run->mode;
  row.method = std::move(method);
  return row;
}

// Those of the catalogue are selected anew, recorded or not, as `compare` does.
std::vector<Row> rows_of_catalogue(const selection::ParamValues& values, const OpenTrace& trace) {
  const replay::MethodList list = replay::all_methods(values);
  std::vector<Row> rows;
  for (const selection::MethodSpec& spec : list.required_specs())
    rows.push_back(row_of_method(choice_anew(spec.resolved(trace.shape())), trace.info()));
  for (const replay::UnavailableMethod& entry : list.unavailable) {
    rows.push_back(row_of_method({entry.method, -1, std::nullopt}, trace.info()));
    rows.back().unavailable = entry.error.what();
  }
  return rows;
}

// The means of all that are measured, by the rule of `kvloupe compare`.
void average(std::vector<Row>& rows, replay::CellChoice cells) {
  for (const trace::Phase phase : {trace::Phase::Prefill, trace::Phase::Decode}) {
    replay::CellSets sets;
    std::vector<Row*> measured;
    for (Row& row : rows) {
      if (row.averages == nullptr) continue;
      measured.push_back(&row);
      sets.push_back(row.averages->cells(phase));
    }
    const bool alike = cells == replay::CellChoice::Common;
    const replay::CellSet common = replay::common_cells(sets);
    const std::vector<bool> differs = replay::differ_from_most(sets);
    for (std::size_t i = 0; i < measured.size(); ++i) {
      const analysis::MethodAverages& averages = *measured[i]->averages;
      measured[i]->means[phase == trace::Phase::Decode] = {
          averages.means(phase, alike ? &common : nullptr), averages.all_cells(phase),
          !alike && differs[i], sets[i] && sets[i]->empty()};
    }
  }
}

// The budget of A, which the words of a figure name too; where it has none, the one that the window
// begins with.
selection::ParamValues catalogue_values(const MethodChoice& a, const trace::TraceInfo& info) {
  const selection::MethodSpec spec = budget_giver(a, info.num_tokens);
  selection::ParamValues values = spec.budget_values();
  if (spec.scope() == selection::BudgetScope::All) values.emplace("budget_scope", "all");
  return values;
}

bool takes_catalogue(const Workspace& workspace) {
  return workspace.option(kViewId, "methods") == "catalogue";
}

std::vector<MethodChoice> more_methods(const Workspace& workspace) {
  return workspace.more_methods(!takes_catalogue(workspace));
}

// Recorded, what stands in A and B, and more; each once, by name: so that rows of equal value have
// one order, whatever the order of their choice.
std::vector<MethodChoice> methods_at_hand(const Workspace& workspace) {
  std::vector<MethodChoice> methods = workspace.traces.ready()->recorded;
  for (const Slot slot : kSlots) methods.push_back(workspace.method(slot));
  for (MethodChoice& method : more_methods(workspace)) methods.push_back(std::move(method));
  std::sort(methods.begin(), methods.end(), [](const MethodChoice& a, const MethodChoice& b) {
    return std::tie(a.text, a.run) < std::tie(b.text, b.run);
  });
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  return methods;
}

// "run 3 has 2 of the 30 layers: 4, 5", as `compare` says it; empty where it has all that are averaged.
std::string layers_note(const MethodCompareQuestion& question, const Row& row) {
  if (!question.all_layers || !row.method.recorded() || row.averages == nullptr) return "";
  const std::vector<int>& layers = row.averages->layers();
  const std::size_t all = question.place.info().layers.size();
  if (layers.size() >= all) return "";
  return fmt::format("run {} has {} of the {} layers: {}", row.method.run, layers.size(), all,
                     fmt::join(layers, ", "));
}

std::string note_of(const MethodCompareQuestion& question, const Row& row, trace::Phase phase) {
  const std::string note = row.in(phase).differs ? words_of_cells(row, phase) : row.unavailable;
  const std::string of_layers = layers_note(question, row);
  return note.empty() || of_layers.empty() ? note + of_layers : note + "; " + of_layers;
}

std::vector<Cell> cells_of(const Row& row, const MethodCompareQuestion& question) {
  const Place& place = question.place;
  const trace::Phase phase = question.phase();
  std::vector<Cell> cells;
  for (const CompareColumn& column : compare_columns())
    cells.push_back(column.is_method() ? Cell(MethodText{row.method.text})
                                       : Cell(value_of(row, column, phase)));
  cells.push_back(row.averages ? Cell(row.in(phase).all_cells) : Cell());
  cells.emplace_back(row.leaks(place.info()));
  cells.emplace_back(phase == trace::Phase::Prefill ? "prefill" : "decode");
  cells.push_back(row.method.recorded() ? Cell(row.method.run) : Cell());
  cells.emplace_back(std::string(trace::to_text(row.mode)));
  cells.emplace_back(note_of(question, row, phase));
  return cells;
}

Table table(Workspace& workspace) {
  Table table;
  for (const CompareColumn& column : compare_columns()) table.columns.emplace_back(column.name);
  for (const char* name : {"all_cells", "leakage", "phase", "run", "mode", "note"})
    table.columns.emplace_back(name);
  const auto result = workspace.ask(method_compare_question(workspace));
  if (!result) return table;
  for (const std::size_t i :
       sorted_rows(*result, compare_order(workspace), result.question.phase()))
    table.rows.push_back(cells_of(result->rows[i], result.question));
  return table;
}

}  // namespace

std::string MethodAveragesQuestion::key() const {
  return key_of_members(part_key(place, all_layers), method, watched, counted_key(chunks));
}

MethodAveragesQuestion::Answer MethodAveragesQuestion::work(Steps& steps) const {
  const session::TraceSession& session = *place.trace->session;
  std::vector<int> layers = all_layers ? place.info().layers : std::vector{place.layer};
  if (!method.recorded()) {
    KVLOUPE_CHECK(method.known());
  } else if (all_layers) {
    // A run may cover fewer layers than the trace.
    replay::recorded_run_of(place.info(), method.run);
    layers = replay::checked_layers_of_run(session, method.run, {});
  }
  return engine().average(session, method, layers, counted_in(chunks, watched, place.info()),
                          steps.context, place.device);
}

std::uint64_t MethodAveragesQuestion::bytes(const Answer& answer) { return answer.bytes(); }

bool MethodCompareQuestion::Row::leaks(const trace::TraceInfo& info) const {
  const trace::RunInfo* run = method.run_info(info);
  if (run != nullptr && run->basis_leakage) return true;
  return averages != nullptr && averages->leaks();
}

std::string MethodCompareQuestion::key() const {
  std::string key =
      key_of_members(part_key(place, all_layers), cells, watched, counted_key(chunks));
  for (const auto& [name, value] : catalogue) key = key_of_members(key, name, value);
  for (const MethodChoice& method : methods) key = key_of_members(key, method);
  return key;
}

std::string MethodCompareQuestion::title() const {
  return fmt::format("Comparing methods in {}", words_of_layers(place, all_layers));
}

std::string MethodCompareQuestion::obstacle() const {
  if (place.empty() || !catalogue.empty() || !methods.empty()) return missing(place);
  return missing(place, MethodChoice{});
}

Answer MethodCompareQuestion::work(Steps& steps) const {
  Answer answer;
  if (!catalogue.empty()) answer.rows = rows_of_catalogue(catalogue, *place.trace);
  for (const MethodChoice& method : methods)
    answer.rows.push_back(row_of_method(method, place.info()));
  std::optional<Error> first_error;
  for (Row& row : answer.rows) {
    if (!row.pending()) continue;
    steps.show(answer);
    try {
      row.averages =
          steps.need(MethodAveragesQuestion{place, row.method, all_layers, watched, chunks});
      average(answer.rows, cells);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::Input && error.kind() != ErrorKind::Usage) throw;
      row.unavailable = error.what();
      if (!first_error) first_error = error;
    }
  }
  const bool any = std::any_of(answer.rows.begin(), answer.rows.end(),
                               [](const Row& row) { return row.averages != nullptr; });
  if (!any && first_error) throw *first_error;
  return answer;
}

std::uint64_t MethodCompareQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer);
  for (const Row& row : answer.rows)
    sum += sizeof(row) + row.method.text.size() + row.unavailable.size();
  return sum;
}

bool CompareColumn::falling() const {
  return number != nullptr ? number->higher_is_better() : is_cells();
}

const std::vector<CompareColumn>& compare_columns() {
  using replay::Number;
  static const std::vector<CompareColumn> columns = [] {
    std::vector<CompareColumn> made{{"method", "method", "", nullptr}};
    for (const Number number :
         {Number::MassRecall, Number::TopkOverlap, Number::Gap, Number::SpanKept,
          Number::OutputError, Number::RequestedBudget, Number::EffectiveBudget, Number::Forced,
          Number::Density, Number::KvBytes}) {
      const replay::NumberInfo& info = replay::info_of(number);
      made.push_back({info.id, info.title, info.sentence, &info});
    }
    made.push_back({"cells", "cells",
                    "Layers, rows and chunks averaged, of all. Left out are those in which the "
                    "method, or with common cells any of them, kept everything.",
                    nullptr, &CompareRow::cells});
    made.push_back({"fallback_cells", "fallback",
                    "Cells that kept everything for want of keys, not by the method's rule.",
                    nullptr, &CompareRow::fallback_cells});
    return made;
  }();
  return columns;
}

std::optional<double> value_of(const Row& row, const CompareColumn& column, trace::Phase phase) {
  if (row.averages == nullptr || column.is_method()) return std::nullopt;
  const CompareRow& means = row.in(phase).row;
  if (column.count != nullptr) return static_cast<double>(means.*column.count);
  const auto value = means.numbers[column.number->number];
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::string words_of_cells(const Row& row, trace::Phase phase) {
  const MethodCompareQuestion::Means& means = row.in(phase);
  return fmt::format("averaged over {} of {} cells{}", format_count(means.row.cells),
                     format_count(means.all_cells), means.differs ? ", unlike most methods" : "");
}

std::string finding_of(const MethodCompareQuestion& question, const Answer& answer,
                       const std::vector<std::string>& names) {
  if (!question.watched) return "";
  const auto column_of = [](replay::Number number) {
    return std::ranges::find_if(compare_columns(), [&](const CompareColumn& column) {
      return column.number != nullptr && column.number->number == number;
    });
  };
  const auto kept = column_of(replay::Number::SpanKept),
             recall = column_of(replay::Number::MassRecall);
  struct Line {
    double kept, recall;
    std::size_t row;
  };
  std::vector<Line> lines;
  for (std::size_t i = 0; i < answer.rows.size(); ++i) {
    const Row& row = answer.rows[i];
    if (row.pending()) return "";
    const auto of_span = value_of(row, *kept, question.phase());
    const auto of_all = value_of(row, *recall, question.phase());
    if (of_span && of_all) lines.push_back({*of_span, *of_all, i});
  }
  std::ranges::sort(lines, std::ranges::greater(), &Line::kept);
  if (lines.size() < 2 || lines[0].kept <= 0 || lines[0].kept - lines[1].kept < 1e-9) return "";
  const auto better =
      std::ranges::count_if(lines, [&](const Line& line) { return line.recall > lines[0].recall; });
  constexpr std::array kWords{"first", "second", "third"};
  const auto place = static_cast<std::size_t>(better);
  std::string name = names[lines[0].row];  // set in columns
  while (const auto at = name.find("  ") + 1) name.erase(at, 1);
  return fmt::format("Of {} methods {} keeps the most of {} ({:.0f} %); by mass recall it is {}.",
                     lines.size(), name, readable_name(question.watched->name), 100 * lines[0].kept,
                     place < kWords.size() ? kWords[place] : fmt::format("number {}", place + 1));
}

std::string words_of(const selection::ParamValues& values) {
  std::string words;
  for (const auto& [name, value] : values)
    words += fmt::format("{}{}={}", words.empty() ? "" : ",", name, value);
  return words;
}

MethodCompareQuestion method_compare_question(const Workspace& workspace) {
  MethodCompareQuestion question;
  question.place = workspace.place();
  question.all_layers = workspace.option(kViewId, "layers") == "all";
  if (workspace.option(kViewId, "cells") == name_of(replay::CellChoice::Own))
    question.cells = replay::CellChoice::Own;
  if (question.place.empty()) return question;
  question.watched = watched_several(question.place);
  question.chunks = number_chunks(workspace);
  if (takes_catalogue(workspace)) {
    question.catalogue = catalogue_values(workspace.method(Slot::A), question.place.info());
    question.methods = more_methods(workspace);
  } else {
    question.methods = methods_at_hand(workspace);
  }
  return question;
}

std::vector<std::string> labels_of(const Answer& answer) {
  std::vector<MethodChoice> methods;
  for (const Row& row : answer.rows) methods.push_back(row.method);
  return distinct_labels(methods);
}

namespace {

std::string warning_of_cells(const MethodCompareQuestion& question, const Answer& answer,
                             trace::Phase phase) {
  std::vector<std::string> differing, nowhere;
  std::int64_t cells = 0, all_cells = 0;
  const std::vector<std::string> labels = labels_of(answer);
  for (std::size_t i = 0; i < answer.rows.size(); ++i) {
    const MethodCompareQuestion::Means& means = answer.rows[i].in(phase);
    if (means.differs) differing.push_back(labels[i]);
    if (means.nowhere) nowhere.push_back(labels[i]);
    cells += means.row.cells;
    all_cells += means.all_cells;
  }
  if (!differing.empty())
    return fmt::format(
        "\u2020 averaged over other cells than most, because everything was kept in other chunks "
        "or "
        "layers, and not comparable with the other rows: {}. Common cells compare.",
        fmt::join(differing, ", "));
  if (question.cells == replay::CellChoice::Own || cells > 0 || all_cells == 0) return "";
  if (nowhere.empty()) return "No cell is common to all these methods: choose their own cells.";
  return fmt::format(
      "No cell is common to all these methods, because {} keeps everything in every cell here. "
      "Choose own cells, or other layers.",
      fmt::join(nowhere, ", "));
}

}  // namespace

std::string warning_of(const MethodCompareQuestion& question, const Answer& answer,
                       trace::Phase phase) {
  std::string text;
  for (const Row& row : answer.rows)
    if (const std::string note = layers_note(question, row); !note.empty())
      text += fmt::format(
          "{}{}. ", capitalised(note),
          question.cells == replay::CellChoice::Common ? "; all rows are of these" : "");
  text += warning_of_cells(question, answer, phase);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

CompareOrder compare_order(const Workspace& workspace) {
  const std::string& name = workspace.option(kViewId, "sort");
  const bool reversed = workspace.option(kViewId, "order") == "reversed";
  for (const CompareColumn& column : compare_columns())
    if (name == column.name) return {&column, column.falling() != reversed};
  fail_check("a column for each choice of the option sort", __FILE__, __LINE__);
}

std::vector<std::size_t> sorted_rows(const Answer& answer, const CompareOrder& order,
                                     trace::Phase phase) {
  const auto rank = [&](const Row& row) {
    if (!row.unavailable.empty()) return 3;
    if (row.pending()) return 2;
    return !order.column->is_method() && !value_of(row, *order.column, phase) ? 1 : 0;
  };
  std::vector<std::size_t> indices(answer.rows.size());
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  std::stable_sort(indices.begin(), indices.end(), [&](std::size_t i, std::size_t j) {
    const Row& a = answer.rows[order.falling ? j : i];
    const Row& b = answer.rows[order.falling ? i : j];
    if (rank(a) != rank(b)) return rank(answer.rows[i]) < rank(answer.rows[j]);
    if (rank(a) != 0) return false;
    if (order.column->is_method()) return a.method.text < b.method.text;
    return *value_of(a, *order.column, phase) < *value_of(b, *order.column, phase);
  });
  return indices;
}

ViewInfo method_compare_view() {
  std::vector<std::string> columns{"mass_recall", "output_error", "effective_budget", "density",
                                   "method"};
  for (const CompareColumn& column : compare_columns())
    if (std::find(columns.begin(), columns.end(), column.name) == columns.end())
      columns.push_back(column.name);
  return ViewInfo{kViewId, "Compare methods",
                  "the methods side by side on the same trace, sorted by what they keep",
                  "Averages"}
      .follow(At::Layer | At::Chunk)
      .take(2, more_methods)
      .take_both()
      .with(
          {{"methods",
            {"runs", "catalogue"},
            "what is compared beside further methods named: recorded runs, methods tried in the "
            "window "
            "and A and B, or every method of the catalogue at the budget of A"},
           {"layers", {"current", "all"}, "the layers averaged over", {"this layer", "all layers"}},
           {"cells",
            {"common", "own"},
            "the cells averaged over: those in which none of the methods is dense (dense itself is "
            "not "
            "asked), or each method's own"},
           {"sort", columns, "the column that the rows are sorted by"},
           {"order",
            {"natural", "reversed"},
            "natural: recalls from high to low, errors and costs from low to high"}})
      .count_chunks()
      .draw(problem_with<method_compare_question>, table);
}

}  // namespace kvloupe::state
