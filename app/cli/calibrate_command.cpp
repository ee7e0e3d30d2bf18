// `kvloupe calibrate`: fits the bases that loki and the AQUA methods rotate by. What is fitted on
// traces is in calibrate_on_traces_command.cpp.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "capture/engine.h"
#include "capture/run/calibrate.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"

#include <algorithm>
#include <memory>

namespace kvloupe::cli {
namespace {

struct CalibrateArguments {
  std::vector<std::string> kinds;
  std::string corpus;
  std::string output;
  capture::CalibrateOptions options;
};

std::vector<trace::BasisKind> kinds_of(const CalibrateArguments& arguments) {
  if (arguments.kinds.empty())
    throw usage_error("calibrate does not know what to fit", "nothing is named",
                      "name loki, aqua, seer or minference");
  std::vector<trace::BasisKind> kinds;
  for (const std::string& name : arguments.kinds) {
    const auto kind = name == "loki" ? trace::BasisKind::Loki : trace::BasisKind::Aqua;
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end())
      throw usage_error(name + " is given twice", "one pass fits it once", "name it once");
    kinds.push_back(kind);
  }
  if (kinds.size() > 1 && !arguments.output.empty())
    throw usage_error("-o names one file", "two bases are asked for",
                      "leave -o out, or calibrate one after the other");
  return kinds;
}

void print_shares(const trace::Basis& basis) {
  // Of the second moment that the leading quarter and half of the lanes hold, over all layers.
  double total = 0, quarter = 0, half = 0;
  for (const auto& [layer, data] : basis.layers) {
    for (std::size_t i = 0; i < data.values.size(); ++i) {
      const auto lane = static_cast<int>(i) % basis.head_dim;
      total += data.values[i];
      if (4 * lane < basis.head_dim) quarter += data.values[i];
      if (2 * lane < basis.head_dim) half += data.values[i];
    }
  }
  if (total > 0)
    results::print("the leading quarter of the lanes holds {:.1f} %, the leading half {:.1f} %\n",
                   100 * quarter / total, 100 * half / total);
}

void run(const CalibrateArguments& arguments) {
  capture::CalibrateOptions options = arguments.options;
  options.kinds = kinds_of(arguments);
  options.output = arguments.output;
  if (!arguments.corpus.empty()) options.text.corpus = arguments.corpus;
  const WorkContext context = reporting_context("tokens");
  for (const auto& [path, basis] : capture_engine().run_calibration(options, context)) {
    results::print("{}\n{} of {}: {} tokens of {} (SHA-256 {}...), {} layers\n",
                   printable(path.string()), trace::name_of(basis.kind),
                   printable(basis.model_name), format_count(basis.num_tokens),
                   printable(basis.source), basis.source_hash.substr(0, 16), basis.layers.size());
    print_shares(basis);
  }
}

}  // namespace

Command calibrate_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<CalibrateArguments>();
  Command command("calibrate",
                  "fit what methods need: bases of loki and the AQUA methods, the gate of "
                  "seer_attention, the patterns of minference");
  command.option("kind", &arguments->kinds, "loki, aqua, or both, which takes one pass")
      .between(1, 2)
      .one_of({"loki", "aqua"});
  command
      .option("--model", &arguments->options.model,
              "smollm2, a .gguf file, a Hugging Face folder, or a name that `kvloupe models` lists")
      .show_default();
  command.option("--corpus", &arguments->corpus,
                 "text file to run over, its first 64 MiB (default: the novel Persuasion, "
                 "which no task draws from)");
  command.option("--sequences", &arguments->options.text.sequences, "spread evenly over the text")
      .range(1, 1 << 16)
      .show_default();
  command.option("--length", &arguments->options.text.length, "tokens of each sequence")
      .range(1, 1 << 20)
      .show_default();
  command.option("-o,--output", &arguments->output,
                 "basis file to write (default: the one that basis=auto means)");
  command.option("--device", &arguments->options.device, kDeviceHelp).show_default();
  command.option("--force", &arguments->options.force, "overwrite the output");
  command.footer =
      "The papers calibrate on sequences of 4,096 tokens (Loki: wikitext; AQUA: BookCorpus, how\n"
      "many is not said). The defaults are smaller so that a first use takes a minute or two on\n"
      "two cores.";
  command.subcommands = calibrations_on_traces(global);
  command.run = with_engine(global, [arguments] { run(*arguments); });
  return command;
}

}  // namespace kvloupe::cli
