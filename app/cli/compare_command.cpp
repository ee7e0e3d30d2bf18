// `kvloupe compare`: several methods on one trace, averaged.
#include "app/cli/chart_files.h"
#include "app/cli/commands.h"
#include "app/cli/compare_chart.h"
#include "app/cli/compare_report.h"
#include "app/cli/options.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/whole_file.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/replay/request_checks.h"
#include "core/replay/sweep.h"
#include "core/session/session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

namespace kvloupe::cli {
namespace {

using replay::Comparison;

struct CompareArguments {
  std::vector<std::string> traces;
  std::vector<std::string> methods;
  Indices layers;
  std::string device = device::kDefault;
  std::string csv, markdown, latex;
  ChartFiles chart;
  ChartAxes axes;  // of the picture
  std::optional<int> chunk_size;
  std::string cells = "common";
  std::string weights = "cells";
  std::string span, from;
  Indices scope_chunks;
  std::vector<std::string> columns;
  std::vector<std::string> scopes;
  std::vector<std::string> sweeps;
  std::string target;
  bool full = false, mark_best = false, units = false;
  bool json = false;
  bool force = false;

  bool prints_a_file() const {
    return csv == "-" || markdown == "-" || latex == "-" || chart.is_printed();
  }
};

// The methods, for a sentence.
std::string list_of(const std::vector<std::string>& methods) {
  std::vector<std::string> names;
  for (const std::string& method : methods) names.push_back(printable(short_text(method)));
  return fmt::format("{}", fmt::join(names, ", "));
}

void say_other_cells(const Comparison& comparison, std::size_t methods) {
  if (comparison.on_other_cells.empty()) return;
  std::vector<std::string> names;
  for (const std::string& method : comparison.on_other_cells)
    if (const std::string name = printable(selection::method_id(method));
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  log::warning(
      "{} of {} rows are averaged over other cells than the rest and do not compare with it: {}; "
      "--cells common averages all over the same cells",
      comparison.on_other_cells.size(), methods, fmt::join(names, ", "));
}

// Each reason once, before the names of all that it holds for.
void say_unavailable(const std::vector<replay::UnavailableMethod>& unavailable) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const replay::UnavailableMethod& entry : unavailable)
    by_reason[entry.error.what()].push_back(printable(short_text(entry.method)));
  for (const auto& [reason, names] : by_reason)
    log::warning("{} {} left out: {}", fmt::join(names, "; "), names.size() > 1 ? "are" : "is",
                 reason);
}

// Where rows have no cell: says why no cell is common.
void say_no_common_cell(const Comparison& comparison) {
  std::set<std::string> said;  // chunk sizes of a sweep may say the same
  for (const Comparison::NoCell& none : comparison.no_common_cell) {
    const std::string text =
        !none.asked
            ? fmt::format("no {} cell is averaged: none of these methods chooses among keys",
                          none.phase)
        : none.dense.empty()
            ? fmt::format(
                  "no {} cell is common to all these methods: in each one of them keeps "
                  "everything; --cells own averages each over its own cells",
                  none.phase)
            : fmt::format(
                  "no {} cell is common to all these methods: everything is kept in every one "
                  "by {}; leave those out, or give --cells own",
                  none.phase, list_of(none.dense));
    if (said.insert(text).second) log::warning("{}", text);
  }
}

// Before anything is computed.
void check_files(const CompareArguments& arguments,
                 const std::vector<replay::MethodName>& methods) {
  std::vector<std::pair<std::string, std::string>> files{
      {"--csv", arguments.csv}, {"--markdown", arguments.markdown}, {"--latex", arguments.latex}};
  for (auto& file : arguments.chart.named()) files.push_back(std::move(file));
  if (arguments.mark_best && arguments.markdown.empty() && arguments.latex.empty())
    throw usage_error("--mark-best marks nothing here", "only --latex and --markdown have marks",
                      "add --latex F or --markdown F, or leave it out");
  check_units(arguments.units, arguments.csv);
  std::string printed = arguments.json ? "--json" : "";
  for (const auto& [option, file] : files) {
    if (file != "-") continue;
    if (!printed.empty())
      throw usage_error(fmt::format("{} - cannot be combined with {}", option, printed),
                        "standard output has room for one of them",
                        "name a file for one of them, or leave it out");
    printed = option + " -";
  }
  const InputFiles inputs = files_read(arguments.traces, methods);
  for (const auto& [option, file] : files) {
    if (file.empty()) continue;
    check_ending(option, file, {"--csv", "--markdown", "--latex", "--png", "--svg", "--pdf"});
    check_result_file(file, inputs, arguments.force);
  }
  check_distinct(files);
  const ChartAxes& axes = arguments.axes;
  if (!arguments.chart.any() && !(axes.x + axes.y + axes.phase).empty())
    throw usage_error("--x, --y and --phase say what a picture shows", "no picture is asked for",
                      "add --png F, --svg F or --pdf F");
}

replay::CompareOptions options_of(const CompareArguments& arguments) {
  replay::CompareOptions options;
  options.cells = arguments.cells == "own" ? replay::CellChoice::Own : replay::CellChoice::Common;
  if (arguments.weights == "queries") options.weights = replay::Weights::Queries;
  for (const std::string& scope : arguments.scopes)
    options.scopes.push_back(replay::parse_scope(scope));
  return options;
}

std::vector<replay::SweepAxis> axes_of(const CompareArguments& arguments) {
  std::vector<replay::SweepAxis> axes;
  for (const std::string& sweep : arguments.sweeps) {
    axes.push_back(replay::parse_sweep(sweep));
    if (axes.back().cuts_anew() && arguments.chunk_size)
      throw usage_error("--chunk-size cannot be combined with a sweep of it",
                        "each says how the prompt is cut", "leave one of them out");
  }
  return axes;
}

void need_span(const CompareArguments& arguments, const char* option) {
  if (arguments.span.empty())
    throw usage_error(fmt::format("{} span_kept has no span", option), "no keys are watched",
                      "add --span with the name of a span, or positions such as 1536-1551");
}

std::optional<replay::SweepTarget> target_of(const CompareArguments& arguments) {
  if (arguments.target.empty()) return std::nullopt;
  const replay::SweepTarget target = replay::parse_target(arguments.target);
  if (arguments.sweeps.empty())
    throw usage_error("--target has nothing to choose from", "no parameter is swept",
                      "add for example --sweep budget_tokens=32..1024");
  if (target.number == replay::Number::SpanKept) need_span(arguments, "--target");
  return target;
}

std::vector<std::string> names_of(const std::vector<replay::SweepAxis>& axes) {
  std::vector<std::string> names;
  for (const replay::SweepAxis& axis : axes) names.push_back(axis.name);
  return names;
}

std::optional<ChartAxes> chart_of(const CompareArguments& arguments,
                                  const std::vector<replay::SweepAxis>& axes, bool has_target) {
  if (!arguments.chart.any()) return std::nullopt;
  return chart_axes(arguments.axes, names_of(axes), has_target);
}

// "layers 1,3".
std::string words_of(const Indices& indices, const std::string& one) {
  return fmt::format("{}{} {}", one, indices.numbers.size() > 1 ? "s" : "", indices.text);
}

// As the prompt is cut anew, or as it was.
std::vector<trace::ChunkInfo> chunks_of(const CompareArguments& arguments,
                                        const trace::TraceInfo& info) {
  return arguments.chunk_size ? session::cut_anew(info, *arguments.chunk_size) : info.chunks;
}

// The chunk that holds a token.
int chunk_of(std::int32_t token, const std::vector<trace::ChunkInfo>& chunks) {
  const auto found = std::ranges::find_if(
      chunks, [&](const trace::ChunkInfo& chunk) { return token < chunk.end(); });
  return static_cast<int>(found - chunks.begin());
}

bool cuts_anew(const std::vector<replay::SweepAxis>& axes) {
  return std::ranges::any_of(axes, [](const replay::SweepAxis& axis) { return axis.cuts_anew(); });
}

// Which cells of a trace are averaged, and whose keys are watched there.
replay::Counted counted_in(const CompareArguments& arguments, const trace::TraceInfo& info,
                           ComparedTrace& described) {
  replay::Counted counted;
  counted.chunks = arguments.scope_chunks.numbers;
  if (!counted.chunks.empty()) {
    replay::check_chunk(counted.chunks.back(), chunks_of(arguments, info).size());
    for (const int chunk : counted.chunks)
      if (!arguments.chunk_size && !info.has_queries(chunk))
        throw trace::lacks_queries(info, chunk);
    described.chunks = words_of(arguments.scope_chunks, "chunk");
  }
  if (const auto from = span_of("--from", arguments.from, info)) {
    counted.from = from->begin;
    described.chunks = fmt::format("the chunks from {} on", printable(from->name));
    // A sweep of chunk sizes cuts the prompt in several ways.
    if (!cuts_anew(axes_of(arguments)))
      described.chunks +=
          fmt::format(" (chunk {})", chunk_of(from->begin, chunks_of(arguments, info)));
  }
  described.span = span_of("--span", arguments.span, info);
  if (!described.span) return counted;
  const trace::KeySet keys{described.span->begin, described.span->end};
  counted.watched = replay::WatchedKeys{keys};
  // All chunks, where that is what was asked for.
  if (arguments.scope_chunks.given() || !arguments.from.empty()) return counted;
  counted.watched = replay::watched_from_question(keys, info);
  described.span_from_chunk = chunk_of(counted.watched->from, chunks_of(arguments, info));
  described.span_from_question = counted.watched->from > 0;
  return counted;
}

ComparedTrace compared(const std::string& path, const replay::SweepPlan& plan,
                       const CompareArguments& arguments, const replay::ReplayRequest& request,
                       const GlobalOptions& global) {
  std::vector<replay::MethodName> methods;
  for (const replay::SweepVariant& variant : plan.variants) methods.push_back(variant.name);
  const session::TraceSession session = open_session(path, global, methods);
  report_damage(session.info());
  std::vector<selection::MethodSpec> specs;
  for (const replay::MethodName& method : methods)
    if (method.spec) specs.push_back(*method.spec);
  if (arguments.sweeps.empty()) note_budgets_that_fit(specs, session.info());
  ComparedTrace trace;
  trace.path = path;
  if (!session.info().query_offsets.empty())
    trace.query_chunks = session.info().chunks_with_queries();
  for (const trace::RunInfo& run : session.info().runs)
    if (run.mode == trace::LoopMode::ClosedLoop) trace.closed_loop.push_back(run.id);
  replay::CompareOptions options = options_of(arguments);
  options.counted = counted_in(arguments, session.info(), trace);
  trace.comparison =
      engine().compare_sweep(session, plan, request, options, reporting_context("cells"));
  return trace;
}

// What fails says of which trace, where there are several.
ComparedTrace compared_or_named(const std::string& path, const replay::SweepPlan& plan,
                                const CompareArguments& arguments,
                                const replay::ReplayRequest& request, const GlobalOptions& global) {
  try {
    return compared(path, plan, arguments, request, global);
  } catch (const Error& error) {
    if (arguments.traces.size() == 1 || error.kind() != ErrorKind::Input) throw;
    throw Error(error.kind(), fmt::format("{}: {}", printable(path), error.what_failed()),
                error.why(), error.remedy());
  }
}

// The files' names without what they share at their ends: "needle-0.2.h5" and "needle-0.8.h5".
void name_traces(std::vector<ComparedTrace>& traces) {
  for (ComparedTrace& trace : traces)
    trace.title = std::filesystem::path(trace.path).stem().string();
  for (const ComparedTrace& a : traces)
    for (const ComparedTrace& b : traces)
      if (&a != &b && a.title == b.title) {
        for (ComparedTrace& trace : traces) trace.title = trace.path;
        return;
      }
}

void run_compare(const CompareArguments& arguments, const GlobalOptions& global) {
  replay::MethodList list = replay::parse_methods(arguments.methods);
  check_columns(arguments.columns);
  for (const std::string& column : arguments.columns)
    if (column == replay::info_of(replay::Number::SpanKept).id) need_span(arguments, "--columns");
  const std::vector<replay::SweepAxis> axes = axes_of(arguments);
  const std::optional<replay::SweepTarget> target = target_of(arguments);
  if (!arguments.from.empty() && arguments.scope_chunks.given())
    throw usage_error("--from cannot be combined with --scope-chunks",
                      "each says which chunks are averaged", "leave one of them out");
  if (arguments.scope_chunks.given() && cuts_anew(axes))
    throw usage_error("--scope-chunks cannot be combined with --sweep chunk_size",
                      "a chunk's number is another place in each cut",
                      "use --from, or compare one --chunk-size at a time");
  const replay::SweepPlan plan = replay::plan_sweep(list.methods, axes);
  check_files(arguments, list.methods);
  const std::optional<ChartAxes> chart = chart_of(arguments, axes, target.has_value());
  const std::vector<std::string> names = names_in_chart(list.methods, names_of(axes));
  replay::ReplayRequest request;
  request.layers = arguments.layers.numbers;
  request.chunk_size = arguments.chunk_size;
  request.want_output_error = true;
  request.device = arguments.device;
  engine().open_device(request.device);
  for (const std::string& note : plan.notes) log::warning("{}", note);

  CompareReport report;
  report.cells = arguments.cells;
  report.weights = arguments.weights;
  if (!arguments.layers.numbers.empty()) report.layers = words_of(arguments.layers, "layer");
  report.chunk_size = arguments.chunk_size;
  report.columns = arguments.columns;
  report.full = arguments.full;
  report.axes = names_of(axes);
  for (const replay::SweepVariant& variant : plan.variants)
    report.short_names.push_back(variant.name.spec ? replay::short_name(*variant.name.spec)
                                                   : variant.name.text);
  for (const std::string& path : arguments.traces) {
    ComparedTrace trace = compared_or_named(path, plan, arguments, request, global);
    for (const std::string& note : trace.comparison.notes) log::warning("{}", note);
    if (target) replay::solve(plan, *target, trace.comparison.rows);
    say_other_cells(trace.comparison, plan.variants.size());
    say_no_common_cell(trace.comparison);
    auto& unavailable = trace.comparison.unavailable;
    unavailable.insert(unavailable.end(), list.unavailable.begin(), list.unavailable.end());
    // The text names them below its table.
    if (arguments.json || arguments.prints_a_file()) say_unavailable(unavailable);
    report.traces.push_back(std::move(trace));
  }
  report.has_target = target.has_value();
  name_traces(report.traces);
  if (!arguments.csv.empty())
    write_whole_file(arguments.csv, compare_csv(report, csv_head_of(arguments.units)));
  const table::Marks marks = arguments.mark_best ? table::Marks::Best : table::Marks::None;
  if (!arguments.markdown.empty())
    write_whole_file(arguments.markdown, compare_text_as(report, [&](const table::Table& rows) {
                       return table::markdown_text(rows, marks);
                     }));
  if (!arguments.latex.empty())
    write_whole_file(arguments.latex, compare_text_as(report, [&](const table::Table& rows) {
                       return table::latex_text(rows, marks);
                     }));
  if (chart) write_chart(compare_chart(report, *chart, plan, names), arguments.chart);
  if (arguments.json)
    results::add_data(compare_json(report));
  else if (!arguments.prints_a_file())
    results::add_text(compare_text(report));
}

}  // namespace

