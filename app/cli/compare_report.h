// What `kvloupe compare` found, and how it is written.
#pragma once

#include "core/replay/compare.h"
#include "core/replay/table.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

// Of one trace.
struct ComparedTrace {
  std::string path;
  std::string title;  // of the file, as short as tells it from the others
  replay::Comparison comparison;
  // What is counted there, in words: "the chunks 12 to 15"; empty: all chunks.
  std::string chunks;
  // Chunks whose queries are stored; none: all are.
  std::optional<std::vector<int>> query_chunks;
  // Whose keys span_kept is of, and from which chunk on.
  std::optional<trace::TokenSpan> span;
  int span_from_chunk = 0;
  bool span_from_question = false;  // because nothing else was asked for
  // Recorded runs, by number, whose model attended only to what they selected.
  std::vector<int> closed_loop;
};

struct CompareReport {
  std::vector<ComparedTrace> traces;
  std::string cells, weights;  // as asked for
  std::string layers;          // in words: "layers 1,3"; empty: all
  std::optional<int> chunk_size;
  std::vector<std::string> axes;  // names of what is swept
  bool has_target = false;
  // One a row's method_idx, for people: what differs from the method's defaults.
  std::vector<std::string> short_names;
  std::vector<std::string> columns;  // of the table, as asked for; empty: those that matter most
  bool full = false;                 // whole SPECs in the table

  bool has_several() const { return traces.size() > 1; }
  bool has_runs() const;  // recorded ones among the rows
};

// A row, and where it is of.
struct ReportedRow {
  const replay::CompareRow& row;
  const ComparedTrace& trace;
};
// Of one method after the other, each on all traces.
std::vector<ReportedRow> rows_of(const CompareReport& report);
// What a row's method is called in the table.
std::string title_of(const replay::CompareRow& row, const CompareReport& report);
// What differs from the defaults in a SPEC; any other text as it stands.
std::string short_text(const std::string& method);

// Whether it is of a run that was recorded in closed loop.
bool is_closed_loop(const replay::CompareRow& row, const ComparedTrace& trace);

// What a cell counts for by --weights queries.
inline constexpr const char* kByQueries = "each as often as its chunk has queries";
// Whose keys span_kept is of: "span kept: of needle (tokens 3 to 8)"; empty where none are watched.
std::string span_text(const ComparedTrace& trace);

// Unknown where it is not finite.
table::Cell known(const replay::CompareRow& row, replay::Number number);
// In the order of CSV columns and of the table: of each axis its value, then where a target is set
// what is enough.
std::vector<std::string> axis_titles(const CompareReport& report);
std::vector<table::Cell> axis_cells(const replay::CompareRow& row, const CompareReport& report);

std::string compare_json(const CompareReport& report);
std::string compare_csv(const CompareReport& report, table::CsvHead head);

// For people (compare_report_text.cpp): what was averaged, then a table a phase.
std::string compare_text(const CompareReport& report);
// The same as tables alone, a phase after the other.
std::string compare_text_as(const CompareReport& report,
                            const std::function<std::string(const table::Table&)>& format);
// Throws Error{Usage} for what is no column of the table. "all" is every one.
void check_columns(const std::vector<std::string>& columns);

}  // namespace kvloupe::cli
