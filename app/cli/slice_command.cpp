// `kvloupe slice`: a smaller trace, of a part of another one.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/trace/write/slice.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

namespace kvloupe::cli {
namespace {

struct SliceArguments {
  std::string trace, output, runs, dtype;
  Indices layers;
  std::optional<int> until_chunk;
  bool force = false;
};

trace::SliceRequest request_of(const SliceArguments& arguments) {
  trace::SliceRequest request;
  request.layers = arguments.layers.numbers;
  request.until_chunk = arguments.until_chunk;
  if (arguments.runs == "none") {
    request.runs = std::vector<int>();
  } else if (const Indices runs =
                 parse_indices("--runs", arguments.runs.empty() ? "all" : arguments.runs);
             !runs.numbers.empty()) {
    request.runs = runs.numbers;
  }
  if (arguments.dtype == "f16") request.dtype = trace::DType::F16;
  if (arguments.dtype == "f32") request.dtype = trace::DType::F32;
  return request;
}

void run_slice(const SliceArguments& arguments) {
  const trace::Slice slice =
      trace::slice_trace(arguments.trace, request_of(arguments), arguments.output, arguments.force,
                         reporting_context("layers of runs"));
  for (const std::string& sentence : slice.left_out) log::info("left out: {}", sentence);
  const auto counted = [](std::int64_t count, const char* what) {
    return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
  };
  results::print("{}: {} in {}, {}, {}; {} of {}\n", printable(arguments.output),
                 counted(slice.num_tokens, "token"), counted(slice.num_chunks, "chunk"),
                 counted(std::ssize(slice.layers), "layer"), counted(slice.num_runs, "run"),
                 format_bytes(slice.bytes),
                 format_bytes(std::filesystem::file_size(arguments.trace)));
}

}  // namespace

Command slice_command(const GlobalOptions&) {
  auto given = std::make_shared<SliceArguments>();
  Command command("slice", "write a smaller trace: some layers, the first chunks, some runs");
  command.option("trace", &given->trace, "the trace file").required();
  add_layers_option(command, given->layers, "layers of the slice (default: all)");
  command
      .option("--until-chunk", &given->until_chunk,
              "the last chunk of the slice (default: the last)")
      .range(0, 1 << 24);
  command.option(
      "--runs", &given->runs,
      "runs of the slice, by their numbers in kvloupe info: 0,2, or none (default: all)");
  command
      .option(
          "--dtype", &given->dtype,
          "type of q, k and v (default: that of the trace); what is selected anew may differ where "
          "they are rounded")
      .one_of({"f16", "f32"});
  command.option("-o,--output", &given->output, "the trace to write").required();
  command.option("--force", &given->force, "replace the file if it exists");
  command.run = [given](const Given&) { run_slice(*given); };
  return command;
}

}  // namespace kvloupe::cli
