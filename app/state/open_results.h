// The results of an evaluation that are open, beside the traces: one file at a time, and what is looked at in it.
#pragma once

#include "app/state/answers.h"
#include "app/state/sample_recording.h"
#include "core/base/memory_account.h"
#include "core/trace/results/results_file.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// The method that an evaluation is measured against.
inline constexpr const char* kDense = "dense";

struct ReadResults {
  int id = 0;  // of this opening
  trace::Results file;
  std::vector<std::string> methods;           // dense first, then as people list them
  std::map<std::string, std::string> labels;  // of methods, told from one another: "quoka 256"

  std::string key() const { return "r" + std::to_string(id); }
  const std::string& label_of(const std::string& method) const;
  const trace::ResultSample& sample(std::int32_t index) const {
    return file.samples[static_cast<std::size_t>(index)];
  }
};
using ResultsPtr = std::shared_ptr<const ReadResults>;
// Reads and checks the file; from any thread. Throws Error{Input}.
ReadResults results_of_file(const std::string& path);

// What is shown of them.
struct ResultsSight {
  std::map<std::string, std::string> options;  // of the views, by "view.option"
  std::vector<std::string> methods;            // in this order; empty: all
  std::string against;  // the method that others are compared with; empty: by rule
  // The samples of one cell.
  std::string listed;         // what they are of; empty: none are listed
  std::string listed_in;      // the view that lists them
  bool lists_finding = true;  // nothing was clicked yet: those that the finding is about are listed
  std::vector<std::int32_t> of_listed;  // their indices
  std::string following;  // the trace that is to go to the head which lost the answer; empty: none
  RecordedFrom recorded_from;
};

class OpenResults {
 public:
  OpenResults(Answers& answers, MemoryAccountPtr memory)
      : answers_(answers), memory_(std::move(memory)) {}

  // `first_sight`: what is shown of a file that was not open before. One that is read again keeps what is shown.
  using FirstSight = std::function<ResultsSight(const ReadResults&)>;
  void open(const std::string& path, const FirstSight& first_sight = {});
  void close();
  void begin_frame();  // once a frame: reads the file again when a sample of it was recorded
  void take(const OpenResults& other);  // as it stands there

  bool is_open() const { return !path_.empty(); }
  ResultState state() const { return state_; }
  const std::string& path() const { return path_; }
  const std::string& error() const { return error_; }
  const ResultsPtr& ready() const { return ready_; }  // null: not yet

  // The methods to be shown, and the one that they are compared with.
  std::vector<std::string> shown() const;
  std::string against() const;
  // Those named, as the file has them. Throws Error{Input} for one of which it has no samples.
  void show_methods(const std::vector<std::string>& methods);

  // In the background, unless another one is under way.
  void record(const std::string& id);

  ResultsSight sight;
  SampleRecording recording;  // of the file that is open; another one that is opened ends it
  // Called with a sentence that the user should see once.
  std::function<void(const std::string&, bool is_error)> on_message;

 private:
  Answers& answers_;
  const MemoryAccountPtr memory_;
  ResultState state_ = ResultState::Empty;
  std::string path_, error_;
  ResultsPtr ready_;
  std::shared_ptr<MemoryCharge> load_;  // of `ready_`
  int next_id_ = 1;
};

}  // namespace kvloupe::state
