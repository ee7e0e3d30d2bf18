// `kvloupe select`: which keys a method keeps of a recorded trace.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/own_method.h"
#include "app/cli/row_json.h"
#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/replay/replay.h"
#include "core/replay/table.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::ReplayCell;
using replay::ReplayResult;

struct SelectArguments {
  std::string trace;
  std::string method;
  OwnMethod own;
  Indices layers, chunks;
  std::optional<int> chunk_size;
  std::string device = device::kDefault;
  bool scores = false;
  bool json = false;
  bool save = false;
};

// One of the numbers, which may be unknown.
ordered_json number_or_null(const std::vector<double>& values, int index) {
  const auto at = static_cast<std::size_t>(index);
  return at < values.size() && std::isfinite(values[at]) ? ordered_json(values[at])
                                                         : ordered_json(nullptr);
}

// Lane methods that drop no key have lanes instead.
bool has_key_rows(const ReplayResult& result, const ReplayCell& cell) {
  return cell.lane_counts.empty() || !result.evict_chunk.empty();
}

// The units that were ranked by their first positions, what each scored, and where the cut is.
void add_scores(const selection::RowEvidence& evidence, ordered_json& entry) {
  entry["scored"] = evidence.begin;
  entry["scores"] = ordered_json::array();
  for (const double score : evidence.scores)
    entry["scores"].push_back(std::isfinite(score) ? ordered_json(score) : ordered_json(nullptr));
  entry["cut"] = or_null(evidence.cut());
}

ordered_json rows_json(const ReplayResult& result, const ReplayCell& cell) {
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < cell.rows.size(); ++i) {
    const trace::SelectedRow& row = cell.rows[i];
    ordered_json entry = row_json(result.row_axis, result.q_heads_per_row, i);
    entry["selected"] = row.positions;
    entry["forced"] = row.forced.size();
    entry["ties_at_cut"] = row.ties_at_cut;
    entry["mass_recall"] = cell.metrics[i].mass_recall;
    entry["topk_overlap"] = cell.metrics[i].topk_overlap;
    if (!cell.evidence.empty()) add_scores(cell.evidence[i], entry);
    rows.push_back(std::move(entry));
  }
  return rows;
}

ordered_json lanes_json(const ReplayResult& result, const ReplayCell& cell) {
  const int heads = static_cast<int>(cell.rows.size()) * result.q_heads_per_row;
  const int head_dim = static_cast<int>(cell.lane_counts.size()) / heads;
  ordered_json lanes = ordered_json::array();
  for (int head = 0; head < heads; ++head) {
    const auto counts = cell.lane_counts_of(head, head_dim);
    lanes.push_back({{"q_head", head},
                     {"counts", std::vector<std::int32_t>(counts.begin(), counts.end())},
                     {"score_error", number_or_null(cell.score_error, head)},
                     {"output_error", number_or_null(cell.output_error, head)}});
  }
  return lanes;
}

// Per query head, per query block of the chunk: the key blocks kept, ascending. Null in dense cells.
ordered_json block_mask_json(const ReplayCell& cell) {
  if (!cell.blocks) return nullptr;
  const trace::BlockMasks& masks = *cell.blocks;
  ordered_json heads = ordered_json::array();
  for (int head = 0; head < masks.num_q_heads; ++head) {
    ordered_json query_blocks = ordered_json::array();
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i) {
      ordered_json kept = ordered_json::array();
      for (std::int64_t j = 0; j < masks.grid.num_key_blocks(); ++j)
        if (masks.kept[masks.index(head, i, j)] != 0) kept.push_back(j);
      query_blocks.push_back(std::move(kept));
    }
    heads.push_back(std::move(query_blocks));
  }
  return heads;
}

// What block methods compared, and with what: [query head][query block][key block], and without the last.
void add_block_scores(const ReplayCell& cell, ordered_json& json) {
  const trace::BlockMasks& masks = *cell.blocks;
  json["block_scores"] = json["block_thresholds"] = ordered_json::array();
  for (int head = 0; head < masks.num_q_heads; ++head) {
    ordered_json scores = ordered_json::array(), thresholds = ordered_json::array();
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i) {
      const float* row = cell.block_scores.row(head, i);
      scores.push_back(std::vector<float>(row, row + masks.grid.num_key_blocks()));
      if (!cell.block_thresholds.empty())
        thresholds.push_back(cell.block_thresholds[static_cast<std::size_t>(
            head * masks.grid.num_query_blocks() + i)]);
    }
    json["block_scores"].push_back(std::move(scores));
    if (!thresholds.empty()) json["block_thresholds"].push_back(std::move(thresholds));
  }
}

