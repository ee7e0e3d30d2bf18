// The view method_compare: the table of `kvloupe compare`, one row a method.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/questions/how_it_ran/run.h"
#include "core/analysis/method_averages.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// One method in one layer or in all.
struct MethodAveragesQuestion : OfMethod<At::Trace> {
  static constexpr const char* kName = "method averages";
  bool all_layers = false;
  std::optional<trace::NamedKeys> watched = {};  // whose share of keys kept is averaged
  NumberChunks chunks = {};
  using Answer = analysis::MethodAverages;

  std::string key() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Several, shown as they are measured. Throws the error of the first where none can be.
struct MethodCompareQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "method compare";
  static constexpr Pace kPace = Pace::Patient;
  selection::ParamValues catalogue;   // of every method, selected anew; empty: none
  std::vector<MethodChoice> methods;  // and these
  bool all_layers = false;
  replay::CellChoice cells = replay::CellChoice::Common;
  std::optional<trace::NamedKeys> watched = {};
  NumberChunks chunks = {};

  // Of the place's chunk, unless the chunks are all of one phase.
  trace::Phase phase() const { return chunks.phase(place.info(), place.chunk_info().phase); }

  // Of one phase.
  struct Means {
    replay::CompareRow row;      // over the cells chosen
    std::int64_t all_cells = 0;  // rows of all chunks and layers, averaged or dense
    bool differs = false;        // averaged over other cells than most of the methods
    bool nowhere = false;        // asked for common cells and dense in every one
  };
  struct Row {
    MethodChoice method;
    trace::LoopMode mode = trace::LoopMode::OpenLoop;  // how the selection was made
    std::shared_ptr<const analysis::MethodAverages>
        averages;                  // null: not measured yet, or not here
    std::string unavailable;       // why this trace cannot serve the method; empty: it can
    std::array<Means, 2> means{};  // [Prefill, Decode], once measured

    bool pending() const { return averages == nullptr && unavailable.empty(); }
    const Means& in(trace::Phase phase) const { return means[phase == trace::Phase::Decode]; }
    // Its basis was fitted on text of the trace.
    bool leaks(const trace::TraceInfo& info) const;
  };
  struct Answer {
    std::vector<Row> rows;  // in the order of the list
  };

  std::string key() const;
  std::string title() const;
  std::string obstacle() const;
  // A row of the catalogue is selected anew, and the same as a recorded run of its SPEC.
  bool is_row_of(const MethodChoice& shown, const Row& row) const {
    return catalogue.empty() ? shown == row.method : shown.text == row.method.text;
  }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// A number of the rows, or what no number is.
struct CompareColumn {
  const char* name;  // in tables, and for the option `sort`
  const char* title;
  const char* meaning;
  const replay::NumberInfo* number;                   // null: none
  std::int64_t replay::CompareRow::*count = nullptr;  // of cells; null: none

  bool is_method() const { return number == nullptr && count == nullptr; }
  bool is_cells() const { return count == &replay::CompareRow::cells; }
  // What a bar shows at a glance: shares that are better the higher, and the error.
  bool has_bar() const {
    return number != nullptr && (number->unit == replay::Unit::Relative ||
                                 (number->is_share() && number->higher_is_better()));
  }
  bool falling() const;  // highest first by nature, else lowest
};
// The method first, then what it is worth, then what it costs, then over how many cells.
const std::vector<CompareColumn>& compare_columns();
// Empty where it is not known, or not finite.
std::optional<double> value_of(const MethodCompareQuestion::Row& row, const CompareColumn& column,
                               trace::Phase phase);
// "averaged over 270 of 990 cells, unlike most methods"; of a row that is measured.
std::string words_of_cells(const MethodCompareQuestion::Row& row, trace::Phase phase);
// What its rows are called, each otherwise.
std::vector<std::string> labels_of(const MethodCompareQuestion::Answer& answer);
// Why the means of an answer do not compare, or are of fewer layers or of no cell, naming the methods; empty: nothing is
// to be said.
std::string warning_of(const MethodCompareQuestion& question,
                       const MethodCompareQuestion::Answer& answer, trace::Phase phase);

// "Of 7 methods quoka 256 keeps the most of needle (83 %); by mass recall it is third." of what is watched, by the names of
// the rows. Empty where nothing is watched or two keep as much.
std::string finding_of(const MethodCompareQuestion& question,
                       const MethodCompareQuestion::Answer& answer,
                       const std::vector<std::string>& names);

// What the view's options choose.
struct CompareOrder {
  const CompareColumn* column;
  bool falling;
};
class Workspace;
// "budget_tokens=256,budget_scope=all".
std::string words_of(const selection::ParamValues& values);
MethodCompareQuestion method_compare_question(const Workspace& workspace);
CompareOrder compare_order(const Workspace& workspace);
// Indices of rows; rows without a value come last, then those not measured, then those unavailable.
std::vector<std::size_t> sorted_rows(const MethodCompareQuestion::Answer& answer,
                                     const CompareOrder& order, trace::Phase phase);

}  // namespace kvloupe::state
