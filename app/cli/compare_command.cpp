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

// After all others; empty for methods that do not choose blocks.
constexpr std::array<std::pair<const char*, Number>, 5> kBlockNumbers = {{
    {"native_density", &CompareRow::native_density},
    {"native_density_causal", &CompareRow::native_density_causal},
    {"native_density_rectangle", &CompareRow::native_density_rectangle},
    {"density_causal", &CompareRow::density_causal},
    {"density_rectangle", &CompareRow::density_rectangle},
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

std::string answer_json(const Comparison& comparison, std::optional<int> chunk_size) {
  ordered_json json{{"chunk_size", nullptr},
                    {"rows", ordered_json::array()},
                    {"unavailable", ordered_json::array()}};
  if (chunk_size) json["chunk_size"] = *chunk_size;
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
    for (const auto& [name, member] : kBlockNumbers) entry[name] = json_of(row.*member);
    json["rows"].push_back(std::move(entry));
  }
  return json_text(json);
}

std::string csv_text(const std::vector<CompareRow>& rows) {
  std::string text = "method,phase,scope,index,cells,fallback_cells";
  for (const auto& [name, member] : kNumbers) text += fmt::format(",{}", name);
  text += ",leakage";
  for (const auto& [name, member] : kBlockNumbers) text += fmt::format(",{}", name);
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
    for (const auto& [name, member] : kBlockNumbers) text += "," + csv_of(row.*member);
    text += '\n';
  }
  return text;
}

// One line for each method with a basis, and for each that is missing.
std::string notes_text(const Comparison& comparison) {
  std::string text;
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

std::string table_text(const std::vector<CompareRow>& rows) {
  const bool blocks = std::any_of(rows.begin(), rows.end(),
                                  [](const CompareRow& row) { return row.native_density; });
  std::vector<std::string> header = {"method", "phase",    "cells",   "fallback", "budget",
                                     "kept",   "recall",   "overlap", "error",    "density",
                                     "forced", "KV bytes", "leakage"};
  if (blocks)
    header.insert(header.end(), {"native density", "native of causal", "native of rectangle",
                                 "density of causal", "density of rectangle"});
  TextTable table(header);
  for (const CompareRow& row : rows) {
    if (row.scope != "all") continue;
    std::vector<std::string> line = {row.method, row.phase, fmt::format("{}", row.cells),
                                     fmt::format("{}", row.fallback_cells)};
    for (const auto& [name, member] : kNumbers) {
      const auto& number = row.*member;
      // Shares and errors need the digits, counts do not.
      const bool share = member == &CompareRow::mass_recall ||
                         member == &CompareRow::topk_overlap ||
                         member == &CompareRow::output_error || member == &CompareRow::density;
      line.push_back(!is_shown(number) ? std::string("-")
                     : share           ? fmt::format("{:.4f}", *number)
                                       : fmt::format("{:.1f}", *number));
    }
    line.push_back(leakage_of(row) != 0 ? "yes" : "");
    for (const auto& [name, member] : kBlockNumbers)
      if (blocks)
        line.push_back(is_shown(row.*member) ? fmt::format("{:.4f}", *(row.*member)) : "-");
    table.add(std::move(line));
  }
  return table.text();
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
  std::vector<selection::MethodSpec> specs;
  std::vector<replay::UnavailableMethod> unavailable;
  for (const std::string& method : arguments.methods) {
    replay::MethodList list = replay::parse_methods(method);
    std::move(list.specs.begin(), list.specs.end(), std::back_inserter(specs));
    std::move(list.unavailable.begin(), list.unavailable.end(), std::back_inserter(unavailable));
  }
  if (!arguments.csv.empty()) check_csv_file(arguments, specs);
  replay::ReplayRequest request;
  if (!arguments.layers.empty()) request.layers = parse_index_range("--layers", arguments.layers);
  request.chunk_size = arguments.chunk_size;
  request.want_output_error = true;
  const session::TraceSession session(arguments.trace, global.memory);
  report_damage(session.info());
  for (const selection::MethodSpec& spec : specs)
    capture::ensure_basis(spec, session.info().model, reporting_context("tokens"));
  Comparison comparison =
      replay::compare_methods(session, specs, request, reporting_context("cells"));
  std::move(unavailable.begin(), unavailable.end(), std::back_inserter(comparison.unavailable));
  for (const replay::UnavailableMethod& entry : comparison.unavailable)
    log::warning("{} is left out: {}", entry.method, entry.error.what());
  if (!arguments.csv.empty()) write_whole_file(arguments.csv, csv_text(comparison.rows));
  if (arguments.json)
    results::add_data(answer_json(comparison, arguments.chunk_size));
  else if (arguments.csv != "-")
    results::add_text(table_text(comparison.rows) + notes_text(comparison));
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
  command->add_flag("--json", arguments->json, "as JSON, with every scope");
  command->add_flag("--force", arguments->force, "let the CSV replace a trace or a model, too");
  command->callback([arguments, &global] {
    use_engine(global);
    run_compare(*arguments, global);
  });
}

}  // namespace kvloupe::cli
