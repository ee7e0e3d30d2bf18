// What a timing job and the window share; private to the workspace.
#pragma once

#include "app/state/workspace.h"

#include <mutex>

namespace kvloupe::state {

struct Workspace::Shared {
  std::mutex mutex;
  LatencyState latency;
  std::uint64_t latency_run = 0;  // tells a late sample of an earlier measurement
};

}  // namespace kvloupe::state
