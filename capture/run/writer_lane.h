// A thread beside the model that writes the trace, fed through a queue of bounded size: the model
// waits only when the disk is slower than it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace kvloupe::capture {

class WriterLane {
 public:
  explicit WriterLane(std::size_t max_queued_bytes);
  ~WriterLane();  // drops what is queued; call drain() first to keep it
  WriterLane(const WriterLane&) = delete;
  WriterLane& operator=(const WriterLane&) = delete;

  // Runs `work`, which holds `bytes` of memory, after all submitted before. Waits while the queue
  // is full. Throws what an earlier piece of work threw; nothing runs after such an error.
  void submit(std::size_t bytes, std::function<void()> work);
  // Waits until all submitted work is done. Throws what it threw.
  void drain();
  // How long submit() and drain() have waited.
  double waited_seconds() const { return waited_seconds_; }

 private:
  struct Item {
    std::size_t bytes = 0;
    std::function<void()> work;
  };

  void run();
  void wait_until(std::unique_lock<std::mutex>& lock, const std::function<bool()>& condition);

  const std::size_t max_queued_bytes_;
  double waited_seconds_ = 0;  // the submitting thread's own

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;        // guarded by mutex_, as all below
  std::size_t queued_bytes_ = 0;  // of the item at work too
  bool working_ = false;
  bool stopping_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace kvloupe::capture
