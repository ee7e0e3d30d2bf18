#include "core/calibration/gate_training.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/base/version.h"
#include "core/calibration/gate_learning.h"
#include "core/replay/replay.h"
#include "core/selection/cell_rows.h"
#include "core/session/session_tensors.h"
#include "core/trace/write/part_file.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>

namespace kvloupe::calibration {
namespace {

namespace fs = std::filesystem;
using Sessions = std::vector<std::unique_ptr<session::TraceSession>>;
using Clock = std::chrono::steady_clock;

constexpr const char* kWhatFailed = "a gate cannot be trained on these traces";
constexpr std::int64_t kLeastBlocks = 8;  // query blocks of a text that is worth its training

std::int32_t prefill_length(const session::TraceSession& session) {
  std::int32_t end = 0;
  for (const trace::ChunkInfo& chunk : session.info().chunks)
    if (chunk.phase == trace::Phase::Prefill) end = std::max(end, chunk.end());
  return end;
}

Sessions open_all(const GateTrainingOptions& options) {
  Sessions sessions;
  for (const fs::path& path : options.traces) {
    sessions.push_back(std::make_unique<session::TraceSession>(path, options.memory));
    const trace::TraceInfo& info = sessions.back()->info();
    if (info.model.file_hash != sessions.front()->info().model.file_hash)
      throw input_error(kWhatFailed,
                        fmt::format("{} is of {}, {} of another model", options.traces[0].string(),
                                    sessions.front()->info().model.name, path.string()),
                        "name traces of one model");
    if (info.layers != sessions.front()->info().layers)
      throw input_error(
          kWhatFailed,
          fmt::format("{} has other layers than {}", path.string(), options.traces[0].string()),
          "name traces with the same layers");
    if (prefill_length(*sessions.back()) < kLeastBlocks * options.block_size)
      throw input_error(kWhatFailed,
                        fmt::format("{} has a prompt of {} tokens, less than {} blocks",
                                    path.string(), prefill_length(*sessions.back()), kLeastBlocks),
                        "capture a longer prompt");
  }
  return sessions;
}

// The examples of one layer, of which text which query blocks count for what. The first quarter of
// a text counts for nothing, as in SeerAttention's training.
struct LayerExamples {
  std::vector<GateExample> train, held_out;
};

LayerExamples examples_of(const Sessions& sessions, int layer, const GateTrainingOptions& options,
                          const WorkContext& context) {
  const selection::ModelShape shape = sessions.front()->shape();
  const selection::GatePools pools(shape, options.block_size, kWhatFailed);
  const GateTarget target = options.target_sum ? GateTarget::Sum : GateTarget::Max;
  LayerExamples examples;
  for (const auto& session : sessions) {
    context.cancel.throw_if_cancelled();
    const trace::ChunkInfo whole = {0, prefill_length(*session), trace::Phase::Prefill};
    GateExample example = gate_example(session::load_cell(*session, layer, 0, whole), pools,
                                       options.block_size, target);
    const std::int64_t blocks = example.last_row;
    example.first_row = blocks / 4;
    if (sessions.size() > 1) {
      (session == sessions.back() ? examples.held_out : examples.train).push_back(example);
      continue;
    }
    example.last_row = blocks - blocks / 4;
    examples.train.push_back(example);
    example.first_row = example.last_row;
    example.last_row = blocks;
    examples.held_out.push_back(example);
  }
  return examples;
}

std::int64_t count_rows(const std::vector<GateExample>& examples) {
  std::int64_t rows = 0;
  for (const GateExample& example : examples) rows += example.last_row - example.first_row;
  return rows;
}

selection::GateLayer train_layer(const Sessions& sessions, int layer,
                                 const GateTrainingOptions& options, GateTrainingReport& report,
                                 const WorkContext& context) {
  const trace::ModelInfo& model = sessions.front()->info().model;
  const LayerExamples examples = examples_of(sessions, layer, options, context);
  std::int64_t blocks = 0;
  for (const auto* list : {&examples.train, &examples.held_out})
    for (const GateExample& example : *list) blocks = std::max(blocks, example.queries.size(1));
  const bool turns = selection::has_rotary(sessions.front()->shape(), layer);
  const GateRotation rotation =
      turns ? gate_rotation(model.rope_theta, options.hidden, options.block_size, blocks)
            : GateRotation{};
  GateWeights weights =
      initial_gate(model.num_q_heads, model.num_kv_heads, model.head_dim, options.hidden,
                   model.softmax_scale, options.seed + static_cast<std::uint64_t>(layer));
  const std::vector<GateLoss> losses =
      fit_gate(weights, rotation, examples.train, examples.held_out,
               {options.steps, options.learning_rate, options.weight_decay}, context.cancel);
  report.train_blocks = count_rows(examples.train);
  report.held_out_blocks = count_rows(examples.held_out);
  report.losses.resize(losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    report.losses[i].step = losses[i].step;
    report.losses[i].train += losses[i].train;
    report.losses[i].held_out += losses[i].held_out;
  }
  selection::GateLayer gate;
  gate.num_k_heads = model.num_kv_heads;
  gate.q_weight = selection::on_host<float>(weights.q);
  gate.k_weight = selection::on_host<float>(weights.k);
  return gate;
}

std::map<std::string, std::string> metadata_of(const Sessions& sessions,
                                               const GateTrainingOptions& options) {
  const trace::ModelInfo& model = sessions.front()->info().model;
  std::vector<std::string> names;
  for (const fs::path& path : options.traces) names.push_back(path.filename().string());
  return {{"format", "kvloupe-gate"},
          {"producer", "kvloupe " + version()},
          {"gate_type", "Qavg_Kmaxminavg"},
          {"model_name", model.name},
          {"model_hash", model.file_hash},
          {"block_size", fmt::format("{}", options.block_size)},
          {"hidden_size", fmt::format("{}", options.hidden)},
          {"num_q_heads", fmt::format("{}", model.num_q_heads)},
          {"num_kv_heads", fmt::format("{}", model.num_kv_heads)},
          {"head_dim", fmt::format("{}", model.head_dim)},
          {"source", fmt::format("{}", fmt::join(names, " "))},
          {"target", options.target_sum ? "sum" : "max"},
          {"steps", fmt::format("{}", options.steps)},
          {"learning_rate", format_shortest(options.learning_rate)},
          {"weight_decay", format_shortest(options.weight_decay)},
          {"seed", fmt::format("{}", options.seed)}};
}

// Budgets of 2, 4, 8 and 16 blocks of 128, at most half of the text; of a short text a quarter.
std::vector<std::int64_t> budgets_for(std::int64_t length, std::int64_t block_size) {
  std::vector<std::int64_t> budgets;
  for (const std::int64_t budget : {256, 512, 1024, 2048})
    if (2 * budget <= length) budgets.push_back(budget);
  if (budgets.empty()) budgets.push_back(length / 4 / block_size * block_size);
  return budgets;
}

std::vector<GateRecall> measure(const session::TraceSession& session, std::int32_t held_out_begin,
                                const GateTrainingOptions& options, const WorkContext& context) {
  struct Asked {
    std::string method;
    std::int64_t budget;
  };
  std::vector<Asked> asked;
  std::vector<selection::MethodSpec> specs;
  for (const std::int64_t budget : budgets_for(prefill_length(session), options.block_size))
    for (const std::string& method :
         {fmt::format("seer_attention:gate={},block_size={},lowering=budget",
                      options.output.string(), options.block_size),
          fmt::format("flash_prefill:block_size={},lowering=budget", options.block_size),
          fmt::format("xattention:block_size={},stride={},lowering=budget", options.block_size,
                      std::gcd(options.block_size, 16)),
          std::string("random:seed=0")}) {
      const std::string text = fmt::format("{},budget_tokens={}", method, budget);
      specs.push_back(selection::MethodSpec::parse(text).resolved(session.shape()));
      asked.push_back({specs.back().id(), budget});
    }
  replay::ReplayRequest request;
  request.want_mass = true;
  std::vector<GateRecall> recalls(asked.size());
  const auto sink = [&](std::size_t index, replay::ReplayCell&& cell) {
    if (cell.span.phase != trace::Phase::Prefill || cell.span.begin < held_out_begin ||
        cell.span.begin <= asked[index].budget || cell.dense_reason)
      return;
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      ++recalls[index].cells;
      recalls[index].mass_recall += cell.metrics[row].mass_recall;
      recalls[index].density += static_cast<double>(cell.rows[row].positions.size()) /
                                static_cast<double>(cell.num_candidates);
    }
  };
  replay::replay_methods(session, specs, request, sink, context);
  for (std::size_t i = 0; i < recalls.size(); ++i) {
    recalls[i].method = asked[i].method;
    recalls[i].budget_tokens = asked[i].budget;
    const auto cells = static_cast<double>(std::max<std::int64_t>(1, recalls[i].cells));
    recalls[i].mass_recall /= cells;
    recalls[i].density /= cells;
  }
  return recalls;
}

}  // namespace

