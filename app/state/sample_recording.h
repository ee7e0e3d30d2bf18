// A sample of an evaluation that is recorded to a trace now: `python -m kvloupe eval record` in a process of its own.
#pragma once

#include "core/base/run_self.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// Where the model, the task files and the data lie; empty: where the package looks for them.
struct RecordedFrom {
  std::string model, tasks, data;
  std::string device;  // that it runs on; empty: the CPU
};
// The arguments of `eval record`, after `python -m kvloupe`.
std::vector<std::string> record_arguments(const std::string& results, const std::string& id,
                                          const RecordedFrom& from);

class SampleRecording {
 public:
  // Nothing happens while another one runs. Throws Error when Python cannot be started.
  void start(const std::string& results, const std::string& id, const RecordedFrom& from = {});
  void cancel();  // it ends in order: nothing of the trace stays

  struct Outcome {
    std::string results;   // the file
    std::string trace;     // empty: there is none
    std::string problem;   // why; empty: it was cancelled
    bool is_seen = false;  // where it was started, which is still open
  };
  // Once a frame. What came of one that has ended since.
  std::optional<Outcome> poll();

  bool running() const { return command_ != nullptr; }
  bool ending() const { return running() && cancelled_; }
  const std::string& results() const { return results_; }
  bool is_of(const std::string& results, const std::string& id) const {
    return running() && results_ == results && id_ == id;
  }
  // Its popup is open in this frame: what comes of it is read there.
  void look_on() { is_looked_on_ = true; }
  std::string words() const;  // how long it runs, and what it said last
  // Why the last one that was started, of this sample, left no trace; empty: it was another, it left one or was cancelled.
  std::string problem_of(const std::string& results, const std::string& id) const {
    return results_ == results && id_ == id ? problem_ : "";
  }
  // Why none can be started here; empty: it seems that one can. As it was when it was looked for.
  void look_for_python();
  const std::string& obstacle() const { return obstacle_; }

 private:
  std::unique_ptr<OwnCommand> command_;  // null: none
  std::string results_, id_, progress_, trace_, problem_, obstacle_;
  std::chrono::steady_clock::time_point begin_;
  bool cancelled_ = false;
  bool is_looked_on_ = false;
};

}  // namespace kvloupe::state
