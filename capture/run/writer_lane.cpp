// One mutex and one condition serve both sides: items are large and few.
#include "capture/run/writer_lane.h"

#include "core/base/seconds_since.h"

#include <chrono>
#include <utility>

namespace kvloupe::capture {

WriterLane::WriterLane(std::size_t max_queued_bytes)
    : max_queued_bytes_(max_queued_bytes), thread_([this] { run(); }) {}

WriterLane::~WriterLane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  thread_.join();
}

void WriterLane::submit(std::size_t bytes, std::function<void()> work) {
  std::unique_lock lock(mutex_);
  // An item larger than the bound still passes, alone.
  wait_until(lock,
             [&] { return queued_bytes_ == 0 || queued_bytes_ + bytes <= max_queued_bytes_; });
  queued_bytes_ += bytes;
  queue_.push_back({bytes, std::move(work)});
  lock.unlock();
  changed_.notify_all();
}

void WriterLane::drain() {
  std::unique_lock lock(mutex_);
  wait_until(lock, [&] { return queue_.empty() && !working_; });
}

void WriterLane::wait_until(std::unique_lock<std::mutex>& lock,
                            const std::function<bool()>& condition) {
  if (!error_ && !condition()) {
    const auto begin = std::chrono::steady_clock::now();
    changed_.wait(lock, [&] { return error_ || condition(); });
    waited_seconds_ += seconds_since(begin);
  }
  if (error_) std::rethrow_exception(error_);
}

void WriterLane::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Item item = std::move(queue_.front());
    queue_.pop_front();
    working_ = true;
    lock.unlock();
    std::exception_ptr error;
    try {
      item.work();
    } catch (...) {
      error = std::current_exception();
    }
    item.work = nullptr;  // frees its memory before the model is let on
    lock.lock();
    working_ = false;
    queued_bytes_ -= item.bytes;
    if (error) {
      error_ = error;
      queue_.clear();
      changed_.notify_all();
      return;
    }
    changed_.notify_all();
  }
}

}  // namespace kvloupe::capture