GateTrainingReport train_gate(const GateTrainingOptions& options, const WorkContext& context) {
  InputFiles inputs;
  for (const auto& trace : options.traces)
    for (const auto& file : trace::files_of_trace(trace)) inputs.push_back(file);
  check_calibration_file(options.output, "a gate", inputs, options.force);
  const Sessions sessions = open_all(options);
  const std::vector<int>& layers = sessions.front()->info().layers;
  GateTrainingReport report;
  report.num_layers = static_cast<int>(layers.size());
  selection::Gate gate;
  gate.hidden = options.hidden;
  gate.metadata = metadata_of(sessions, options);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    gate.layers[layers[i]] = train_layer(sessions, layers[i], options, report, context);
    context.report(static_cast<std::int64_t>(i) + 1, report.num_layers, "training");
  }
  report.training_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  for (GateLossPoint& point : report.losses) {
    point.train /= report.num_layers;
    point.held_out /= report.num_layers;
  }
  selection::write_gate(options.output, gate, sessions.front()->shape());

  const session::TraceSession& held_out = *sessions.back();
  const std::int32_t length = prefill_length(held_out);
  const std::int64_t blocks = (length + options.block_size - 1) / options.block_size;
  const auto held_out_begin =
      sessions.size() > 1 ? 0
                          : static_cast<std::int32_t>((blocks - blocks / 4) * options.block_size);
  report.held_out = sessions.size() > 1 ? options.traces.back().filename().string()
                                        : fmt::format("the last quarter of {}, from token {} on",
                                                      options.traces.back().filename().string(),
                                                      format_count(held_out_begin));
  report.recalls = measure(held_out, held_out_begin, options, context);
  return report;
}

}  // namespace kvloupe::calibration
