// Which threads of this process used the processor between two moments: a timing is worthless when
// others of our own threads ran beside those that were timed.
#pragma once

#include <cstdint>
#include <map>

namespace kvloupe::device {

class ThreadUsage {
 public:
  static ThreadUsage now();

  // Threads that ran for more than `share` of `seconds` since `earlier`. 0 where the kernel does
  // not tell how long a thread ran.
  int busy_since(const ThreadUsage& earlier, double seconds, double share = 0.1) const;
  // What ran between these two moments does not count as time since this one.
  void leave_out(const ThreadUsage& begin, const ThreadUsage& end);

 private:
  std::map<int, std::uint64_t> run_ns_;  // by thread id
};

}  // namespace kvloupe::device
