// `kvloupe compare`: several methods on one trace, averaged.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/text_table.h"
#include "capture/run/calibrate.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/base/whole_file.h"
#include "core/replay/compare.h"
#include "core/selection/method_files.h"
#include "core/trace/part_file.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <memory>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::CompareRow;
using replay::Comparison;

struct CompareArguments {
  std::string trace;
  std::vector<std::string> methods;
  std::string layers;
  std::string csv;
  std::optional<int> chunk_size;
  std::string cells = "own";
  std::string weights = "cells";
  std::string span;
  bool json = false;
  bool force = false;
};

using Number = std::optional<double> CompareRow::*;
constexpr std::array<std::pair<const char*, Number>, 8> kNumbers = {{
    {"requested_budget", &CompareRow::requested_budget},
    {"effective_budget", &CompareRow::effective_budget},
    {"mass_recall", &CompareRow::mass_recall},
    {"topk_overlap", &CompareRow::topk_overlap},
    {"output_error", &CompareRow::output_error},
    {"density", &CompareRow::density},
    {"forced", &CompareRow::forced},
    {"kv_bytes", &CompareRow::kv_bytes},
}};

// After the leakage; the first five are empty for methods that do not choose blocks.
constexpr std::array<std::pair<const char*, Number>, 7> kLastNumbers = {{
    {"native_density", &CompareRow::native_density},
    {"native_density_causal", &CompareRow::native_density_causal},
    {"native_density_rectangle", &CompareRow::native_density_rectangle},
    {"density_causal", &CompareRow::density_causal},
    {"density_rectangle", &CompareRow::density_rectangle},
    {"gap", &CompareRow::gap},
    {"span_kept", &CompareRow::span_kept},
}};

bool is_shown(const std::optional<double>& number) { return number && std::isfinite(*number); }

ordered_json json_of(const std::optional<double>& number) {
  return is_shown(number) ? ordered_json(*number) : ordered_json(nullptr);
}
std::string csv_of(const std::optional<double>& number) {
  return is_shown(number) ? format_shortest(*number) : std::string();
}

// Whether the method's basis was fitted on text of the trace: its figures flatter it then.
int leakage_of(const CompareRow& row) { return row.basis && row.basis->leakage ? 1 : 0; }

std::string answer_json(const Comparison& comparison, const CompareArguments& arguments) {
  ordered_json json{{"chunk_size", nullptr},
                    {"cells", arguments.cells},
                    {"weights", arguments.weights},
                    {"rows", ordered_json::array()},
                    {"unavailable", ordered_json::array()}};
  if (arguments.chunk_size) json["chunk_size"] = *arguments.chunk_size;
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    json["unavailable"].push_back({{"method", entry.method}, {"reason", entry.error.what()}});
  for (const CompareRow& row : comparison.rows) {
    ordered_json entry{{"method", row.method}, {"phase", row.phase},
                       {"scope", row.scope},   {"index", row.index},
                       {"cells", row.cells},   {"fallback_cells", row.fallback_cells}};
    for (const auto& [name, member] : kNumbers) {
      entry[name] = json_of(row.*member);
    }
    entry["leakage"] = leakage_of(row);
    for (const auto& [name, member] : kLastNumbers) entry[name] = json_of(row.*member);
    json["rows"].push_back(std::move(entry));
  }
  return json_text(json);
}

std::string csv_text(const std::vector<CompareRow>& rows) {
  std::string text = "method,phase,scope,index,cells,fallback_cells";
  for (const auto& [name, member] : kNumbers) text += fmt::format(",{}", name);
  text += ",leakage";
  for (const auto& [name, member] : kLastNumbers) text += fmt::format(",{}", name);
  text += '\n';
  for (const CompareRow& row : rows) {
    // A SPEC holds commas but never a quote in a method of the catalogue; a path may.
    std::string method;
    for (const char c : row.method) method += c == '"' ? std::string("\"\"") : std::string(1, c);
    text += fmt::format("\"{}\",{},{},{},{},{}", method, row.phase, row.scope, row.index, row.cells,
                        row.fallback_cells);
    for (const auto& [name, member] : kNumbers) {
      text += "," + csv_of(row.*member);
    }
    text += fmt::format(",{}", leakage_of(row));
    for (const auto& [name, member] : kLastNumbers) text += "," + csv_of(row.*member);
    text += '\n';
  }
  return text;
}

