// Background jobs of the window: lanes, progress, cancel, supersede by tag. Results come back to
// the thread that owns the JobSystem when it calls publish(), once a frame.
#pragma once

#include "core/base/cancel.h"
#include "core/base/error.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe {

enum class Lane {
  TraceIo,  // one thread: HDF5 serialises anyway
  Compute,  // one thread: Torch parallelises inside a job
  Whole,    // the same for what takes seconds to minutes: Compute need not wait behind it
  Command,  // one thread: it waits for a command line, which has a process of its own
  Timing,   // one thread; while a timing job runs no other lane starts a job
};

struct JobStatus {
  std::uint64_t id = 0;
  std::string tag;
  std::string title;
  std::string stage;
  std::int64_t done = 0;
  std::int64_t total = 0;  // 0: unknown
  bool running = false;    // false: queued
};

class JobSystem {
 public:
  JobSystem();
  ~JobSystem();  // cancels all jobs and joins; results not yet published are dropped
  JobSystem(const JobSystem&) = delete;
  JobSystem& operator=(const JobSystem&) = delete;

  // Runs `work` on `lane`. A newer job with the same tag drops a queued one and cancels a running
  // one. `on_done` runs inside publish() with the result, `on_error` with what went wrong; neither
  // runs in publish() for a job that was cancelled or superseded. Work must capture values, never a panel.
  template <typename T>
  std::uint64_t submit(Lane lane, std::string tag, std::string title,
                       std::function<std::shared_ptr<const T>(const WorkContext&)> work,
                       std::function<void(std::shared_ptr<const T>)> on_done,
                       std::function<void(const Error&)> on_error) {
    return submit_erased(
        lane, std::move(tag), std::move(title),
        [work = std::move(work)](const WorkContext& context) -> std::shared_ptr<const void> {
          return work(context);
        },
        [on_done = std::move(on_done)](std::shared_ptr<const void> result) {
          if (on_done) on_done(std::static_pointer_cast<const T>(std::move(result)));
        },
        std::move(on_error));
  }

  // Delivers finished results to their callbacks, on the calling thread. Returns how many.
  int publish();
  void cancel(const std::string& tag);
  // The user cancels it: `on_error` of the job runs now, on the calling thread, with Error{Cancelled}.
  void give_up(const std::string& tag);
  void cancel_all();
  std::vector<JobStatus> status() const;  // queued and running, oldest first
  bool idle() const;                      // nothing queued, running or unpublished
  // Called (from a worker) when a result waits for publish(): wakes an idling window.
  void set_wake(std::function<void()> wake);

 private:
  using ErasedWork = std::function<std::shared_ptr<const void>(const WorkContext&)>;
  using ErasedDone = std::function<void(std::shared_ptr<const void>)>;
  std::uint64_t submit_erased(Lane lane, std::string tag, std::string title, ErasedWork work,
                              ErasedDone on_done, std::function<void(const Error&)> on_error);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe
