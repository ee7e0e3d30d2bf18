// `kvloupe import`: selections, or q, k and v, that another program wrote as arrays.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "core/base/printable.h"
#include "core/base/python_package.h"
#include "core/base/results.h"

#include <fmt/format.h>

#include <array>
#include <memory>

namespace kvloupe::cli {
namespace {

struct TextOption {
  const char* name;
  const char* help;
};
// The package reads and checks them (capture/python/kvloupe/arguments.py), and says what goes with what.
constexpr std::array kOptions{
    TextOption{"--trace", "the trace beside which selections are saved"},
    TextOption{"--name", "what the run is called: custom:NAME"},
    TextOption{"--note", "a text that is stored with the run"},
    TextOption{"--q",
               "queries [layers, heads, tokens, channels]: a trace is made of them with "
               "--k and --v"},
    TextOption{"--k", "keys, as they enter the product"},
    TextOption{"--v", "values"},
    TextOption{"--ids", "the tokens' ids (default: their positions)"},
    TextOption{"--texts", "a JSON list of the tokens' texts"},
    TextOption{"--layers", "layers that the arrays are of (default: all, or from 0 on)"},
    TextOption{"--chunk-size", "tokens of a prefill chunk (default: 128)"},
    TextOption{"--scale", "of the logits (default: 1 / sqrt(channels))"},
    TextOption{"--rope-theta", "base of the rotary embedding that q and k have (default: unknown)"},
    TextOption{"--model", "the model's name"},
    TextOption{"--dtype", "float16 or float32: how q, k and v are stored (default: as they are)"},
};

struct ImportArguments {
  std::array<std::string, kOptions.size()> values;
  std::string file, output;
  bool force = false;
};

void run_import(const ImportArguments& given) {
  std::vector<std::string> arguments{"import"};
  for (std::size_t i = 0; i < kOptions.size(); ++i)
    if (!given.values[i].empty())
      arguments.push_back(fmt::format("{}={}", kOptions[i].name, given.values[i]));
  if (!given.output.empty()) arguments.insert(arguments.end(), {"-o", given.output});
  if (given.force) arguments.emplace_back("--force");
  if (!given.file.empty()) arguments.insert(arguments.end(), {"--", given.file});
  run_python_package(arguments);
  results::print("{}\n",
                 printable(given.output.empty() ? fmt::format("custom:{} in {}.runs.h5",
                                                              given.values[1], given.values[0])
                                                : given.output));
}

}  // namespace

Command import_command(const GlobalOptions&) {
  auto given = std::make_shared<ImportArguments>();
  Command command("import", "take selections, or q, k and v, that another program wrote as arrays");
  command.option("file", &given->file,
                 "selections as .npy, .npz or .safetensors: positions padded by -1, a mask, or "
                 "offsets and positions");
  for (std::size_t i = 0; i < kOptions.size(); ++i)
    command.option(kOptions[i].name, &given->values[i], kOptions[i].help);
  command.option("-o,--output", &given->output, "the trace to write of q, k and v");
  command.option("--force", &given->force, "replace the file if it exists");
  command.footer = "docs/import.md says which arrays engines give, and what their axes mean.";
  command.run = [given](const Given&) { run_import(*given); };
  return command;
}

}  // namespace kvloupe::cli
