// `kvloupe compare`: several methods on one trace, averaged.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "app/cli/text_table.h"
#include "capture/calibrate.h"
#include "app/shell/atomic_file.h"
#include "core/analysis/compare.h"
#include "core/base/cancel.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

namespace kvloupe::cli {
namespace {

using analysis::CompareRow;
using nlohmann::ordered_json;

struct CompareArguments {
  std::string trace;
  std::vector<std::string> methods;
  std::string layers;
  std::string csv;
  std::optional<int> chunk_size;
  bool json = false;
};

using Number = std::optional<double> CompareRow::*;
constexpr std::array<std::pair<const char*, Number>, 6> kNumbers = {{
    {"requested_budget", &CompareRow::requested_budget},
    {"effective_budget", &CompareRow::effective_budget},
    {"mass_recall", &CompareRow::mass_recall},
    {"topk_overlap", &CompareRow::topk_overlap},
    {"output_error", &CompareRow::output_error},
    {"density", &CompareRow::density},
}};

bool is_shown(const std::optional<double>& number) { return number && std::isfinite(*number); }

std::string json_text(const std::vector<CompareRow>& rows, std::optional<int> chunk_size) {
  ordered_json json{{"chunk_size", nullptr}, {"rows", ordered_json::array()}};
  if (chunk_size) json["chunk_size"] = *chunk_size;
  for (const CompareRow& row : rows) {
    ordered_json entry{{"method", row.method}, {"phase", row.phase},
                       {"scope", row.scope},   {"index", row.index},
                       {"cells", row.cells},   {"fallback_cells", row.fallback_cells}};
    for (const auto& [name, member] : kNumbers) {
      const auto& number = row.*member;
      entry[name] = is_shown(number) ? ordered_json(*number) : ordered_json(nullptr);
    }
    json["rows"].push_back(std::move(entry));
  }
  return json.dump() + "\n";
}

std::string csv_text(const std::vector<CompareRow>& rows) {
  std::string text = "method,phase,scope,index,cells,fallback_cells";
  for (const auto& [name, member] : kNumbers) text += fmt::format(",{}", name);
  text += "\n";
  for (const CompareRow& row : rows) {
    // A SPEC holds commas but never a quote in a method of the catalogue; a path may.
    std::string method;
    for (const char c : row.method) method += c == '"' ? std::string("\"\"") : std::string(1, c);
    text += fmt::format("\"{}\",{},{},{},{},{}", method, row.phase, row.scope, row.index, row.cells,
                        row.fallback_cells);
    for (const auto& [name, member] : kNumbers) {
      const auto& number = row.*member;
      text += "," + (is_shown(number) ? format_shortest(*number) : std::string());
    }
    text += "\n";
  }
  return text;
}

std::string table_text(const std::vector<CompareRow>& rows) {
  TextTable table({"method", "phase", "cells", "fallback", "budget", "kept", "recall", "overlap",
                   "error", "density"});
  for (const CompareRow& row : rows) {
    if (row.scope != "all") continue;
    std::vector<std::string> line = {row.method, row.phase, fmt::format("{}", row.cells),
                                     fmt::format("{}", row.fallback_cells)};
    for (const auto& [name, member] : kNumbers) {
      const auto& number = row.*member;
      const bool budget =
          member == &CompareRow::requested_budget || member == &CompareRow::effective_budget;
      line.push_back(!is_shown(number) ? std::string("-")
                     : budget          ? fmt::format("{:.1f}", *number)
                                       : fmt::format("{:.4f}", *number));
    }
    table.add(std::move(line));
  }
  return table.text();
}

void run_compare(const CompareArguments& arguments, const GlobalOptions& global) {
  std::vector<selection::MethodSpec> specs;
  for (const std::string& method : arguments.methods)
    specs.push_back(selection::MethodSpec::parse(method));
  analysis::ReplayRequest request;
  if (!arguments.layers.empty()) request.layers = parse_index_range("--layers", arguments.layers);
  request.chunk_size = arguments.chunk_size;
  request.want_output_error = true;
  const analysis::TraceSession session(arguments.trace, global.memory_limit);
  report_damage(session.info());
  WorkContext context;
  context.cancel = interrupt_token();
  std::vector<CompareRow> rows;
  for (const selection::MethodSpec& spec : specs) {
    request.spec = spec.resolved(session.shape());
    capture::ensure_basis(request.spec, session.info().model, context);
    const auto part = analysis::summarise(analysis::replay(session, request, context), session);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  const std::string text =
      arguments.json ? json_text(rows, arguments.chunk_size) : table_text(rows);
  if (!arguments.csv.empty()) shell::write_file_atomically(arguments.csv, csv_text(rows));
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace

void add_compare_command(CLI::App& program, const GlobalOptions& global) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = program.add_subcommand("compare", "averages of several methods on one trace");
  command->add_option("trace", arguments->trace, "trace file")->required();
  command->add_option("--method", arguments->methods, "method SPEC; may be repeated")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--layers", arguments->layers, "a layer or a range such as 3-5");
  command->add_option("--csv", arguments->csv, "also write the rows to this file");
  command->add_option("--chunk-size", arguments->chunk_size, "cut the prompt into chunks anew")
      ->check(CLI::Range(1, 1 << 24));
  command->add_flag("--json", arguments->json, "as JSON, with every scope");
  command->callback([arguments, &global] { run_compare(*arguments, global); });
}

}  // namespace kvloupe::cli
