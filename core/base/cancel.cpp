#include "core/base/cancel.h"

#include "core/base/error.h"

#include <csignal>
#include <ctime>

namespace kvloupe {
namespace {

// A signal handler may only touch lock-free atomics, so the flag outlives everything: it is never
// freed, because a signal may come while the program ends.
std::shared_ptr<std::atomic<bool>>& interrupt_flag() {
  static auto& flag =
      *new std::shared_ptr<std::atomic<bool>>(std::make_shared<std::atomic<bool>>(false));
  return flag;
}

std::atomic<bool>* signal_flag = nullptr;

// One press of Ctrl+C may come twice: from the terminal, and from the program that started this one and ends its
// work in order.
constexpr std::int64_t kSameWish = 1'000'000'000;  // nanoseconds
std::atomic<std::int64_t> first_signal{0};

// A signal handler may ask this clock.
std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void on_signal(int signal_number) {
  std::int64_t before = 0;
  if (first_signal.compare_exchange_strong(before, now())) {
    signal_flag->store(true);
  } else if (now() - before > kSameWish) {
    // A later one ends the program at once: the user must always be able to leave.
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

// The write that met the limit says so too, and may be tried again while the program ends.
void on_size_limit(int) { signal_flag->store(true); }

// Under nohup the program is to outlive its terminal.
void end_on_hangup() {
  if (std::signal(SIGHUP, on_signal) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

}  // namespace

void CancelToken::throw_if_cancelled() const {
  if (cancelled()) throw cancelled_error();
}

CancelToken interrupt_token() {
  static const bool installed = [] {
    signal_flag = interrupt_flag().get();
    std::signal(SIGINT, on_signal);
    std::signal(SIGTERM, on_signal);
    std::signal(SIGXFSZ, on_size_limit);
    end_on_hangup();
    return true;
  }();
  static_cast<void>(installed);
  return CancelToken(interrupt_flag());
}

}  // namespace kvloupe
