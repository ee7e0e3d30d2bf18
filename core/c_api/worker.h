// A thread of the engine's own. All work of a selector is done there: the engine is loaded with a C library of its own
// (library.cpp), and threads of the host's C library lack what that one prepares for each of its threads (<ctype.h>'s tables,
// destructors at the thread's end).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace kvloupe::c_api {

class Worker {
 public:
  // Throws std::system_error where the system starts no further thread.
  Worker() : thread_([this] { serve(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns when `work`, which must not throw, is done. One caller at a time.
  void run(const std::function<void()>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [this] { return work_ == nullptr; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return work_ != nullptr || ends_; });
      if (work_ == nullptr) return;
      (*work_)();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* work_ = nullptr;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace kvloupe::c_api