ordered_json json_of(const ReplayResult& result, const ReplayCell& cell) {
  ordered_json json{{"chunk", cell.chunk},
                    {"begin", cell.span.begin},
                    {"length", cell.span.length},
                    {"phase", trace::name_of(cell.span.phase)},
                    {"dense_fallback", cell.dense_fallback()},
                    {"dense_reason", nullptr}};
  if (cell.dense_reason) json["dense_reason"] = trace::name_of(*cell.dense_reason);
  if (cell.source_layer) json["source_layer"] = *cell.source_layer;
  if (!cell.lane_counts.empty()) json["lanes"] = lanes_json(result, cell);
  if (result.block_size > 0) json["block_mask"] = block_mask_json(cell);
  if (cell.blocks && !cell.block_scores.empty()) add_block_scores(cell, json);
  if (has_key_rows(result, cell)) json[row_names(result.row_axis).first] = rows_json(result, cell);
  return json;
}

std::string answer_json(const ReplayResult& result, std::optional<int> chunk_size) {
  ordered_json json{{"method", result.method},
                    {"mode", trace::to_text(result.mode)},
                    {"source_mode", trace::to_text(result.source_mode)},
                    {"chunk_size", nullptr}};
  if (chunk_size) json["chunk_size"] = *chunk_size;
  if (result.run) json["run"] = *result.run;
  if (result.basis)
    json["basis"] = {{"source", result.basis->source},
                     {"tokens", result.basis->num_tokens},
                     {"hash", result.basis->hash},
                     {"leakage", result.basis->leakage}};
  if (result.block_size > 0) json["block_size"] = result.block_size;
  json["layers"] = ordered_json::array();
  const std::size_t per_layer =
      result.layers.empty() ? 0 : result.cells.size() / result.layers.size();
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    ordered_json layer{{"layer", result.layers[i]}, {"chunks", ordered_json::array()}};
    for (std::size_t c = 0; c < per_layer; ++c)
      layer["chunks"].push_back(json_of(result, result.cells[i * per_layer + c]));
    if (!result.final_alive.empty()) {
      layer["final_alive"] = ordered_json::array();
      for (std::size_t row = 0; row < result.final_alive[i].size(); ++row) {
        ordered_json entry = row_json(result.row_axis, result.q_heads_per_row, row);
        entry["positions"] = result.final_alive[i][row];
        layer["final_alive"].push_back(std::move(entry));
      }
    }
    json["layers"].push_back(std::move(layer));
  }
  return json_text("kvloupe-select/1", json);
}

// Nothing where it was not measured (ReplayResult::notes).
table::Cell mean_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// Lanes that a row uses, of how many, and what their lack costs; means over the heads.
std::vector<table::Cell> lane_cells(const ReplayResult& result, const ReplayCell& cell) {
  const std::size_t heads = cell.rows.size() * static_cast<std::size_t>(result.q_heads_per_row);
  const auto uses =
      std::accumulate(cell.lane_counts.begin(), cell.lane_counts.end(), std::int64_t{0});
  const double used = static_cast<double>(uses) / cell.span.length / static_cast<double>(heads);
  return {used, cell.lane_counts.size() / heads, mean_of(cell.score_error),
          mean_of(cell.output_error)};
}

// What is said above the table.
std::string heading(const ReplayResult& result, std::optional<int> chunk_size) {
  std::string text = fmt::format(
      "{}\n{}{} on a trace made in {}{}; means over the rows of a cell\n", printable(result.method),
      result.run ? fmt::format("run {} as recorded, ", *result.run) : std::string(),
      result.mode == trace::LoopMode::ClosedLoop ? "closed loop" : "open loop",
      result.source_mode == trace::LoopMode::ClosedLoop ? "closed loop" : "open loop",
      chunk_size ? fmt::format(", cut anew into chunks of {}", *chunk_size) : "");
  if (result.basis)
    text += fmt::format("basis fitted on {}{}; {}\n", printable(result.basis->source),
                        result.basis->num_tokens > 0
                            ? fmt::format(", {} tokens", result.basis->num_tokens)
                            : std::string(),  // a run does not record how many
                        result.basis->leakage ? "leakage: this trace holds that text"
                                              : "no leakage: this trace holds none of that text");
  return text;
}

