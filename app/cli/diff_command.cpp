// `kvloupe diff`: where two selections keep different keys.
#include "app/cli/commands.h"
#include "app/cli/diff_text.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/table_json.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/base/whole_file.h"
#include "core/device/default_device.h"
#include "core/engine/engine.h"
#include "core/replay/diff.h"
#include "core/replay/table.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <memory>
#include <tuple>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::Diff;
using replay::DiffRow;
using replay::DiffSide;
using table::Table;

struct DiffArguments {
  std::vector<std::string> traces;
  std::vector<std::string> methods;
  Indices layers, chunks;
  std::optional<int> chunk_size;
  std::string device = device::kDefault;
  std::string span;
  std::string csv;
  bool json = false;
  bool force = false;
};

// One for A and one for B.
std::vector<replay::MethodName> methods_of(const DiffArguments& arguments) {
  std::vector<replay::MethodName> names(arguments.methods.begin(), arguments.methods.end());
  if (names.size() > 2)
    throw usage_error(fmt::format("{} methods cannot be compared at once", names.size()),
                      "diff takes A and B", "give --method once or twice, or use kvloupe compare");
  if (names.size() == 1 && arguments.traces.size() == 1)
    throw usage_error("there is nothing to compare", "one method on one trace is one selection",
                      "give --method a second time, or a second trace");
  for (const replay::MethodName& name : names)
    if (name.spec && name.spec->traits().keeps_every_key())
      throw usage_error(fmt::format("{} cannot be compared by its keys", name.spec->id()),
                        "it prunes lanes and keeps every key",
                        "name a method that chooses among keys");
  if (names.size() == 1) names.push_back(names.front());
  return names;
}

void check_files(const DiffArguments& arguments, const std::vector<replay::MethodName>& methods) {
  if (arguments.csv.empty()) return;
  if (arguments.csv == "-" && arguments.json)
    throw usage_error("--csv - cannot be combined with --json",
                      "standard output has room for one of them",
                      "name a file for one of them, or leave it out");
  const InputFiles inputs = files_read(arguments.traces, methods);
  check_ending("--csv", arguments.csv, {"--csv"});
  check_result_file(arguments.csv, inputs, arguments.force);
}

DiffSide side_of(const session::TraceSession& session, const replay::MethodName& method,
                 const DiffArguments& arguments) {
  DiffSide side{session, replay::choice_of(method, session.info())};
  if (const auto span = span_of("--span", arguments.span, session.info()))
    side.watched = trace::KeySet{span->begin, span->end};
  return side;
}

void note_other_model(const trace::ModelInfo& a, const trace::ModelInfo& b) {
  if (a.kv_heads != b.kv_heads)
    log::warning(
        "the recordings have other KV heads of the model: equal numbers are not the same head");
  if (trace::same_model(a, b)) return;
  log::warning("the traces are of two model files, of {} and {}; tokens are matched by their text",
               printable(a.name), printable(b.name));
}

ordered_json json_of(const DiffSide& side, const std::string& path) {
  const trace::RunInfo* const run = side.method.run_info(side.session.info());
  ordered_json json{{"path", path}, {"method", side.method.text}, {"mode", "open_loop"}};
  if (run == nullptr) return json;
  json["mode"] = std::string(trace::to_text(run->mode));
  json["run"] = side.method.run;
  return json;
}

std::string diff_json(const Diff& diff, const DiffSide& a, const DiffSide& b,
                      const DiffArguments& arguments) {
  ordered_json json{{"a", json_of(a, arguments.traces.front())},
                    {"b", json_of(b, arguments.traces.back())},
                    {"aligned_tokens", diff.aligned_tokens},
                    {"rows", json_rows(replay::diff_table(diff, replay::pointers_to(diff.rows),
                                                          !arguments.span.empty()))},
                    {"first_divergence", nullptr}};
  if (const DiffRow* first = diff.first_divergence()) {
    json["first_divergence"] =
        json_rows(replay::diff_table(diff, {first}, !arguments.span.empty())).front();
    json["first_divergence"]["keys_only_a"] = first->first_only_a;
    json["first_divergence"]["keys_only_b"] = first->first_only_b;
  }
  return json_text("kvloupe-diff/1", json);
}

