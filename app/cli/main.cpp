// The program: reads the command line, runs one subcommand or the window, and turns every failure
// into one sentence and the exit code of the contract.
#include "app/cli/command_line.h"
#include "app/cli/commands.h"
#include "app/cli/completions.h"
#include "app/cli/options.h"
#include "app/shell/frame/window.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/foreign_error.h"
#include "core/base/log.h"
#include "core/base/paths.h"
#include "core/base/results.h"
#include "core/base/thread_room.h"
#include "core/base/thread_waiting.h"
#include "core/base/units.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

constexpr int kMostThreads = 256;  // or the machine's own
constexpr const char* kAbout =
    "KVLoupe shows which KVs each sparse-attention method keeps, and why.\n"
    "Without a subcommand it opens the window with the traces named.";

// Any word that no subcommand claims is taken for a trace to open; one that can't be a file name of
// ours is more likely a misspelt subcommand.
void refuse_unknown_subcommand(const std::string& name) {
  const bool like_a_file = name.find_first_of("./") != std::string::npos;
  if (!like_a_file && !std::filesystem::exists(name))
    throw usage_error("'" + name + "' is not a subcommand", "no file has that name either",
                      "see kvloupe --help for the subcommands");
}

// A word that a subcommand has no place for falls through to the window's traces, where it would be
// passed over in silence.
void refuse_stray_words(const std::string& subcommand, const std::vector<std::string>& traces,
                        const std::string& go_to) {
  if (subcommand.empty() || (traces.empty() && go_to.empty())) return;
  if (traces.empty())
    throw usage_error("--goto does not go with " + subcommand, "it is of the window and of export",
                      "see kvloupe " + subcommand + " --help");
  throw usage_error("'" + traces.front() + "' is one word too many",
                    subcommand + " has no place for it", "see kvloupe " + subcommand + " --help");
}

struct ProgramArguments {
  GlobalOptions global;
  std::string memory_limit, config_dir;
  bool quiet = false;
  std::vector<std::string> traces;
  std::string go_to;
};

// What acts before any subcommand.
void begin(ProgramArguments& arguments, const Given& given) {
  refuse_stray_words(given.subcommand, arguments.traces, arguments.go_to);
  log::set_quiet(arguments.quiet);
  if (!arguments.config_dir.empty()) paths::set_config_dir(arguments.config_dir);
  if (arguments.memory_limit.empty()) return;
  const auto bytes = parse_size(arguments.memory_limit);
  if (!bytes || *bytes == 0)
    throw usage_error("--memory-limit is not a size", "'" + arguments.memory_limit + "' was given",
                      "write a number with a unit, for example 8GB or 512MiB");
  arguments.global.memory = std::make_shared<MemoryAccount>(*bytes);
  arguments.global.limits_memory = true;
}

int open_window(const ProgramArguments& arguments) {
  if (!arguments.go_to.empty() && arguments.traces.empty())
    throw usage_error("--goto leads nowhere", "no trace is named",
                      "write kvloupe T.h5 --goto layer=3,chunk=12");
  for (const std::string& name : arguments.traces) refuse_unknown_subcommand(name);
  shell::WindowOptions window;
  for (const std::string& name : arguments.traces) {
    const bool is_tour = std::filesystem::path(name).extension() == ".md";
    if (is_tour && !window.tour.empty())
      throw usage_error("two tours are named", "the window leads through one at a time",
                        "leave one out");
    if (is_tour)
      window.tour = name;
    else
      window.traces.push_back(name);
  }
  if (!arguments.go_to.empty()) window.at = state::parse_link(arguments.go_to);
  if (window.at && !window.at->view.empty()) state::view_named(window.at->view);
  window.memory = arguments.global.memory;
  window.bases = basis_maker();
  std::once_flag started;
  window.start_engine = [&] { std::call_once(started, use_engine, arguments.global); };
  return shell::run_window(window);
}

Command program_command(ProgramArguments& arguments) {
  Command program("kvloupe", kAbout);
  program.option("--threads", &arguments.global.threads, "CPU threads to use (default: all cores)")
      .range(1, std::max(kMostThreads, default_threads()));
  program.option(
      "--memory-limit", &arguments.memory_limit,
      "memory for what is kept of traces and results: loads, tensors, answers and textures "
      "together, for example 8GB or 512MiB (default 2GiB)");
  program.option("--config-dir", &arguments.config_dir,
                 "folder for settings instead of the XDG one");
  program.option("--quiet", &arguments.quiet,
                 "no progress and no messages but warnings and errors");
  program.option("traces", &arguments.traces, "trace files to open in the window, or a tour (.md)");
  program.option("--goto", &arguments.go_to,
                 "what the window shows of them: layer=3,q_head=5,chunk=12, or what it copies as "
                 "the command that opens it");
  for (const auto command :
       {bench_command,       first_frame_command, first_page_command, calibrate_command,
        capture_command,     run_command,         devices_command,    models_command,
        record_help_command, info_command,        validate_command,   methods_command,
        select_command,      explain_command,     report_command,     compare_command,
        diff_command,        slice_command,       import_command,     latency_command,
        export_command,      synthesize_command,  views_command})
    program.subcommands.push_back(command(arguments.global));
  return program;
}

Command completions_command(const Command& program) {
  Command command("completions", "print what a shell needs to complete the words after kvloupe");
  const auto shell = std::make_shared<std::string>();
  command.option("shell", shell.get(), "bash, zsh or fish")
      .one_of({std::begin(kShells), std::end(kShells)})
      .required();
  command.run = [shell, &program](const Given&) {
    results::add_text(completions_for(program, *shell));
  };
  return command;
}

int run(int argc, char** argv) {
  ProgramArguments arguments;
  int exit_code = 0;
  Command program = program_command(arguments);
  const OpenWindow open = [&](const std::string& file) {
    arguments.traces = {file};
    exit_code = open_window(arguments);
  };
  program.subcommands.push_back(demo_command(arguments.global, open));
  program.subcommands.push_back(tour_command(open));
  program.subcommands.push_back(completions_command(program));
  program.run = [&](const Given&) { exit_code = open_window(arguments); };
  run_command_line(program, argc, argv, [&](const Given& given) { begin(arguments, given); });
  return exit_code;
}

int run_and_deliver(int argc, char** argv) {
  try {
    spin_briefly();
    results::claim_standard_streams();
    const int exit_code = run(argc, argv);
    results::deliver();
    return exit_code;
  } catch (const results::ReaderGone&) {
    return 0;
  } catch (const std::exception& thrown) {
    const Error error = error_from("the command failed", thrown);
    log::write(log::Level::Error, error.what());
    return error.exit_code();
  }
}

}  // namespace
}  // namespace kvloupe::cli

int main(int argc, char** argv) {
  const int exit_code = kvloupe::cli::run_and_deliver(argc, argv);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return exit_code;  // they look for leaks at the end
#else
  // Torch takes 0.1 s to forget its operators one by one, a third of what a short command takes.
  std::fflush(nullptr);
  std::quick_exit(exit_code);
#endif
}
