// `kvloupe info`: what a trace holds, for people or as JSON.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/options.h"
#include "app/cli/speed_json.h"
#include "app/cli/table_json.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/session/session.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using trace::TraceInfo;

ordered_json model_json(const trace::ModelInfo& model) {
  std::vector<std::string> layer_types;
  for (const auto type : model.layer_types) layer_types.emplace_back(to_text(type));
  ordered_json json{{"name", model.name},
                    {"architecture", model.architecture},
                    {"num_layers", model.num_layers},
                    {"num_q_heads", model.num_q_heads},
                    {"num_kv_heads", model.num_kv_heads},
                    {"head_dim", model.head_dim},
                    {"hidden_size", model.hidden_size},
                    {"softmax_scale", model.softmax_scale},
                    {"rope_theta", model.rope_theta},
                    {"rope_pairing", to_text(model.rope_pairing)},
                    {"rope_scaling", model.rope_scaling},
                    {"file_hash", model.file_hash},
                    {"compute", model.compute ? ordered_json(trace::to_text(*model.compute))
                                              : ordered_json(nullptr)},
                    {"layer_types", layer_types}};
  if (!model.kv_heads.empty()) json["kv_heads"] = model.kv_heads;
  return json;
}

// q, k and v of a layer as an analysis has them: whole, in fp32.
std::uint64_t layer_bytes(const TraceInfo& info) {
  const auto heads =
      static_cast<std::uint64_t>(info.model.num_q_heads + 2 * info.model.num_kv_heads);
  return heads * info.model.head_dim * info.num_tokens * sizeof(float);
}

ordered_json memory_json(const session::TraceSession& session) {
  const session::LoadBytes load = session.load_bytes();
  return {{"limit_bytes", session.memory()->limit()},
          {"load_bytes", load.sum()},
          {"load_parts", {{"tokens", load.tokens}, {"chunks", load.chunks}, {"runs", load.runs}}},
          {"layer_bytes", layer_bytes(session.info())}};
}

// Of the captured layers whose softmax is not plain.
ordered_json softmax_json(const trace::ModelInfo& model) {
  ordered_json layers = ordered_json::array();
  for (const auto& [layer, softmax] : model.shaped_softmax) {
    ordered_json& row = layers.emplace_back(ordered_json{{"layer", layer}});
    if (softmax.window > 0) row["window"] = softmax.window;
    if (softmax.softcap > 0) row["softcap"] = softmax.softcap;
    if (!softmax.sink_logits.empty()) row["sink_logit"] = softmax.sink_logits;
  }
  return layers;
}

const char* spoken(trace::LoopMode mode) {
  return mode == trace::LoopMode::OpenLoop ? "open loop" : "closed loop";
}

table::Table runs_table(const TraceInfo& info) {
  table::Table table{{{"id", "run"}, "method", "mode", {"from_sidecar", ""}, {"", "stored"}}, {}};
  for (const auto& run : info.runs)
    table.rows.push_back({run.id, table::MethodText{run.method},
                          table::Term{to_text(run.mode).data(), spoken(run.mode)}, run.from_sidecar,
                          run.from_sidecar ? "in the sidecar" : "in the trace"});
  return table;
}

table::Table spans_table(const TraceInfo& info) {
  table::Table table{{{"name", "span"}, "begin", "end"}, {}};
  for (const auto& span : info.spans) table.rows.push_back({span.name, span.begin, span.end});
  return table;
}

ordered_json info_json(const session::TraceSession& session) {
  const TraceInfo& info = session.info();
  ordered_json probe = nullptr;
  if (info.probe_len > 0) probe = {{"text", info.probe_text}, {"num_tokens", info.probe_len}};
  ordered_json json{{"path", info.path},
                    {"schema_version", info.schema_version},
                    {"complete", info.complete},
                    {"mode", to_text(info.mode)},
                    {"model", model_json(info.model)},
                    {"tokens", info.num_tokens},
                    {"chunks_done", info.chunks.size()},
                    {"layers", info.layers},
                    {"softmax", softmax_json(info.model)},
                    {"dtype", to_text(info.dtype)},
                    {"runs", json_rows(runs_table(info))},
                    {"bytes", info.bytes},
                    {"producer", info.producer},
                    {"created", info.created},
                    {"generated_tokens", info.generated.size()},
                    {"spans", json_rows(spans_table(info))},
                    {"probe", probe},
                    {"speed", speed_json(info.speed)},
                    {"memory", memory_json(session)}};
  if (!info.query_offsets.empty()) json["query_chunks"] = info.chunks_with_queries();
  return json;
}