// Over what was averaged, one line for each method with a basis, and for each that is missing.
std::string notes_text(const Comparison& comparison, const CompareArguments& arguments) {
  std::string text =
      fmt::format("means over {}{}\n",
                  arguments.cells == "common" ? "the cells where none of the methods is dense"
                                              : "the cells where the method is not dense itself",
                  arguments.weights == "queries" ? ", each as often as its chunk has queries" : "");
  for (const CompareRow& row : comparison.rows) {
    if (row.scope != "all" || row.phase != "prefill" || !row.basis) continue;
    text += fmt::format("{}: basis fitted on {}, {} tokens{}\n", printable(row.method),
                        printable(row.basis->source), row.basis->num_tokens,
                        row.basis->leakage ? "; leakage: this trace holds that text" : "");
  }
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    text += fmt::format("{} is not available: {}\n", printable(entry.method), entry.error.what());
  return text;
}

// A column of the table for people; a share or an error needs digits, a count does not.
struct Column {
  const char* title;
  Number number;
  int digits;
  bool only_where_known = false;  // left out where no method has it
};
constexpr std::array kColumns = {
    Column{"budget", &CompareRow::requested_budget, 1},
    Column{"kept", &CompareRow::effective_budget, 1},
    Column{"recall", &CompareRow::mass_recall, 4},
    Column{"gap", &CompareRow::gap, 4},
    Column{"overlap", &CompareRow::topk_overlap, 4},
    Column{"error", &CompareRow::output_error, 4},
    Column{"density", &CompareRow::density, 4},
    Column{"span kept", &CompareRow::span_kept, 4, true},
    Column{"forced", &CompareRow::forced, 1},
    Column{"KV bytes", &CompareRow::kv_bytes, 1},
    Column{"native density", &CompareRow::native_density, 4, true},
    Column{"native of causal", &CompareRow::native_density_causal, 4, true},
    Column{"native of rectangle", &CompareRow::native_density_rectangle, 4, true},
    Column{"density of causal", &CompareRow::density_causal, 4, true},
    Column{"density of rectangle", &CompareRow::density_rectangle, 4, true},
};

std::string table_text(const std::vector<CompareRow>& rows) {
  std::vector<Column> columns;
  for (const Column& column : kColumns)
    if (!column.only_where_known ||
        std::any_of(rows.begin(), rows.end(),
                    [&](const CompareRow& row) { return is_shown(row.*column.number); }))
      columns.push_back(column);
  std::vector<std::string> header = {"method", "phase", "cells", "fallback"};
  for (const Column& column : columns) header.emplace_back(column.title);
  header.emplace_back("leakage");
  TextTable table(header);
  for (const CompareRow& row : rows) {
    if (row.scope != "all") continue;
    std::vector<std::string> line = {row.method, row.phase, fmt::format("{}", row.cells),
                                     fmt::format("{}", row.fallback_cells)};
    for (const Column& column : columns) {
      const auto& number = row.*column.number;
      line.push_back(is_shown(number) ? fmt::format("{:.{}f}", *number, column.digits) : "-");
    }
    line.emplace_back(leakage_of(row) != 0 ? "yes" : "");
    table.add(line);
  }
  return table.text();
}

