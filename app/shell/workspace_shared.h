// What a timing job and the window share; private to the workspace.
#pragma once

#include "app/shell/workspace.h"

#include <mutex>

namespace kvloupe::shell {

struct Workspace::Shared {
  std::mutex mutex;
  LatencyState latency;
  std::uint64_t latency_run = 0;  // tells a late sample of an earlier measurement
};

}  // namespace kvloupe::shell
