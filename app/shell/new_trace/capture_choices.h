// What can be captured on this machine: models found, built-in tasks, and devices on request.
#pragma once

#include "app/state/answers.h"
#include "capture/model/model_library.h"
#include "capture/tasks/task.h"
#include "core/trace/trace_types.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

struct CaptureChoicesQuestion {
  static constexpr const char* kName = "capture choices";
  struct Answer {
    std::vector<capture::FoundModel> models;
    capture::ModelFolders folders;  // that were looked through
    std::vector<capture::TaskInfo> tasks;
  };

  int round = 0;  // a later one looks again
  std::string key() const { return std::to_string(round); }
  std::string title() const { return "Looking for models on this machine"; }
  Answer work(state::Steps& steps) const;
};

// What --model is to be for another capture of a trace's model: `chosen` where it is that one, as far as
// names and sizes tell (quantised otherwise it may be another file), or is none of these models, a path; else
// the first of these that is it and runs; `chosen` where there is none.
std::string model_of_trace(const std::vector<capture::FoundModel>& models,
                           const trace::ModelInfo& traced, const std::string& chosen);

}  // namespace kvloupe::shell