// "needle", or "1536-1551", both ends in.
std::optional<std::pair<std::int32_t, std::int32_t>> span_of(const std::string& text,
                                                             const trace::TraceInfo& info) {
  if (text.empty()) return std::nullopt;
  std::string names;
  for (const trace::TokenSpan& span : info.spans) {
    if (span.name == text) return std::pair(span.begin, span.end);
    names += (names.empty() ? "" : ", ") + printable(span.name);
  }
  const auto dash = text.find('-');
  const auto first = parse_int(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_int(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= info.num_tokens)
    throw input_error(fmt::format("--span {} names no tokens of the trace", printable(text)),
                      fmt::format("it has {} tokens and {}", format_count(info.num_tokens),
                                  names.empty() ? "no spans" : "the spans " + names),
                      "give the name of a span, or positions such as 1536-1551");
  return std::pair(static_cast<std::int32_t>(*first), static_cast<std::int32_t>(*last + 1));
}

void say_other_cells(const Comparison& comparison, std::size_t methods) {
  if (comparison.on_other_cells.empty()) return;
  std::string names;
  for (const std::string& method : comparison.on_other_cells)
    names += (names.empty() ? "" : ", ") + printable(method);
  log::warning(
      "{} of {} methods are averaged over other cells than the rest, and their rows do not compare "
      "with the rest: {}; --cells common averages all over the same cells",
      comparison.on_other_cells.size(), methods, names);
}

// Before anything is computed.
void check_csv_file(const CompareArguments& arguments,
                    const std::vector<selection::MethodSpec>& specs) {
  if (arguments.csv == "-" && arguments.json)
    throw usage_error("--csv - cannot be combined with --json",
                      "standard output has room for one of them",
                      "name a file for the CSV, or leave --json out");
  InputFiles inputs = trace::files_of_trace(arguments.trace);
  for (const selection::MethodSpec& spec : specs)
    for (const std::filesystem::path& file : selection::files_of(spec)) inputs.push_back(file);
  check_result_file(arguments.csv, inputs, arguments.force);
}

void run_compare(const CompareArguments& arguments, const GlobalOptions& global) {
  auto [specs, unavailable] = replay::parse_methods(arguments.methods);
  if (!arguments.csv.empty()) check_csv_file(arguments, specs);
  replay::ReplayRequest request;
  if (!arguments.layers.empty()) request.layers = parse_index_range("--layers", arguments.layers);
  request.chunk_size = arguments.chunk_size;
  request.want_output_error = true;
  const session::TraceSession session(arguments.trace, global.memory);
  report_damage(session.info());
  for (const selection::MethodSpec& spec : specs)
    capture::ensure_basis(spec, session.info().model, reporting_context("tokens"));
  replay::CompareOptions options;
  if (arguments.cells == "common") options.cells = replay::CellChoice::Common;
  if (arguments.weights == "queries") options.weights = replay::Weights::Queries;
  options.span = span_of(arguments.span, session.info());
  Comparison comparison =
      replay::compare_methods(session, specs, request, options, reporting_context("cells"));
  say_other_cells(comparison, specs.size());
  std::move(unavailable.begin(), unavailable.end(), std::back_inserter(comparison.unavailable));
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    log::warning("{} is left out: {}", entry.method, entry.error.what());
  if (!arguments.csv.empty()) write_whole_file(arguments.csv, csv_text(comparison.rows));
  if (arguments.json)
    results::add_data(answer_json(comparison, arguments));
  else if (arguments.csv != "-")
    results::add_text(table_text(comparison.rows) + notes_text(comparison, arguments));
}

}  // namespace

void add_compare_command(CLI::App& program, const GlobalOptions& global) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = program.add_subcommand("compare", "averages of several methods on one trace");
  command->add_option("trace", arguments->trace, "trace file")->required();
  command
      ->add_option("--method", arguments->methods,
                   "method SPEC, or all, or all:name=value,...; may be repeated")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--layers", arguments->layers, "a layer or a range such as 3-5");
  command->add_option("--csv", arguments->csv, "also write the rows to this file, or alone to -");
  command->add_option("--chunk-size", arguments->chunk_size, "cut the prompt into chunks anew")
      ->check(CLI::Range(1, 1 << 24));
  command
      ->add_option("--cells", arguments->cells,
                   "average each method where it is not dense itself (own), or all where none of "
                   "them is (common)")
      ->check(CLI::IsMember({"own", "common"}));
  command
      ->add_option("--weights", arguments->weights,
                   "each cell counts one (cells), or as many as its chunk has queries (queries)")
      ->check(CLI::IsMember({"cells", "queries"}));
  command->add_option("--span", arguments->span,
                      "a span of the trace or positions A-B: the share of its keys that is kept");
  command->add_flag("--json", arguments->json, "as JSON, with every scope");
  command->add_flag("--force", arguments->force, "let the CSV replace a trace or a model, too");
  command->callback([arguments, &global] {
    use_engine(global);
    run_compare(*arguments, global);
  });
}

}  // namespace kvloupe::cli
