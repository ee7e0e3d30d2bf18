// The program: reads the command line, runs one subcommand or the window, and turns every failure
// into one sentence and the exit code of the contract.
#include "app/cli/commands.h"
#include "app/cli/options.h"
#include "app/shell/window.h"
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

#include <CLI/CLI.hpp>

#include <algorithm>
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

// A parse error's text in the form of the contract; CLI11 words the first two parts.
Error from_parse_error(const CLI::ParseError& error) {
  return usage_error("the command line is wrong", error.what(), "see kvloupe --help");
}

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
void refuse_stray_words(const CLI::App& program, const std::vector<std::string>& traces,
                        const std::string& go_to) {
  const auto subcommands = program.get_subcommands();
  if (subcommands.empty() || (traces.empty() && go_to.empty())) return;
  const std::string name = subcommands.front()->get_name();
  if (traces.empty())
    throw usage_error("--goto does not go with " + name, "it is of the window and of export",
                      "see kvloupe " + name + " --help");
  throw usage_error("'" + traces.front() + "' is one word too many", name + " has no place for it",
                    "see kvloupe " + name + " --help");
}

void add_global_options(CLI::App& program, GlobalOptions& global, std::string& memory_limit,
                        std::string& config_dir, bool& quiet) {
  program.add_option("--threads", global.threads, "CPU threads to use (default: all cores)")
      ->check(CLI::Range(1, std::max(kMostThreads, default_threads())));
  program.add_option(
      "--memory-limit", memory_limit,
      "memory for what is kept of traces: their loads, tensors, answers and textures "
      "together, for example 8GB or 512MiB (default 2GiB)");
  program.add_option("--config-dir", config_dir, "folder for settings instead of the XDG one");
  program.add_flag("--quiet", quiet, "no progress and no messages but errors");
}

// The options above belong to the whole program; a subcommand's help names them too.
class HelpText : public CLI::Formatter {
 public:
  std::string make_footer(const CLI::App* app) const override {
    const CLI::App* parent = app->get_parent();
    if (parent == nullptr || parent->get_parent() != nullptr) return Formatter::make_footer(app);
    std::string text = app->get_footer();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return (text.empty() ? "" : text + "\n\n") +
           "Every subcommand also takes --threads N, --memory-limit SIZE, --config-dir DIR,\n"
           "--quiet and --version; see kvloupe --help.\n";
  }
};

int run(int argc, char** argv) {
  CLI::App program{kAbout, "kvloupe"};
  GlobalOptions global;
  std::string memory_limit;
  std::string config_dir;
  bool quiet = false;
  program.formatter(std::make_shared<HelpText>());
  add_global_options(program, global, memory_limit, config_dir, quiet);
  program.fallthrough();
  program.set_version_flag("--version", std::string("kvloupe ") + KVLOUPE_VERSION);
  program.require_subcommand(0, 1);

  std::vector<std::string> traces;
  std::string go_to;
  program.add_option("traces", traces, "trace files to open in the window");
  program.add_option("--goto", go_to,
                     "what the window shows of them: layer=3,q_head=5,chunk=12, or what it copies "
                     "as the command that opens it");
  // Options such as --threads act before any subcommand's callback runs.
  program.parse_complete_callback([&] {
    refuse_stray_words(program, traces, go_to);
    log::set_quiet(quiet);
    if (!config_dir.empty()) paths::set_config_dir(config_dir);
    if (!memory_limit.empty()) {
      const auto bytes = parse_size(memory_limit);
      if (!bytes || *bytes == 0)
        throw usage_error("--memory-limit is not a size", "'" + memory_limit + "' was given",
                          "write a number with a unit, for example 8GB or 512MiB");
      global.memory = std::make_shared<MemoryAccount>(*bytes);
    }
  });

  for (auto add :
       {add_bench_command, add_calibrate_command, add_capture_command, add_devices_command,
        add_models_command, add_record_help_command, add_info_command, add_validate_command,
        add_methods_command, add_select_command, add_explain_command, add_report_command,
        add_compare_command, add_latency_command, add_export_command, add_synthesize_command,
        add_views_command})
    add(program, global);

  try {
    program.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    results::add_text(program.help());
    return 0;
  } catch (const CLI::CallForAllHelp&) {
    results::add_text(program.help("", CLI::AppFormatMode::All));
    return 0;
  } catch (const CLI::CallForVersion& version) {
    results::print("{}\n", version.what());
    return 0;
  } catch (const CLI::ParseError& error) {
    throw from_parse_error(error);
  }
  if (!program.get_subcommands().empty()) return 0;
  if (!go_to.empty() && traces.empty())
    throw usage_error("--goto leads nowhere", "no trace is named",
                      "write kvloupe T.h5 --goto layer=3,chunk=12");
  for (const std::string& name : traces) refuse_unknown_subcommand(name);
  shell::WindowOptions window;
  window.traces = traces;
  if (!go_to.empty()) window.at = state::parse_link(go_to);
  if (window.at && !window.at->view.empty()) state::view_named(window.at->view);
  window.memory = global.memory;
  window.bases = basis_maker();
  std::once_flag started;
  window.start_engine = [&] { std::call_once(started, use_engine, global); };
  return shell::run_window(window);
}

}  // namespace
}  // namespace kvloupe::cli

int main(int argc, char** argv) {
  try {
    kvloupe::spin_briefly();
    kvloupe::results::claim_standard_streams();
    const int exit_code = kvloupe::cli::run(argc, argv);
    kvloupe::results::deliver();
    return exit_code;
  } catch (const kvloupe::results::ReaderGone&) {
    return 0;
  } catch (const std::exception& thrown) {
    const kvloupe::Error error = kvloupe::error_from("the command failed", thrown);
    kvloupe::log::write(kvloupe::log::Level::Error, error.what());
    return error.exit_code();
  }
}
