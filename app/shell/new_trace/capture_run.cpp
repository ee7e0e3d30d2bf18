#include "app/shell/new_trace/capture_run.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string_view>

namespace kvloupe::shell {
namespace {

using nlohmann::json;

// Time in which a request must not change before it is asked about.
constexpr double kStillSeconds = 0.7;

CaptureCost cost_of(const json& event) {
  CaptureCost cost;
  cost.tokens = event.at("tokens");
  cost.chunks = event.at("chunks");
  cost.layers = static_cast<int>(event.at("layers").size());
  cost.model_layers = event.at("model_layers");
  cost.bytes = event.at("bytes");
  cost.seconds = event.at("seconds");
  const json& memory = event.at("memory");
  cost.memory = memory.at("total");
  cost.weights = memory.at("weights");
  cost.kv_cache = memory.at("kv_cache");
  cost.working_set = memory.at("working_set");
  for (const json& span : event.at("spans"))
    cost.spans.push_back({span.at("name"), span.at("begin"), span.at("end")});
  return cost;
}

// The sentence alone.
std::string sentence_of(const std::string& problem) {
  constexpr std::string_view kError = "error: ";
  return problem.starts_with(kError) ? problem.substr(kError.size()) : problem;
}

}  // namespace

void CaptureEstimator::follow(const std::optional<CaptureRequest>& wanted, double now,
                              AskCost when) {
  std::erase_if(dying_, [](const auto& command) {
    command->poll();
    return command->ended();
  });
  if (wanted != wanted_) {
    stop();
    wanted_ = wanted;
    since_ = now;
  }
  if (asking_) return read();
  if (!wanted_ || answered_ || when == AskCost::No) return;
  if (when == AskCost::AtOnce || now - since_ >= kStillSeconds) begin(*wanted_);
}

void CaptureEstimator::stop() {
  if (asking_) {
    asking_->kill();
    dying_.push_back(std::move(asking_));
  }
  wanted_.reset();
  answered_ = false;
  cost_.reset();
  problem_.clear();
}

void CaptureEstimator::begin(const CaptureRequest& request) {
  answered_ = true;
  std::vector<std::string> words = capture_arguments(request);
  words.insert(words.end(), {"--estimate", "--events"});
  try {
    asking_ = std::make_unique<OwnCommand>(
        words, OwnCommand::Options{program, capture_input(request), true});
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

void CaptureEstimator::read() {
  for (const std::string& line : asking_->poll()) {
    const json event = json::parse(line, nullptr, false);
    if (event.is_object() && event.value("event", "") == "estimate") cost_ = cost_of(event);
  }
  if (!asking_->ended()) return;
  problem_ = sentence_of(asking_->problem());
  if (!problem_.empty()) cost_.reset();
  asking_.reset();
}

void CaptureRun::start(const CaptureRequest& request) {
  request_ = request;
  stage_ = CaptureStage::Loading;
  cost_.reset();
  cancels_ = chunks_ = of_chunks_ = 0;
  pace_.clear();
  prefill_pace_.clear();
  message_.clear();
  warnings_.clear();
  left_trace_ = false;
  std::vector<std::string> words = capture_arguments(request);
  words.emplace_back("--events");
  try {
    command_ = std::make_unique<OwnCommand>(
        words, OwnCommand::Options{program, capture_input(request), true});
  } catch (const Error& error) {
    stage_ = CaptureStage::Failed;
    message_ = error.what();
  }
}

void CaptureRun::poll() {
  if (!command_) return;
  for (const std::string& line : command_->poll()) take(line);
  if (command_->ended()) end();
}

void CaptureRun::cancel() {
  if (!command_) return;
  // The second time at once: what was written stays in the part.
  if (cancels_ > 0)
    command_->kill();
  else
    command_->interrupt();
  ++cancels_;
}

void CaptureRun::take(const std::string& line) {
  const json event = json::parse(line, nullptr, false);
  if (!event.is_object()) return;
  const std::string name = event.value("event", "");
  if (name == "estimate") {
    cost_ = cost_of(event);
    chunks_ = 0;
    of_chunks_ = cost_->chunks;
    stage_ = CaptureStage::Running;
  } else if (name == "progress") {
    chunks_ = event.at("chunks");
    pace_ = event.at("pace");
    if (event.at("phase") == "prefill") prefill_pace_ = pace_;
  } else if (name == "done" || name == "stopped") {
    left_trace_ = true;
    chunks_ = event.at("chunks");
    const std::string file = printable(request_.output);
    message_ =
        name == "done"
            ? fmt::format("{}: {} tokens in {} chunks, {}, recorded in {}", file,
                          format_count(event.at("tokens").get<std::int64_t>()), chunks_,
                          format_bytes(event.at("bytes").get<std::uint64_t>()),
                          format_duration(event.at("seconds").get<double>()))
            : fmt::format("The capture was stopped; {} holds the {} chunks done.", file, chunks_);
    if (event.at("speed").is_object())
      prefill_pace_ = fmt::format("{:.0f} tokens/s",
                                  event.at("speed").at("prefill_tokens_per_s").get<double>());
  }
}

void CaptureRun::end() {
  const std::unique_ptr<OwnCommand> command = std::move(command_);
  const std::string problem = sentence_of(command->problem());
  warnings_ = command->warnings();
  const bool killed = command->exit_code() > 128 && command->exit_code() != 130;
  if (left_trace_ || problem.empty()) {
    stage_ = problem.empty() ? CaptureStage::Done : CaptureStage::Stopped;
    return;
  }
  // What it had written stays under the name of the part. Before its estimate that was nothing: a part that is
  // there is another capture's.
  const bool begun = stage_ == CaptureStage::Running;
  const std::string part = part_of(request_.output);
  std::error_code ignored;
  const bool left = begun && std::filesystem::exists(part, ignored);
  const bool stopped = cancels_ > 0 && (killed || (!left && chunks_ == 0));
  stage_ = stopped ? CaptureStage::Stopped : CaptureStage::Failed;
  if (!left)
    message_ =
        stopped ? "The capture was stopped before its first chunk; nothing is left." : problem;
  else
    message_ =
        fmt::format("{} {} holds the chunks done; `kvloupe capture --resume {}` goes on with it.",
                    stopped ? "The capture was ended at once." : problem + ".", printable(part),
                    printable(part));
}

}  // namespace kvloupe::shell
