#include "core/device/thread_usage.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <string>

namespace kvloupe::device {

ThreadUsage ThreadUsage::now() {
  ThreadUsage usage;
  std::error_code code;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", code)) {
    // "<nanoseconds on a processor> <nanoseconds waiting> <time slices>"
    std::ifstream file(entry.path() / "schedstat");
    const std::string name = entry.path().filename().string();
    int id = 0;
    std::uint64_t run_ns = 0;
    std::from_chars(name.data(), name.data() + name.size(), id);
    if (file >> run_ns) usage.run_ns_[id] = run_ns;
  }
  return usage;
}

int ThreadUsage::busy_since(const ThreadUsage& earlier, double seconds, double share) const {
  int busy = 0;
  for (const auto& [id, run_ns] : run_ns_) {
    const auto before = earlier.run_ns_.find(id);
    const std::uint64_t used = run_ns - (before == earlier.run_ns_.end() ? 0 : before->second);
    if (static_cast<double>(used) * 1e-9 > share * seconds) ++busy;
  }
  return busy;
}

void ThreadUsage::leave_out(const ThreadUsage& begin, const ThreadUsage& end) {
  for (const auto& [id, run_ns] : end.run_ns_) {
    const auto before = begin.run_ns_.find(id);
    run_ns_[id] += run_ns - (before == begin.run_ns_.end() ? 0 : before->second);
  }
}

}  // namespace kvloupe::device
