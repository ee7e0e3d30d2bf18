// `kvloupe report`: a page about a method, about several beside each other, or about two selections that
// differ, as Markdown and pictures, or as HTML.
#include "app/cli/commands.h"
#include "app/cli/report.h"
#include "core/base/error.h"
#include "core/base/letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace kvloupe::cli {
namespace {

// A folder of such a name would not be what was meant.
constexpr std::array<std::string_view, 8> kOtherFiles{".pdf", ".svg", ".png",  ".md",
                                                      ".tex", ".csv", ".json", ".docx"};

void run_report(const ReportArguments& arguments, const GlobalOptions& global) {
  if (arguments.output.empty() || arguments.output == "-")
    throw usage_error("-o names nothing", "the page needs a folder or a file",
                      "give a folder, such as -o report, or a file, such as -o report.html");
  const std::string kind = lower_case(std::filesystem::path(arguments.output).extension().string());
  if (std::find(kOtherFiles.begin(), kOtherFiles.end(), kind) != kOtherFiles.end() &&
      !std::filesystem::is_directory(arguments.output))
    throw usage_error(fmt::format("a report is no {} file", kind.substr(1)),
                      "it is one HTML file, or a folder of report.md and its pictures",
                      "give -o report.html or a folder; kvloupe export writes one view");
  const replay::MethodList list = replay::parse_methods(arguments.methods);
  if (arguments.traces.size() == 1 && arguments.methods.size() == 1 && list.methods.size() == 1)
    return report_method(arguments, global);
  if (arguments.traces.size() == 1) return report_comparison(arguments, list.methods, global);
  if (list.methods.size() > 2)
    throw usage_error(fmt::format("{} methods on two traces make no page", list.methods.size()),
                      "it sets A beside B",
                      "give --method once or twice, or one trace, or use kvloupe compare");
  std::error_code unknown;
  if (std::filesystem::equivalent(arguments.traces[0], arguments.traces[1], unknown))
    throw usage_error("A and B are one trace", "there would be nothing beside it",
                      "name it once: several methods make a page of one trace, too");
  report_difference(arguments, list.methods, global);
}

}  // namespace

Command report_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<ReportArguments>();
  Command command("report",
                  "one page about a method on a trace, about several, or about two traces: what is "
                  "kept, what is lost, and why");
  command
      .option("traces", &arguments->traces,
              "trace file; or two, A and B, whose tokens are aligned: where they keep other keys")
      .required()
      .between(1, 2);
  command
      .option("--method", &arguments->methods,
              "method SPEC, see kvloupe methods; one that takes a budget and names none has "
              "budget_tokens=1024. Or a recorded run: run:N, or what it is called (kvloupe info). "
              "Given again: further ones, set beside the first; of two traces that of B")
      .required()
      .repeated();
  add_layers_option(command, arguments->layers, "layers of the numbers (default: all)");
  add_chunks_option(command, arguments->chunks, "chunks of the numbers (default: all)");
  add_chunk_size_option(command, arguments->chunk_size);
  command
      .option("-o,--output", &arguments->output,
              "folder for report.md and its pictures, or one file: report.html")
      .required();
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--force", &arguments->force, "replace a trace or a model, too");
  command.run = with_engine(global, [arguments, &global] { run_report(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
