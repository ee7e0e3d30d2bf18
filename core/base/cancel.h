// Cooperative cancellation and progress, shared by jobs of the window and by the command line.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kvloupe {

// A copyable view of a flag that somebody else may raise. The default token is never cancelled.
class CancelToken {
 public:
  CancelToken() = default;
  explicit CancelToken(std::shared_ptr<const std::atomic<bool>> flag) : flag_(std::move(flag)) {}

  bool cancelled() const { return flag_ && flag_->load(std::memory_order_relaxed); }
  // Throws Error{Cancelled}. Long work calls it between pieces of at most 50 ms.
  void throw_if_cancelled() const;

 private:
  std::shared_ptr<const std::atomic<bool>> flag_;
};

class CancelSource {
 public:
  CancelToken token() const { return CancelToken(flag_); }
  void cancel() { flag_->store(true, std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
};

// What long work needs from its caller: a cancel flag to poll and a place to report to.
struct WorkContext {
  CancelToken cancel;
  // done of total in the unit that `stage` names; may be empty.
  std::function<void(std::int64_t done, std::int64_t total, const std::string& stage)> progress;

  void report(std::int64_t done, std::int64_t total, const std::string& stage = {}) const {
    if (progress) progress(done, total, stage);
  }
};

// The token that Ctrl+C (SIGINT), SIGTERM, SIGHUP and SIGXFSZ (a file reached the size that the shell
// allows) raise; installs the handlers at the first call. One of the first three that comes more than a
// second after the first ends the program at once.
CancelToken interrupt_token();

}  // namespace kvloupe
