// Work in a thread of its own, for which no frame waits: a slow disk does not delay the window.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace kvloupe::shell {

class BackgroundWriter {
 public:
  BackgroundWriter();
  ~BackgroundWriter();  // when all is done
  // In the order asked for.
  void run(std::function<void()> work);
  // What work threw since this was asked last, one sentence each.
  std::vector<std::string> failures();
  // Returns when nothing is left to do.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::string> failures_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace kvloupe::shell
