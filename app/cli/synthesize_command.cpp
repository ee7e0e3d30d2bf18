// `kvloupe synthesize`: a trace of planted needle keys, and which of them each method keeps.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/table_json.h"
#include "app/figure/export.h"
#include "capture/engine.h"
#include "capture/run/synthetic.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/engine/engine.h"
#include "core/replay/replay.h"
#include "core/session/session.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

namespace kvloupe::cli {
namespace {

struct Arguments {
  capture::SyntheticOptions options;
  std::string output, figures;
  std::vector<std::string> methods;
  bool json = false;
};

// One method on one question.
struct Answer {
  std::string method, question;
  double needles_kept = 0;  // share of the planted tokens, mean over the rows
  double mass_recall = 0, kept = 0, past = 0;
};

double share_of(const capture::Question& question, const std::vector<std::int32_t>& selected) {
  std::int64_t kept = 0, planted = 0;
  for (const capture::PlantedKey& key : question.keys) {
    const auto first = std::lower_bound(selected.begin(), selected.end(), key.begin);
    kept += std::lower_bound(first, selected.end(), key.end) - first;
    planted += key.end - key.begin;
  }
  return static_cast<double>(kept) / static_cast<double>(planted);
}

Answer ask(const session::TraceSession& session, const selection::MethodSpec& spec,
           const capture::Question& question, std::string name, const WorkContext& context) {
  replay::ReplayRequest request;
  request.spec = spec.resolved(session.shape());
  request.chunks = {question.chunk};
  const replay::ReplayResult result = engine().replay(session, request, context);
  const replay::ReplayCell& cell = result.cells.front();
  Answer answer;
  answer.method = result.method;
  answer.question = std::move(name);
  answer.past = cell.span.begin;
  const auto rows = static_cast<double>(cell.rows.size());
  for (const trace::SelectedRow& row : cell.rows) {
    answer.needles_kept += share_of(question, row.positions) / rows;
    answer.kept += static_cast<double>(row.positions.size()) / rows;
  }
  for (const replay::RowMetrics& metrics : cell.metrics)
    answer.mass_recall += metrics.mass_recall / rows;
  return answer;
}

void export_figures(const Arguments& given, const capture::SyntheticReport& report,
                    const GlobalOptions& global) {
  std::error_code code;
  std::filesystem::create_directories(given.figures, code);
  if (!std::filesystem::is_directory(given.figures, code))
    throw input_error(fmt::format("{} cannot hold the figures", given.figures),
                      "it is no folder and could not be made one", "name another by --figures");
  int number = 0;
  for (const selection::MethodSpec& spec : given.options.methods) {
    ++number;
    for (const auto& [question, name] :
         {std::pair{&report.few, "few"}, std::pair{&report.many, "many"}}) {
      figure::ExportRequest request;
      request.what.trace = given.output;
      request.what.view = "selected_vs_true";
      request.what.methods = {spec.canonical()};
      request.what.place.layer = 0;
      request.what.place.chunk = question->chunk;
      request.file = (std::filesystem::path(given.figures) /
                      fmt::format("selected_vs_true_{}_{}_{}.png", number, spec.id(), name))
                         .string();
      request.memory = global.memory;
      figure::export_view(request);
      log::info("{}", request.file);
    }
  }
}

void print(const std::vector<Answer>& answers, const Arguments& given) {
  table::Table table{{"method",
                      "question",
                      {"needles_kept", "needles", "", 3},
                      replay::Number::MassRecall,
                      {"kept", "kept", "", 0},
                      "past"},
                     {}};
  for (const Answer& answer : answers)
    table.rows.push_back({table::MethodText{answer.method}, answer.question, answer.needles_kept,
                          answer.mass_recall, answer.kept, answer.past});
  if (given.json) {
    nlohmann::ordered_json json;
    json["trace"] = given.output;
    json["rows"] = json_rows(table);
    results::add_data(json_text("kvloupe-synthesize/1", json, 2));
    return;
  }
  results::add_text(table::terminal_text(table));
}

void run(Arguments given, const GlobalOptions& global) {
  if (given.methods.empty()) given.methods = {"quoka", "compact_attention", "oracle"};
  for (const std::string& method : given.methods)
    given.options.methods.push_back(selection::MethodSpec::parse(method));
  given.options.output = given.output;
  const WorkContext context = reporting_context("cells");
  const capture::SyntheticReport report =
      capture_engine().synthesize(given.options, reporting_context("tokens"));
  log::info("{}: {} tokens, {}", given.output, format_count(given.options.length),
            format_bytes(report.bytes));

  std::vector<Answer> answers;
  const session::TraceSession session(given.output, global.memory);
  for (const selection::MethodSpec& spec : given.options.methods) {
    answers.push_back(ask(session, spec, report.few, "few", context));
    answers.push_back(ask(session, spec, report.many, "many", context));
  }
  if (!given.figures.empty()) export_figures(given, report, global);
  print(answers, given);
}

}  // namespace

Command synthesize_command(const GlobalOptions& global) {
  Command command("synthesize",
                  "write a trace of planted needle keys and show which ones each method keeps");
  const auto given = std::make_shared<Arguments>();
  capture::SyntheticOptions& options = given->options;
  command.option("-o,--output", &given->output, "trace to write").required();
  command
      .option("--method", &given->methods,
              "method SPEC, may be repeated (default: quoka, compact_attention, oracle); one that "
              "takes a budget and names none has budget_tokens=1024")
      .listed();
  command.option("--length", &options.length, "tokens")
      .range(std::int64_t{4096}, std::int64_t{1} << 20)
      .show_default();
  command.option("--chunk-size", &options.chunk_size, "tokens of a chunk")
      .range(1, 1 << 16)
      .show_default();
  command.option("--many", &options.many_keys, "needles of the question for many, runs each")
      .range(1, 1 << 10)
      .show_default();
  command.option("--run", &options.run_length, "tokens of such a needle")
      .range(1, 1 << 10)
      .show_default();
  command.option("--few", &options.few_keys, "needles of the other question, one token each")
      .range(1, 1 << 10)
      .show_default();
  command.option("--seed", &options.seed, "of all that is drawn").show_default();
  command.option("--figures", &given->figures,
                 "folder for a picture of selected_vs_true of each method and question");
  command.option("--force", &options.force, "overwrite the trace");
  command.option("--json", &given->json, "print JSON");
  command.footer =
      "Keys lie in clusters. Two chunks at the end ask for planted ones: first few, single "
      "tokens,\n"
      "then many, runs of tokens. 'needles' is the share of the planted tokens that a method "
      "keeps.";
  command.run = with_engine(global, [given, &global] { run(*given, global); });
  return command;
}

}  // namespace kvloupe::cli