Command compare_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<CompareArguments>();
  Command command("compare", "averages of several methods on one trace or more");
  command
      .option("traces", &arguments->traces,
              "trace files; of several each row says which it is of, and --span and --from are "
              "found by name in each")
      .required();
  command.option("--method", &arguments->methods, kMethodsHelp).required().repeated();
  add_layers_option(command, arguments->layers, "layers (default: all)");
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--csv", &arguments->csv, "also write the rows to this file, or alone to -");
  command.option("--markdown", &arguments->markdown,
                 "also write the table for a page on GitHub, or alone to -");
  command.option("--latex", &arguments->latex,
                 "also write the table for a paper (booktabs), or alone to -");
  add_units_option(command, arguments->units);
  command.option("--mark-best", &arguments->mark_best,
                 "in --latex and --markdown: the best of each number in bold, the second best "
                 "underlined or in italics");
  add_chart_files(command, arguments->chart, "a number of the rows, one curve a method,");
  command.option("--x", &arguments->axes.x,
                 "across the picture: a parameter swept (the first unless given), a number, "
                 "layer, kv_head or chunk");
  command.option("--y", &arguments->axes.y,
                 "up the picture: a number as the CSV calls it, or solved (with --target: the "
                 "default, else mass_recall)");
  command
      .option("--phase", &arguments->axes.phase,
              "whose rows the picture shows (default prefill, but for recall_at_1, 10 and 64)")
      .one_of({"prefill", "decode"});
  add_chunk_size_option(command, arguments->chunk_size);
  command
      .option("--cells", &arguments->cells,
              "average all methods where none of them is dense (common), or each where it is "
              "not dense itself (own)")
      .one_of({"common", "own"})
      .show_default();
  command
      .option("--weights", &arguments->weights,
              "each cell counts one (cells), or as many as its chunk has queries (queries)")
      .one_of({"cells", "queries"});
  command.option("--span", &arguments->span,
                 "a span of the trace or positions A-B: the share of its keys that is kept, "
                 "where the trace has a question from its chunk on");
  command.option("--from", &arguments->from,
                 "average over the chunk that holds the first token of this span, or of "
                 "positions A-B, and all later ones");
  command
      .option(
          "--scope-chunks,--chunk,--chunks",
          [arguments](const std::string& text) {
            arguments->scope_chunks = parse_indices("--scope-chunks", text);
          },
          "average over these chunks alone: 12-15, 3, 3,7 or all")
      .typed("LIST");
  command
      .option("--columns", &arguments->columns,
              "numbers of the table, as the CSV calls them, separated by commas; all for every "
              "one")
      .split_at(',')
      .listed();
  command.option("--full", &arguments->full, "whole SPECs in the table");
  command
      .option("--scope", &arguments->scopes,
              "rows of several places at once beside those of one, such as layer,kv_head: the "
              "index of each is named; may be repeated")
      .repeated();
  command
      .option("--sweep", &arguments->sweeps,
              "NAME=a,b,c or NAME=a..b (a, 2a, 4a ... up to b): rows for each of these values "
              "of a numeric parameter, or of chunk_size; repeated, for all combinations. A "
              "method without the parameter keeps one row")
      .repeated();
  command.option("--target", &arguments->target,
                 "NUMBER=value: the smallest of the swept values with which a row reaches it: "
                 "at least the value of what is better when higher, such as mass_recall and "
                 "span_kept, at most of the others, such as output_error and density. Nothing "
                 "is interpolated");
  command.option("--json", &arguments->json, "as JSON, with every scope");
  command.option("--force", &arguments->force, "let an output replace a trace or a model, too");
  command.run = with_engine(global, [arguments, &global] { run_compare(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