std::string table_text(const ReplayResult& result, std::optional<int> chunk_size) {
  const auto any_cell = [&](const auto& test) {
    return std::any_of(result.cells.begin(), result.cells.end(), test);
  };
  const bool lanes = any_cell([](const ReplayCell& cell) { return !cell.lane_counts.empty(); });
  const bool sources =
      any_cell([](const ReplayCell& cell) { return cell.source_layer.has_value(); });
  table::Table table{{"layer",
                      "chunk",
                      "begin",
                      "length",
                      "phase",
                      {"kept", "kept", "", 0},
                      "of",
                      replay::Number::MassRecall,
                      replay::Number::TopkOverlap,
                      "ties",
                      "dense"},
                     {}};
  auto& columns = table.columns;
  if (sources) columns.emplace_back("set of layer");
  if (lanes)
    columns.insert(columns.end(), {{"lanes", "lanes", "", 1},
                                   "of",
                                   {"score_error", "score error", "", 4},
                                   {"output_error", "output error", "", 4}});
  for (const ReplayCell& cell : result.cells) {
    const double rows = static_cast<double>(std::max<std::size_t>(1, cell.rows.size()));
    double kept = 0, recall = 0, overlap = 0;
    std::int64_t ties = 0;
    const bool keys = has_key_rows(result, cell);
    for (const trace::SelectedRow& row : cell.rows) {
      kept += static_cast<double>(row.positions.size()) / rows;
      ties += row.ties_at_cut;
    }
    for (const replay::RowMetrics& metrics : cell.metrics) {
      recall += metrics.mass_recall / rows;
      overlap += metrics.topk_overlap / rows;
    }
    using table::Cell;
    const auto of_keys = [&](double mean) { return keys ? Cell(mean) : Cell(std::nullopt); };
    std::vector<Cell>& line = table.rows.emplace_back(std::vector<Cell>{
        cell.layer, cell.chunk, cell.span.begin, cell.span.length, trace::name_of(cell.span.phase),
        kept, cell.num_candidates, of_keys(recall), of_keys(overlap), ties,
        cell.dense_reason ? trace::name_of(*cell.dense_reason) : ""});
    if (sources) line.push_back(cell.source_layer ? Cell(*cell.source_layer) : Cell());
    if (lanes)
      for (Cell& column : lane_cells(result, cell)) line.push_back(std::move(column));
  }
  return heading(result, chunk_size) + table::terminal_text(table);
}

// What only a selection made anew could give.
void check_recorded(const SelectArguments& arguments, const replay::MethodChoice& choice) {
  const auto refuse = [&](const char* option, const char* why) {
    throw usage_error(fmt::format("{} cannot be combined with run {}", option, choice.run), why,
                      "leave the option out, or give the SPEC of a method to select anew");
  };
  if (arguments.save) refuse("--save", "it is recorded already");
  if (arguments.scores) refuse("--scores", "what a recorded run ranked is not listed");
  if (arguments.chunk_size)
    refuse("--chunk-size", "it holds what was kept of the trace's own chunks");
}

ReplayResult selected(const session::TraceSession& session, const replay::MethodChoice& choice,
                      const replay::ReplayRequest& request) {
  const WorkContext context = reporting_context("cells");
  ReplayResult result =
      choice.recorded()
          ? engine().recorded_run(session, choice.run, request.layers, request.chunks, true,
                                  request.want_output_error, context, request.device)
          : engine().replay(session, request, context);
  for (const std::string& note : result.notes) log::warning("{}", note);
  return result;
}

