#include "tests/gui/frame_watch.h"

#include "core/base/quantile.h"

#include <fmt/format.h>

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <utility>

namespace kvloupe::test {
namespace {

constexpr std::size_t kKept = 12;

double milliseconds(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// How long a thread was ready to run while something else ran.
double queued_ms(const std::string& schedule) {
  std::ifstream file(schedule);  // absent in some kernels
  double ran = 0, queued = 0;
  return file >> ran >> queued ? queued / 1e6 : 0;
}

void keep(std::vector<FrameWatch::Frame>& worst, const FrameWatch::Frame& frame,
          double FrameWatch::Frame::*member) {
  worst.push_back(frame);
  std::stable_sort(worst.begin(), worst.end(),
                   [&](const auto& a, const auto& b) { return a.*member > b.*member; });
  if (worst.size() > kKept) worst.pop_back();
}

std::string line_of(const FrameWatch::Frame& frame) {
  return fmt::format("  {:7.1f} ms computed, {:7.1f} waited, {:7.1f} in all: {}\n",
                     frame.processor_ms, frame.blocked_ms, frame.wall_ms, frame.event);
}

}  // namespace

FrameWatch::Clock FrameWatch::clock_now() const {
  Clock now{milliseconds(CLOCK_MONOTONIC), milliseconds(CLOCK_THREAD_CPUTIME_ID),
            queued_ms("/proc/thread-self/schedstat")};
  if (script_) {
    now.processor += milliseconds(script_->processor);
    now.queued += queued_ms(script_->schedule);
  }
  return now;
}

void FrameWatch::script_begins() {
  Script script;
  ::pthread_getcpuclockid(::pthread_self(), &script.processor);
  script.schedule = fmt::format("/proc/self/task/{}/schedstat", ::gettid());
  const double processor = milliseconds(script.processor), queued = queued_ms(script.schedule);
  script_ = std::move(script);
  // In the midst of a frame: what the thread did before is not the frame's.
  for (Clock* at : {&begin_, &rendered_}) {
    at->processor += processor;
    at->queued += queued;
  }
}

void FrameWatch::script_ends() {
  const double processor = milliseconds(script_->processor), queued = queued_ms(script_->schedule);
  script_.reset();
  for (Clock* at : {&begin_, &rendered_}) {
    at->processor -= processor;
    at->queued -= queued;
  }
}

void FrameWatch::begin() { begin_ = rendered_ = clock_now(); }

void FrameWatch::rendered() { rendered_ = clock_now(); }

void FrameWatch::end() {
  const Clock end = clock_now();
  Frame frame;
  frame.processor_ms = end.processor - begin_.processor;
  frame.blocked_ms =
      std::max(0.0, (rendered_.wall - begin_.wall) - (rendered_.processor - begin_.processor) -
                        (rendered_.queued - begin_.queued));
  frame.wall_ms = end.wall - begin_.wall;
  frame.event = event_;
  ++count_;
  processor_.push_back(frame.processor_ms);
  keep(worst_, frame, &Frame::processor_ms);
  keep(most_blocked_, frame, &Frame::blocked_ms);
  double& of_kind = by_kind_[event_.substr(0, event_.find(' '))];
  of_kind = std::max(of_kind, frame.processor_ms);
}

std::string FrameWatch::report() const {
  std::vector<double> sorted = processor_;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty()) return "no frame was drawn\n";
  std::string text = fmt::format(
      "{} frames; computed in one: median {:.1f} ms, 99th percentile {:.1f}, "
      "most {:.1f}\n",
      count_, quantile(sorted, 0.5), quantile(sorted, 0.99), sorted.back());
  text += "most computed:\n";
  for (const Frame& frame : worst_) text += line_of(frame);
  text += "longest waits:\n";
  for (const Frame& frame : most_blocked_) text += line_of(frame);
  text += "most by kind:\n";
  for (const auto& [kind, ms] : by_kind_) text += fmt::format("  {:7.1f} ms  {}\n", ms, kind);
  return text;
}

}  // namespace kvloupe::test
