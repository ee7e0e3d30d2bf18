// A thread of the engine's own. All work of a selector is done there: the engine is loaded with a C library of its own
// (kvloupe.cpp), and a thread of the host's C library lacks what that one prepares for each of its threads (<ctype.h>'s tables,
// destructors at the thread's end) and has the slots of its pthread_setspecific() in use already.
#pragma once

#include <atomic>
#include <chrono>
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

  // Returns when `work`, which must not throw, is done. One caller at a time. `spins`: for a while caller and worker wait for each
  // other without sleeping, which takes a core of its own. To wake a thread takes time that a small selection feels.
  void run(const std::function<void()>& work, bool spins = false) {
    work_ = &work;
    spins_ = spins;
    tell(State::Works);
    wait_while(State::Works, spins ? kOneSelection : kNone);
  }

 private:
  enum class State { Waits, Works, Ends };
  static constexpr std::chrono::microseconds kNone{0}, kBetweenCalls{200}, kOneSelection{2000};

  void tell(State state) {
    state_.store(state, std::memory_order_release);
    state_.notify_all();
  }
  void wait_while(State state, std::chrono::microseconds spinning) const {
    using Clock = std::chrono::steady_clock;
    // To yield lets the other one run where both were given one core.
    if (spinning > kNone)
      for (const auto end = Clock::now() + spinning; Clock::now() < end; std::this_thread::yield())
        if (state_.load(std::memory_order_acquire) != state) return;
    state_.wait(state, std::memory_order_acquire);
  }
  void serve() {
    for (bool spins = false;;) {
      wait_while(State::Waits, spins ? kBetweenCalls : kNone);
      if (state_.load(std::memory_order_acquire) == State::Ends) return;
      spins = spins_;
      (*work_)();
      tell(State::Waits);
    }
  }

  std::atomic<State> state_{State::Waits};
  const std::function<void()>* work_ = nullptr;
  bool spins_ = false;
  std::thread thread_;
};

}  // namespace kvloupe::c_api