std::string diff_text(const Diff& diff, const DiffSide& a, const DiffSide& b,
                      const DiffArguments& arguments) {
  std::string text;
  for (const auto& [letter, side, path] :
       {std::tuple("A", &a, arguments.traces.front()), {"B", &b, arguments.traces.back()}})
    text += fmt::format("{}: {}{}\n", letter, printable(replay::short_name(side->method)),
                        diff.two_traces ? " in " + printable(path) : "");
  if (diff.two_traces)
    text += fmt::format(
        "aligned by tokens: {} of A's {} and B's {}\n", format_count(diff.aligned_tokens),
        format_count(a.session.info().num_tokens), format_count(b.session.info().num_tokens));
  text += divergence_text(diff);
  if (diff.rows.empty()) return text;
  text += fmt::format("\nmeans over the cells of a layer, one for each chunk and {}\n\n",
                      replay::words_of_axis(diff.layout.axis));
  text += table::terminal_text(layer_means(diff));
  const std::vector<const DiffRow*> rows = most_different(diff);
  if (rows.empty()) return text;
  text += "\nthe cells that differ most\n\n";
  const Table lowest = replay::diff_table(diff, rows, !arguments.span.empty());
  return text + table::terminal_text(lowest);
}

void answer(const session::TraceSession& session_a, const session::TraceSession& session_b,
            const std::vector<replay::MethodName>& methods, const DiffArguments& arguments) {
  const DiffSide a = side_of(session_a, methods.front(), arguments);
  const DiffSide b = side_of(session_b, methods.back(), arguments);
  const Diff diff = engine().diff_selections(a, b, request_of<replay::DiffRequest>(arguments),
                                             reporting_context("layers"));
  if (!arguments.csv.empty())
    write_whole_file(arguments.csv,
                     table::csv_text(replay::diff_table(diff, replay::pointers_to(diff.rows),
                                                        !arguments.span.empty())));
  if (arguments.json)
    results::add_data(diff_json(diff, a, b, arguments));
  else if (arguments.csv != "-")
    results::add_text(diff_text(diff, a, b, arguments));
}

void run_diff(const DiffArguments& arguments, const GlobalOptions& global) {
  const std::vector<replay::MethodName> methods = methods_of(arguments);
  check_files(arguments, methods);
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.traces.front(), global, methods, arguments.chunk_size);
  report_damage(session.info());
  if (arguments.traces.size() == 1) {
    answer(session, session, methods, arguments);
    return;
  }
  const session::TraceSession other =
      open_session(arguments.traces.back(), global, methods, arguments.chunk_size);
  report_damage(other.info());
  note_other_model(session.info().model, other.info().model);
  answer(session, other, methods, arguments);
}

}  // namespace

Command diff_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<DiffArguments>();
  Command command("diff", "where two selections keep different keys");
  command
      .option("traces", &arguments->traces, "trace file; or two, A and B, whose tokens are aligned")
      .required()
      .between(1, 2);
  command
      .option("--method", &arguments->methods,
              "method SPEC, run:N or what a recorded run is called; twice for A and B. Once, with "
              "two traces, for both")
      .required()
      .repeated();
  add_layers_option(command, arguments->layers, "layers (default: all)");
  add_chunks_option(command, arguments->chunks, "chunks of A (default: all)");
  add_chunk_size_option(command, arguments->chunk_size);
  command.option("--span", &arguments->span,
                 "a span of the traces or positions A-B: also the share of its keys that each "
                 "keeps");
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--csv", &arguments->csv, "also write the rows to this file, or alone to -");
  command.option("--json", &arguments->json, "as JSON, with every cell");
  command.option("--force", &arguments->force, "let an output replace a trace or a model, too");
  command.run = with_engine(global, [arguments, &global] { run_diff(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
