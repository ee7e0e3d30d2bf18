// `kvloupe validate`: is this trace sound?
#include "app/cli/commands.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/trace/trace_reader.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

namespace kvloupe::cli {
namespace {

void validate(const std::string& path) {
  // A path that leads to no file is no defect of a trace: the reader says what is wrong with it.
  if (!std::filesystem::is_regular_file(path)) trace::TraceReader{path};
  WorkContext context;
  context.cancel = interrupt_token();
  const trace::Validation found = trace::check_trace(path, context);
  if (!found.defects.empty()) {
    for (const auto& note : found.notes) log::info("note: {}", note);
    for (const auto& defect : found.defects) log::write(log::Level::Warning, defect);
    const auto count = static_cast<std::int64_t>(found.defects.size());
    throw input_error(fmt::format("{} is not sound", path),
                      fmt::format("it has {} {}", format_count(count),
                                  count == 1 ? "defect, named above" : "defects, named above"),
                      "capture the trace again or repair what is named");
  }
  std::string text = fmt::format("{}: sound\n", printable(path));
  for (const auto& note : found.notes) text += fmt::format("note: {}\n", printable(note));
  results::add_text(text);
}

}  // namespace

void add_validate_command(CLI::App& program, const GlobalOptions&) {
  auto path = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("validate", "check a trace thoroughly");
  command->add_option("trace", *path, "the trace file")->required();
  command->callback([path] { validate(*path); });
}

}  // namespace kvloupe::cli
