// The view method_compare: the table of `kvloupe compare`, one row a method.
#pragma once

#include "app/state/questions/run.h"
#include "core/analysis/method_averages.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// One method in one layer or in all.
struct MethodAveragesQuestion {
  static constexpr const char* kName = "method averages";
  static constexpr Pace kPace = Pace::Patient;
  Place place;  // trace; layer, unless all count
  MethodChoice method;
  bool all_layers = false;
  using Answer = analysis::MethodAverages;

  std::string key() const;
  std::string title() const;
  std::string obstacle() const { return RunQuestion{place, method}.obstacle(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Several, shown as they are measured. Throws the error of the first where none can be.
struct MethodCompareQuestion {
  static constexpr const char* kName = "method compare";
  static constexpr Pace kPace = Pace::Patient;
  Place place;            // trace; layer, unless all count
  std::string catalogue;  // "all:budget_tokens=256": every method, selected anew; empty: none
  std::vector<MethodChoice> methods;  // and these
  bool all_layers = false;

  struct Row {
    MethodChoice method;
    trace::LoopMode mode = trace::LoopMode::OpenLoop;  // how the selection was made
    std::shared_ptr<const analysis::MethodAverages>
        averages;             // null: not measured yet, or not here
    std::string unavailable;  // why this trace cannot serve the method; empty: it can
    // [Prefill, Decode]: averaged over other cells than most of the methods.
    std::array<bool, 2> differs{};

    bool pending() const { return averages == nullptr && unavailable.empty(); }
    bool differs_in(trace::Phase phase) const { return differs[phase == trace::Phase::Decode]; }
    // Its basis was fitted on text of the trace.
    bool leaks(const trace::TraceInfo& info) const;
  };
  struct Answer {
    std::vector<Row> rows;  // in the order of the list
  };

  std::string key() const;
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

struct CompareColumn {
  const char* name;  // in tables, and for the option `sort`
  const char* title;
  const char* meaning;
  std::optional<double> (*value)(const replay::CompareRow& row);  // null: the method itself
  bool falling;                                                   // highest first, else lowest
};
// The method first, then what it is worth, then what it costs, then over how many cells.
const std::vector<CompareColumn>& compare_columns();
// Empty where it is not known, or not finite.
std::optional<double> value_of(const MethodCompareQuestion::Row& row, const CompareColumn& column,
                               trace::Phase phase);
// "averaged over 270 of 990 cells, unlike most methods"; of a row that is measured.
std::string words_of_cells(const MethodCompareQuestion::Row& row, trace::Phase phase);

// What the view's options choose.
struct CompareOrder {
  const CompareColumn* column;
  bool falling;
};
class Workspace;
MethodCompareQuestion method_compare_question(const Workspace& workspace);
CompareOrder compare_order(const Workspace& workspace);
// Indices of rows; rows without a value come last, then those not measured, then those unavailable.
std::vector<std::size_t> sorted_rows(const MethodCompareQuestion::Answer& answer,
                                     const CompareOrder& order, trace::Phase phase);

}  // namespace kvloupe::state
