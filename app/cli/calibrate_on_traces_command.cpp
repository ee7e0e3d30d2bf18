// `kvloupe calibrate seer`, `kvloupe calibrate minference`: what methods learn from traces.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/calibration/gate_training.h"
#include "core/calibration/pattern_search.h"
#include "core/engine/engine.h"
#include "core/replay/table.h"

#include <fmt/format.h>

#include <memory>

namespace kvloupe::cli {
namespace {

using replay::Number;
using table::Table;

// Options of `calibrate` itself would be passed over in silence.
void refuse_other_options(const Given& given, const std::string& name) {
  if (given.outer_options.empty()) return;
  throw usage_error(fmt::format("calibrate {} does not take {}", name, given.outer_options.front()),
                    "it belongs to the calibration of loki and aqua",
                    fmt::format("see kvloupe calibrate {} --help", name));
}

void run_seer(const calibration::GateTrainingOptions& options) {
  const calibration::GateTrainingReport report =
      engine().train_gate(options, reporting_context("layers"));
  results::print(
      "{}\ngate of {} layers, trained on {} query blocks of each head in {}; held out: {}\n\n",
      printable(options.output.string()), report.num_layers, format_count(report.train_blocks),
      format_duration(report.training_seconds), printable(report.held_out));
  Table losses{{"step", {"train", "KL train", "", 4}, {"held_out", "KL held out", "", 4}}, {}};
  for (const calibration::GateLossPoint& point : report.losses)
    losses.rows.push_back({point.step, point.train, point.held_out});
  results::print("{}\n", table::terminal_text(losses));
  Table recalls{{{"method", "held out, lowering=budget"},
                 "budget",
                 "cells",
                 Number::Density,
                 Number::MassRecall},
                {}};
  for (const calibration::GateRecall& recall : report.recalls)
    recalls.rows.push_back({table::MethodText{recall.method}, recall.budget_tokens, recall.cells,
                            recall.density, recall.mass_recall});
  results::print("{}", table::terminal_text(recalls));
}

void run_minference(const calibration::PatternSearchOptions& options) {
  const calibration::PatternSearchReport report =
      engine().search_patterns(options, reporting_context("layers"));
  results::print("{}\npatterns of {} heads in {} layers, at most {} of the past each\n\n",
                 printable(options.output.string()), report.num_heads, report.num_layers,
                 format_shortest(options.max_density));
  Table patterns{{{"pattern", "pattern, columns, diagonals"}, "heads"}, {}};
  for (const auto& [name, count] : report.num_heads_of) patterns.rows.push_back({name, count});
  results::print("{}\n", table::terminal_text(patterns));
  Table means{{{"means", "mean over heads and chunks"}, Number::MassRecall, Number::Density}, {}};
  const auto add = [&](const char* name, const calibration::PatternQuality& quality) {
    means.rows.push_back({name, quality.recall, quality.density});
  };
  add("found", report.found);
  add("without a file (1000, 6096)", report.fallback);
  results::print("{}", table::terminal_text(means));
  if (report.over_budget > 0)
    log::warning("in {} heads no pattern is that small; they have the smallest",
                 report.over_budget);
}

Command seer_command(const GlobalOptions& global) {
  auto options = std::make_shared<calibration::GateTrainingOptions>();
  auto traces = std::make_shared<std::vector<std::string>>();
  auto target = std::make_shared<std::string>("max");
  Command command("seer", "train the gate of seer_attention on traces of one model");
  command
      .option("traces", traces.get(),
              "traces of one model; the last of several is held out, of one its last quarter")
      .required();
  command.option("-o,--output", &options->output, "safetensors file to write").required();
  command.option("--force", &options->force, "overwrite the output");
  command.option("--block-size", &options->block_size, "tokens of a block")
      .range(8, 1024)
      .show_default();
  command.option("--hidden", &options->hidden, "channels of the gate, even")
      .range(2, 1024)
      .show_default();
  command.option("--steps", &options->steps, "steps of descent, over all traces each")
      .range(1, 100000)
      .show_default();
  command.option("--learning-rate", &options->learning_rate, "of AdamW, at its highest")
      .finite_range(1e-9, 10)
      .show_default();
  command.option("--weight-decay", &options->weight_decay, "of AdamW")
      .finite_range(0, 1)
      .show_default();
  command
      .option("--target", target.get(),
              "attention of a block pair: max, its largest entry, as published; or sum")
      .one_of({"max", "sum"})
      .show_default();
  command.option("--seed", &options->seed, "of the noise that training begins with").show_default();
  command.footer =
      "The gate learns the pooled attention of the dense model (KL, AdamW, cosine), layer by "
      "layer.\n"
      "Traces of 4,096 tokens with as many texts as there is time for suit a small model:\n"
      "  kvloupe capture --model smollm2 --task niah:length=4096,seed=1 -o T1.h5";
  command.run = [=, &global](const Given& given) {
    refuse_other_options(given, "seer");
    if (options->hidden % 2 != 0)
      throw usage_error("--hidden is not valid", "the gate's channels turn in pairs",
                        "give an even number");
    options->traces.assign(traces->begin(), traces->end());
    options->target_sum = *target == "sum";
    options->memory = global.memory;
    use_engine(global);
    run_seer(*options);
  };
  return command;
}

Command minference_command(const GlobalOptions& global) {
  auto options = std::make_shared<calibration::PatternSearchOptions>();
  Command command("minference", "search the pattern of each query head for minference on a trace");
  command.option("trace", &options->trace, "trace file").required();
  command.option("-o,--output", &options->output, "JSON file to write").required();
  command.option("--force", &options->force, "overwrite the output");
  command
      .option("--max-density", &options->max_density,
              "past keys that a head may attend to, as a mean share of the past")
      .finite_range(0, 1)
      .show_default();
  command.footer =
      "Of each head's candidates within that budget the one with the largest recall of the past's\n"
      "attention is kept, over all chunks of the trace. The repository searches one prompt of "
      "some\n"
      "30,000 tokens with a few fixed sizes and writes every winner as vertical_and_slash; here\n"
      "sizes are parts of the trace's length, and a winner keeps its type.";
  command.run = [=, &global](const Given& given) {
    refuse_other_options(given, "minference");
    options->memory = global.memory;
    use_engine(global);
    run_minference(*options);
  };
  return command;
}

}  // namespace

std::vector<Command> calibrations_on_traces(const GlobalOptions& global) {
  std::vector<Command> commands;
  commands.push_back(seer_command(global));
  commands.push_back(minference_command(global));
  return commands;
}

}  // namespace kvloupe::cli
