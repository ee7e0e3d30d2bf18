#include "app/state/sample_recording.h"

#include "core/base/printable.h"
#include "core/base/python_package.h"
#include "core/base/seconds_since.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace kvloupe::state {

std::vector<std::string> record_arguments(const std::string& results, const std::string& id,
                                          const RecordedFrom& from) {
  std::vector<std::string> arguments{"eval", "record", results, id};
  const std::pair<const char*, const std::string*> given[] = {{"--model", &from.model},
                                                              {"--include-path", &from.tasks},
                                                              {"--data", &from.data},
                                                              {"--device", &from.device}};
  for (const auto& [option, value] : given)
    if (!value->empty()) arguments.push_back(fmt::format("{}={}", option, *value));
  return arguments;
}

void SampleRecording::start(const std::string& results, const std::string& id,
                            const RecordedFrom& from) {
  if (running()) return;
  std::vector<std::string> arguments = record_arguments(results, id, from);
  arguments.emplace_back("--end-with-parent");  // whatever ends the window
  results_ = results;
  id_ = id;
  progress_ = "starting Python";
  trace_.clear();
  problem_.clear();
  begin_ = std::chrono::steady_clock::now();
  cancelled_ = false;
  try {
    command_ = start_python_package(arguments, true);
  } catch (const Error& error) {
    problem_ = printable(error.what());
    throw;
  }
}

void SampleRecording::cancel() {
  if (!running()) return;
  command_->interrupt();
  cancelled_ = true;
}

std::optional<SampleRecording::Outcome> SampleRecording::poll() {
  const bool is_seen = std::exchange(is_looked_on_, false);
  if (!running()) return std::nullopt;
  for (std::string& line : command_->poll()) trace_ = std::move(line);
  if (std::string line = command_->last_line(); !line.empty()) progress_ = std::move(line);
  if (!command_->ended()) return std::nullopt;
  const std::unique_ptr<OwnCommand> ended = std::move(command_);
  Outcome outcome{results_, "", "", is_seen};
  // It may have been cancelled when all was done.
  if (ended->exit_code() == 0)
    outcome.trace = trace_;
  else if (!cancelled_)
    outcome.problem = error_of_python_package(*ended, kPythonNeedsForEval).what();
  problem_ = printable(outcome.problem);
  return outcome;
}

std::string SampleRecording::words() const {
  if (ending()) return "Ending the recording";
  const double seconds = std::floor(seconds_since(begin_));
  return fmt::format("Recording, {} so far: {}",
                     seconds < 60 ? fmt::format("{:.0f} s", seconds) : format_duration(seconds),
                     printable(progress_));
}

void SampleRecording::look_for_python() { obstacle_ = printable(python_package_problem()); }

}  // namespace kvloupe::state