// A method of the user's own is run first: what it saved is then read as any run.
void run_own(SelectArguments& arguments, const GlobalOptions& global) {
  const OwnMethod as_by_default;
  OwnMethod& own = arguments.own;
  if (global.limits_memory) own.bytes_of_memory = global.memory->limit();
  const int named = !arguments.method.empty() + !own.python.empty() + !own.plugin.empty();
  if (named != 1)
    throw usage_error(
        "select needs a method", named > 1 ? "several are named" : "none is named",
        "give --method SPEC, --python FILE.py:FUNCTION or --plugin LIBRARY.so:FUNCTION");
  if (!own.is_named() && (!own.name.empty() || own.budget || own.rows != as_by_default.rows ||
                          own.seconds != as_by_default.seconds))
    throw usage_error("--name, --budget, --rows and --time-limit are for a method of your own",
                      "neither --python nor --plugin is given",
                      "leave them out; a budget stands in the SPEC, as in quoka:budget_tokens=256");
  if (!own.is_named()) return;
  if (arguments.chunk_size || arguments.save || arguments.scores)
    throw usage_error("a method of your own takes no --chunk-size, --save or --scores",
                      "its run is saved as it is, for the chunks of the trace",
                      "leave the option out");
  arguments.method = arguments.own.method();
  arguments.own.layers = arguments.layers.numbers;
  select_by(arguments.trace, arguments.own);
}

void run_select(SelectArguments& arguments, const GlobalOptions& global) {
  run_own(arguments, global);
  auto request = request_of<replay::ReplayRequest>(arguments);
  const replay::MethodName method(arguments.method);
  request.chunk_size = arguments.chunk_size;
  if (arguments.save && (!request.chunks.empty() || request.chunk_size))
    throw usage_error("--save cannot be combined with --chunks or --chunk-size",
                      "a saved run covers all chunks of the trace",
                      "leave the option out, or leave out --save");
  request.want_scores = arguments.scores;
  if (arguments.scores && !arguments.json)
    throw usage_error("--scores needs --json", "a table has no room for them", "add --json");
  engine().open_device(request.device);
  const session::TraceSession session = open_session(arguments.trace, global, {method});
  report_damage(session.info());
  if (arguments.save)
    trace::require_queries(session.info(), static_cast<int>(session.info().chunks.size()),
                           "the run cannot be saved");
  const replay::MethodChoice choice = replay::choice_of(method, session.info());
  if (choice.recorded()) {
    check_recorded(arguments, choice);
  } else {
    request.spec = *choice.spec;
  }
  request.want_output_error = choice.known() && choice.spec->traits().lanes.has_value();
  if (choice.known()) note_budgets_that_fit({*choice.spec}, session.info());
  const ReplayResult result = selected(session, choice, request);
  const std::string text = arguments.json ? answer_json(result, arguments.chunk_size)
                                          : table_text(result, arguments.chunk_size);
  if (arguments.save)
    log::info("saved as run {} of {}.runs.h5", replay::save_run(session, request.spec, result),
              session.info().path);
  arguments.json ? results::add_data(text) : results::add_text(text);
}

}  // namespace

Command select_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<SelectArguments>();
  Command command("select", "what a method keeps, on stored Q and K");
  command.option("trace", &arguments->trace, "trace file").required();
  command.option("--method", &arguments->method, kMethodHelp);
  command.option(
      "--python", &arguments->own.python,
      "FILE.py:FUNCTION, a method of your own in place of --method: a function of (layer, "
      "chunk, q, k, v). Its run is saved in the sidecar as custom:NAME");
  command.option(
      "--plugin", &arguments->own.plugin,
      "LIBRARY.so:FUNCTION, the same in C: a kvloupe_method of kvloupe.h, which gives scores; NAME "
      "alone is NAME.so:NAME in the folder plugins of the settings");
  command.option("--name", &arguments->own.name,
                 "of your own method: what the run is called (default: the function's name)");
  command
      .option("--budget", &arguments->own.budget,
              "of your own method: keys kept of each row's scores")
      .range(1, 1 << 30);
  command
      .option("--rows", &arguments->own.rows,
              "of your own method: whether a set is chosen for each kv_head or each q_head")
      .one_of({"kv_head", "q_head"})
      .show_default();
  command
      .option("--time-limit", &arguments->own.seconds,
              "of your own method: seconds after which it is stopped")
      .range(1, 1 << 20)
      .show_default();
  add_layers_option(command, arguments->layers, "layers (default: all)");
  add_chunks_option(command, arguments->chunks, "chunks (default: all)");
  add_chunk_size_option(command, arguments->chunk_size);
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--json", &arguments->json, "as JSON, with every position");
  command.option("--scores", &arguments->scores, "with --json: what was ranked, and the cut");
  command.option("--save", &arguments->save, "add the run to the sidecar TRACE.runs.h5");
  command.run = with_engine(global, [arguments, &global] { run_select(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
