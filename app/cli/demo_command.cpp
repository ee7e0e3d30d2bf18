// `kvloupe demo` and `kvloupe tour`: what the program shows of itself.
#include "app/cli/commands.h"
#include "app/state/tour.h"
#include "app/state/view_list.h"
#include "core/base/cancel.h"
#include "core/base/engine_library.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/mapped_file.h"
#include "core/base/paths.h"
#include "core/base/run_self.h"
#include "core/base/sha256.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr int kInterrupted = 130;  // the exit code

// The commands that the demonstration consists of: with the options of its own call, and ended by what ends it.
class Parts {
 public:
  Parts(const GlobalOptions& global, const Given& given) {
    const Words& named = given.outer_options;
    const auto has = [&](const char* name) {
      return std::find(named.begin(), named.end(), name) != named.end();
    };
    if (has("--quiet")) options_.emplace_back("--quiet");
    if (global.threads > 0)
      options_.insert(options_.end(), {"--threads", std::to_string(global.threads)});
    if (global.limits_memory)
      options_.insert(options_.end(), {"--memory-limit", std::to_string(global.memory->limit())});
    if (has("--config-dir"))
      options_.insert(options_.end(), {"--config-dir", paths::config_dir().string()});
  }

  // The exit code. Throws Error{Cancelled} where it was interrupted.
  int run(Words words) const {
    words.insert(words.end(), options_.begin(), options_.end());
    const int code = run_self_here(words, cancel_);
    cancel_.throw_if_cancelled();
    if (code == kInterrupted) throw cancelled_error();
    return code;
  }

 private:
  Words options_;
  CancelToken cancel_ = interrupt_token();
};

Words capture_words() {
  Words words{
      "capture", "--model",          "smollm2", "--task", "niah:length=2048,depth=0.5,seed=1",
      "--store", "qkv,lse,mass,loss"};
  for (const char* method :
       {"quoka", "snapkv", "keydiff", "streaming_llm", "uniform_queries", "oracle", "random"}) {
    words.emplace_back("--method");
    words.push_back(fmt::format("{}:budget_tokens=256", method));
  }
  return words;
}

// Of the program and of what it is asked for.
std::string stamp_of(const Words& words) {
  Sha256 sum;
  const fs::path engine = engine_file();
  for (const fs::path& file :
       {fs::path(kOwnProgram), engine, engine.parent_path() / "libkvloupe_core.so"})
    MappedFile(file, "the program").add_to(sum);
  return sum.update(fmt::format("{}", fmt::join(words, " "))).hex_digest() + "\n";
}

fs::path made_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code)
    throw input_error("the demonstration has no place", folder.string() + ": " + code.message(),
                      "name a folder that can be written, by --output");
  return fs::absolute(folder);
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Captured, or reused while neither the program nor what it is asked for has changed.
void make_trace(const fs::path& trace, const Parts& parts) {
  const fs::path stamp_file = fs::path(trace).replace_extension(".stamp");
  Words words = capture_words();
  const std::string stamp = stamp_of(words);
  if (fs::exists(trace) && text_of(stamp_file) == stamp) return;
  fs::remove(stamp_file);
  words.insert(words.end(), {"--force", "-o", trace.string()});
  if (parts.run(words) != 0)
    throw input_error("the demonstration was not captured", "its message is above", "try again");
  std::ofstream(stamp_file) << stamp;
}

void write_views(const fs::path& trace, const Parts& parts, const char* why) {
  const fs::path folder = trace.parent_path();
  log::info("{}: writing every view of the demonstration to {}", why,
            (folder / "<view>.png").string());
  Words failed;
  int written = 0;
  for (const state::ViewInfo& view : state::views()) {
    if (view.shows_results) continue;  // the demonstration is one text
    const fs::path picture = folder / (view.id + ".png");
    fs::remove(picture);
    if (parts.run({"export", trace.string(), "--view", view.id, "--png", picture.string()}) != 0)
      failed.push_back(view.id);
    ++written;
  }
  if (!failed.empty())
    throw input_error(fmt::format("{} views were not written", failed.size()),
                      fmt::format("{}; their messages are above", fmt::join(failed, " ")),
                      "export one alone to look closer");
  log::info("wrote {} views to {}", written, folder.string());
}

bool has_display() {
  const char* display = std::getenv("DISPLAY");
  return display != nullptr && *display != '\0';
}

}  // namespace

Command demo_command(const GlobalOptions& global, const OpenWindow& open) {
  Command command("demo", "capture a demonstration with the default model and open it");
  struct Arguments {
    bool headless = false;
    fs::path folder = "kvloupe_demo";
  };
  const auto arguments = std::make_shared<Arguments>();
  command.option("--headless", &arguments->headless,
                 "write a picture of every view instead, as without a display");
  command
      .option("-o,--output", &arguments->folder,
              "folder for the trace, which is made once, and the pictures")
      .show_default();
  command.run = [arguments, &global, open](const Given& given) {
    const Parts parts(global, given);
    const fs::path trace = made_folder(arguments->folder) / "demo.h5";
    make_trace(trace, parts);
    if (arguments->headless) return write_views(trace, parts, "--headless was given");
    if (!has_display()) return write_views(trace, parts, "there is no display");
    open(trace.string());
  };
  return command;
}

Command tour_command(const OpenWindow& open) {
  Command command("tour", "be led through the window, page by page, on a trace that comes with it");
  command.run = [open](const Given&) { open(state::first_tour().string()); };
  return command;
}

}  // namespace kvloupe::cli
