// Work in a thread of its own, for which no frame waits: a slow disk does not delay the window.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace kvloupe::shell {

class BackgroundWriter {
 public:
  BackgroundWriter();
  ~BackgroundWriter();  // when all is done
  // In the order asked for. It throws nothing.
  void run(std::function<void()> work);
  // Returns when nothing is left to do.
  void finish();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace kvloupe::shell