// "0-29", "3", "0-4, 9".
std::string ranges_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text +=
        last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text.empty() ? "none" : text;
}

std::string chunks_text(const TraceInfo& info) {
  std::int64_t prefill = 0;
  std::int32_t longest = 0;
  for (const auto& chunk : info.chunks) {
    if (chunk.phase != trace::Phase::Prefill) continue;
    ++prefill;
    longest = std::max(longest, chunk.length);
  }
  std::string text = fmt::format("{} in {} prefill chunks", format_count(info.num_tokens), prefill);
  if (prefill > 0) text += fmt::format(" of up to {}", longest);
  const auto decode = static_cast<std::int64_t>(info.chunks.size()) - prefill;
  if (decode > 0) text += fmt::format(" and {} decode steps", decode);
  return text;
}

std::string memory_text(const session::TraceSession& session) {
  const session::LoadBytes load = session.load_bytes();
  return fmt::format(
      "{} loaded (tokens {}, chunks {}, runs {}), {} more for each layer in use, of {} allowed",
      format_bytes(load.sum()), format_bytes(load.tokens), format_bytes(load.chunks),
      format_bytes(load.runs), format_bytes(layer_bytes(session.info())),
      format_bytes(session.memory()->limit()));
}

std::string info_text(const session::TraceSession& session) {
  const TraceInfo& info = session.info();
  const auto& model = info.model;
  std::string text = printable(info.path) + "\n";
  const auto line = [&](const char* label, const std::string& value) {
    text += fmt::format("  {:<9} {}\n", label, printable(value));
  };
  line("trace", fmt::format("{}, {}, schema {}, {}", info.complete ? "complete" : "incomplete",
                            spoken(info.mode), info.schema_version, format_bytes(info.bytes)));
  line("made", fmt::format("{} by {}", info.created, info.producer));
  line("model", fmt::format("{} ({}), {} layers, {} query and {} KV heads of {}", model.name,
                            model.architecture, model.num_layers, model.num_q_heads,
                            model.num_kv_heads, model.head_dim));
  if (!model.kv_heads.empty())
    line("heads", fmt::format("KV heads {} of the model and their query heads", model.kv_heads));
  line("tokens", chunks_text(info));
  if (!info.query_offsets.empty()) line("queries", "of " + trace::text_of_query_chunks(info));
  if (info.speed) line("speed", text_of(info.speed->model) + " (recording included)");
  if (info.speed && info.speed->dense) line("", "dense: " + text_of(*info.speed->dense));
  line("layers", fmt::format("{} ({}), {}", info.layers.size(), ranges_text(info.layers),
                             to_text(info.dtype)));
  for (const auto& [layer, softmax] : model.shaped_softmax) {
    std::string parts = fmt::format("of layer {}:", layer);
    if (softmax.window > 0) parts += fmt::format(" window {}", softmax.window);
    if (softmax.softcap > 0) parts += fmt::format(" softcap {}", softmax.softcap);
    if (!softmax.sink_logits.empty()) parts += " learned sinks";
    line("softmax", parts);
  }
  if (info.probe_len > 0) {
    line("probe", fmt::format("{} tokens after each prefill chunk, and the novelty of each token",
                              info.probe_len));
  }
  line("memory", memory_text(session));
  for (const table::Table& table : {spans_table(info), runs_table(info)})
    if (!table.rows.empty()) text += "\n" + terminal_text(table);
  return text;
}

}  // namespace

Command info_command(const GlobalOptions& global) {
  struct Options {
    std::string path;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  Command command("info", "what a trace holds");
  command.option("trace", &options->path, "the trace file").required();
  command.option("--json", &options->json, "print JSON");
  command.run = [options, &global](const Given&) {
    const session::TraceSession session(options->path, global.memory);
    report_damage(session.info());
    options->json ? results::add_data(json_text("kvloupe-info/1", info_json(session), 2))
                  : results::add_text(info_text(session));
  };
  return command;
}

}  // namespace kvloupe::cli
