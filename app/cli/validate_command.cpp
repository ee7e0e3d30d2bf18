// `kvloupe validate`: is this trace sound?
#include "app/cli/commands.h"
#include "app/state/open_trace.h"
#include "app/state/tour.h"
#include "app/widgets/markdown.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/memory_account.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/trace/check/repair.h"
#include "core/trace/results/results_file.h"
#include "core/trace/trace_reader.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace kvloupe::cli {
namespace {

void validate_tour(const std::string& path) {
  const state::Tour tour = state::load_tour(path);
  const auto memory = std::make_shared<MemoryAccount>();
  std::map<std::string, state::TraceTab> tabs;
  const auto open = [&](const std::string& trace) -> state::TraceTab& {
    const auto found = tabs.find(trace);
    if (found != tabs.end()) return found->second;
    return tabs.emplace(trace, state::tab_of(state::open_trace(trace, memory))).first->second;
  };
  for (const state::TourPage& page : tour.pages) {
    std::string problem = state::problem_of(page, open(page.at.trace));
    for (const std::string& text : {page.body, page.to_try, page.to_see})
      if (problem.empty()) problem = widgets::problem_in_markdown(text);
    if (!problem.empty())
      throw input_error(
          fmt::format("the page '{}' of {} is not sound", printable(page.title), printable(path)),
          problem, "see docs/tours.md");
    if (!page.at.other_trace.empty()) open(page.at.other_trace);
  }
  results::print("{}: sound\n{} pages\n", printable(path), tour.pages.size());
}

void validate(const std::string& path) {
  // A path that leads to no file is no defect of a trace: the reader says what is wrong with it.
  // The same where it holds results.
  if (!std::filesystem::is_regular_file(path) || trace::is_results_file(path))
    trace::TraceReader{path};
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
                      "take what is sound by --repair COPY.h5, or capture the trace again");
  }
  std::string text = fmt::format("{}: sound\n", printable(path));
  for (const auto& note : found.notes) text += fmt::format("note: {}\n", printable(note));
  results::add_text(text);
}

struct RepairArguments {
  std::string trace, copy;
  bool force = false;
};

void repair(const RepairArguments& arguments) {
  WorkContext context;
  context.cancel = interrupt_token();
  const trace::Repair done =
      trace::repair_trace(arguments.trace, arguments.copy, arguments.force, context);
  for (const auto& sentence : done.left_out) log::info("left out: {}", sentence);
  results::print("{}: a sound copy of {} tokens, {} layer{} and {} run{}; {}\n", arguments.copy,
                 format_count(done.num_tokens), done.layers.size(),
                 done.layers.size() == 1 ? "" : "s", done.num_runs, done.num_runs == 1 ? "" : "s",
                 done.left_out.empty()
                     ? std::string("nothing was left out")
                     : fmt::format("{} left out, named above", done.left_out.size()));
}

}  // namespace

Command validate_command(const GlobalOptions&) {
  auto given = std::make_shared<RepairArguments>();
  Command command("validate", "check a trace thoroughly, or a tour");
  command.option("trace", &given->trace, "the trace file, or the tour (.md)").required();
  command.option("--repair", &given->copy,
                 "write a clean copy of what is sound in it to this file");
  command.option("--force", &given->force, "the copy may replace a file").only_with("--repair");
  command.run = [given](const Given&) {
    if (given->copy.empty() && std::filesystem::path(given->trace).extension() == ".md") {
      validate_tour(given->trace);
    } else if (given->copy.empty()) {
      validate(given->trace);
    } else {
      repair(*given);
    }
  };
  return command;
}

}  // namespace kvloupe::cli
