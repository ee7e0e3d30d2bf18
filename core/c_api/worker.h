// A thread of the engine's own. All work of a selector is done there: the engine is loaded with a C library of its own
// (kvloupe.cpp), and a thread of the host's C library lacks what that one prepares for each of its threads (<ctype.h>'s tables,
// destructors at the thread's end) and has the slots of its pthread_setspecific() in use already.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include <pthread.h>
#include <signal.h>

namespace kvloupe::c_api {

class Worker {
 public:
  // Throws std::system_error where the system starts no further thread.
  Worker() {
    // Signals are for the host's threads. OpenMP's threads take this mask over from the worker.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { serve(); });
    } catch (...) {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
      throw;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Worker() {
    tell(State::Ends);
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Returns when `work`, which must not throw, is done. One caller at a time.
  void run(const std::function<void()>& work) {
    work_ = &work;
    tell(State::Works);
    state_.wait(State::Works, std::memory_order_acquire);
  }

 private:
  enum class State { Waits, Works, Ends };

  void tell(State state) {
    state_.store(state, std::memory_order_release);
    state_.notify_all();
  }
  void serve() {
    for (;;) {
      state_.wait(State::Waits, std::memory_order_acquire);
      if (state_.load(std::memory_order_acquire) == State::Ends) return;
      (*work_)();
      tell(State::Waits);
    }
  }

  std::atomic<State> state_{State::Waits};
  const std::function<void()>* work_ = nullptr;
  std::thread thread_;
};

}  // namespace kvloupe::c_api
