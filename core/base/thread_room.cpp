#include "core/base/thread_room.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

namespace kvloupe {

int default_threads() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void require_threads(int count) {
  std::latch tried(1);
  std::vector<std::jthread> threads;  // joined before the latch goes
  bool refused = false;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&tried] { tried.wait(); });
  } catch (const std::system_error&) {
    refused = true;
  }
  tried.count_down();
  if (!refused) return;
  throw input_error(fmt::format("{} threads cannot be started", count),
                    fmt::format("the system gives this program {}", threads.size()),
                    "lower --threads, close other programs or raise the limits (ulimit -u, -v)");
}

}  // namespace kvloupe
