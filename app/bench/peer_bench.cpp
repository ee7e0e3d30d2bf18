#include "app/bench/peer_bench.h"

#include "app/bench/scratch_folder.h"
#include "capture/engine.h"
#include "capture/run/prefill_bench.h"
#include "core/base/log.h"
#include "core/base/paths.h"
#include "core/device/threads.h"
#include "core/engine/engine.h"
#include "core/measure/timing.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include <sys/wait.h>

namespace kvloupe::bench {
namespace {

constexpr int kPeerRepetitions = 3;

struct CommandResult {
  bool succeeded = false;
  std::string output;  // standard output
};

// Single quotes keep a shell from reading anything into a path.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

// Of the checkout that the program was built in (cmake/Install.cmake).
std::filesystem::path peer_script() { return paths::share_dir() / "checkout/tests/tools/peer.sh"; }

CommandResult run_peer(const std::string& arguments) {
  const std::string command = quoted(peer_script().string()) + " " + arguments;
  CommandResult result;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return result;
  char buffer[4096];
  for (std::size_t size; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) {
    result.output.append(buffer, size);
  }
  const int status = ::pclose(pipe);
  result.succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return result;
}

Row not_measured(Row row, const std::string& reason) {
  row.reason = reason;
  return row;
}

}  // namespace

Row capture_vs_peer(bool peers, const WorkContext& context) {
  Row row{.id = "capture_vs_peer",
          .meaning = "transformers recording by h5py / ours",
          .threshold = 2,
          .goal = Goal::AtLeast};
  std::error_code none;
  if (!std::filesystem::exists(peer_script(), none))
    return not_measured(row, "measured in a checkout only");
  if (!peers) {
    return not_measured(row, run_peer("installed 2>/dev/null").succeeded ? "run with --peers"
                                                                         : "peer not installed");
  }
  if (!run_peer("install").succeeded) {
    context.cancel.throw_if_cancelled();
    log::warning("the peer could not be installed; see the messages above");
    return not_measured(row, "peer not installed");
  }
  const ScratchFolder folder;
  capture::PrefillBenchOptions options;
  options.folder = folder.path();
  options.ids_file = folder.path() / "ids.txt";
  options.repetitions = kPeerRepetitions;
  options.want_plain = false;
  const capture::PrefillBench ours = capture_engine().bench_prefill(options, context);
  context.cancel.throw_if_cancelled();

  const auto model = paths::data_dir() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  const CommandResult peer = run_peer(fmt::format(
      "run --model {} --ids {} --output {} --threads {} --repetitions {}", quoted(model.string()),
      quoted(options.ids_file.string()), quoted((folder.path() / "peer.h5").string()),
      engine().num_threads(), kPeerRepetitions));
  context.cancel.throw_if_cancelled();
  const auto times = nlohmann::json::parse(peer.output, nullptr, false);
  if (!peer.succeeded || !times.is_array() || times.empty()) {
    return not_measured(row, "the peer failed; its message is above");
  }
  const measure::LatencyStats theirs = measure::stats_of(times.get<std::vector<double>>());
  row.time = measure::stats_of(ours.recorded_ms);
  row.value = theirs.median_ms / row.time.median_ms;
  row.details = {{"tokens", std::to_string(ours.tokens)},
                 {"peer", fmt::format("{:.0f} ms ({:.0f} to {:.0f})", theirs.median_ms,
                                      theirs.q25_ms, theirs.q75_ms)}};
  return row;
}

}  // namespace kvloupe::bench
