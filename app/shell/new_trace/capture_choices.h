// What can be captured on this machine: models found, built-in tasks, and devices on request.
#pragma once

#include "app/state/answers.h"
#include "capture/model/model_library.h"
#include "capture/tasks/task.h"

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

}  // namespace kvloupe::shell
