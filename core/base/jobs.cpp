// Job lanes: one worker thread each, all state behind one mutex, user code always run outside it.
#include "core/base/jobs.h"

#include "core/base/foreign_error.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

namespace kvloupe {
namespace {

constexpr int kNumLanes = 5;
constexpr int kTimingLane = static_cast<int>(Lane::Timing);

// Beside a window: it is drawn first, then what it waits for is computed, then what takes long. On Linux a
// thread has a niceness of its own, and the threads and processes that it starts, Torch's too, inherit it.
// Times are taken undisturbed.
void step_back(Lane lane) {
  constexpr int kShort = 5, kLong = 15;
  const bool is_short = lane == Lane::Compute || lane == Lane::Command;
  const int steps = is_short ? kShort : lane == Lane::Whole ? kLong : 0;
  const auto thread = static_cast<id_t>(::gettid());
  if (steps > 0) ::setpriority(PRIO_PROCESS, thread, ::getpriority(PRIO_PROCESS, thread) + steps);
}

struct Job {
  JobStatus status;
  CancelSource cancel;
  std::function<std::shared_ptr<const void>(const WorkContext&)> work;
  std::function<void(std::shared_ptr<const void>)> on_done;
  std::function<void(const Error&)> on_error;
  std::shared_ptr<const void> result;
  std::optional<Error> error;

  bool cancelled() const { return cancel.token().cancelled(); }
};

// Runs the work and turns whatever it throws into an Error: the job boundary.
void run_work(Job& job, const WorkContext& context) {
  try {
    job.result = job.work(context);
  } catch (const Error& error) {
    // Work that stops because of a flag other than the job's own (Ctrl+C) is cancelled all the
    // same.
    if (error.kind() == ErrorKind::Cancelled) job.cancel.cancel();
    job.error = error;
  } catch (const std::exception& thrown) {
    job.error = error_from(job.status.title + " failed", thrown);
  } catch (...) {
    job.error = Error(ErrorKind::Internal, job.status.title + " failed", "the cause is unknown",
                      "please report this with what you did");
  }
}

}  // namespace

struct JobSystem::Impl {
  using JobPtr = std::shared_ptr<Job>;

  mutable std::mutex mutex;
  std::condition_variable work_ready;
  std::array<std::deque<JobPtr>, kNumLanes> queued;
  std::array<JobPtr, kNumLanes> running;
  std::deque<JobPtr> finished;  // wait for publish()
  std::function<void()> wake;
  std::uint64_t next_id = 1;
  bool stopping = false;
  std::array<std::thread, kNumLanes> workers;

  // A timing job gives way: it starts only when no other lane runs or wants to run a job, so that
  // it neither disturbs the user nor is disturbed. Once it runs the others wait for its end.
  bool may_start(int lane) const {
    if (queued[lane].empty()) return false;
    if (lane != kTimingLane) return running[kTimingLane] == nullptr;
    for (int other = 0; other < kNumLanes; ++other) {
      if (other != lane && (running[other] || !queued[other].empty())) return false;
    }
    return true;
  }

  WorkContext context_of(const JobPtr& job) {
    WorkContext context;
    context.cancel = job->cancel.token();
    context.progress = [this, job = job.get()](std::int64_t done, std::int64_t total,
                                               const std::string& stage) {
      const std::lock_guard lock(mutex);
      job->status.done = done;
      job->status.total = total;
      if (!stage.empty()) job->status.stage = stage;
    };
    return context;
  }

  void end_workers() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      wake = nullptr;
      work_ready.notify_all();
    }
    for (auto& worker : workers)
      if (worker.joinable()) worker.join();
  }

  void work_on(int lane) {
    bool stepped_back = false;
    std::unique_lock lock(mutex);
    while (true) {
      work_ready.wait(lock, [&] { return stopping || may_start(lane); });
      if (stopping) return;
      if (wake && !stepped_back) {  // there is a window
        step_back(static_cast<Lane>(lane));
        stepped_back = true;
      }
      JobPtr job = std::move(queued[lane].front());
      queued[lane].pop_front();
      job->status.running = true;
      running[lane] = job;
      lock.unlock();

      run_work(*job, context_of(job));
      job->work = nullptr;  // what the work captured is destroyed here, not under the lock

      std::function<void()> wake_now;
      lock.lock();
      running[lane] = nullptr;
      if (!job->cancelled()) {
        finished.push_back(std::move(job));
        wake_now = wake;
      }
      work_ready.notify_all();
      lock.unlock();
      job = nullptr;
      if (wake_now) wake_now();
      lock.lock();
    }
  }

  // Takes every job for which `chosen` holds out of the queues and flags it where it runs. The jobs
  // dropped are returned so that their captures die outside the lock.
  template <typename Chosen>
  std::vector<JobPtr> drop(const Chosen& chosen) {
    std::vector<JobPtr> dropped;
    const auto drop_from = [&](std::deque<JobPtr>& jobs) {
      const auto kept = std::stable_partition(jobs.begin(), jobs.end(),
                                              [&](const JobPtr& job) { return !chosen(*job); });
      std::move(kept, jobs.end(), std::back_inserter(dropped));
      jobs.erase(kept, jobs.end());
    };
    for (auto& lane : queued) drop_from(lane);
    drop_from(finished);
    for (const auto& job : running) {
      if (job && chosen(*job)) job->cancel.cancel();
    }
    for (const auto& job : dropped) job->cancel.cancel();
    work_ready.notify_all();  // an emptied queue may be what a timing job waits for
    return dropped;
  }
};

JobSystem::JobSystem() : impl_(std::make_unique<Impl>()) {
  try {
    for (int lane = 0; lane < kNumLanes; ++lane) {
      impl_->workers[lane] = std::thread([impl = impl_.get(), lane] { impl->work_on(lane); });
    }
  } catch (const std::system_error&) {
    impl_->end_workers();
    throw;
  }
}

JobSystem::~JobSystem() {
  cancel_all();
  impl_->end_workers();
}

std::uint64_t JobSystem::submit_erased(Lane lane, std::string tag, std::string title,
                                       ErasedWork work, ErasedDone on_done,
                                       std::function<void(const Error&)> on_error) {
  auto job = std::make_shared<Job>();
  job->status.tag = std::move(tag);
  job->status.title = std::move(title);
  job->work = std::move(work);
  job->on_done = std::move(on_done);
  job->on_error = std::move(on_error);

  std::vector<Impl::JobPtr> superseded;
  const std::lock_guard lock(impl_->mutex);
  superseded = impl_->drop([&](const Job& other) { return other.status.tag == job->status.tag; });
  job->status.id = impl_->next_id++;
  const std::uint64_t id = job->status.id;
  impl_->queued[static_cast<int>(lane)].push_back(std::move(job));
  impl_->work_ready.notify_all();
  return id;
}

int JobSystem::publish() {
  std::size_t pending = 0;
  {
    const std::lock_guard lock(impl_->mutex);
    pending = impl_->finished.size();
  }
  int delivered = 0;
  // One by one: a callback may submit or cancel, and what it cancels must not be delivered.
  for (; pending > 0; --pending) {
    Impl::JobPtr job;
    {
      const std::lock_guard lock(impl_->mutex);
      if (impl_->finished.empty()) break;
      job = std::move(impl_->finished.front());
      impl_->finished.pop_front();
    }
    ++delivered;
    if (job->error) {
      if (job->on_error) job->on_error(*job->error);
    } else if (job->on_done) {
      job->on_done(std::move(job->result));
    }
  }
  return delivered;
}

void JobSystem::cancel(const std::string& tag) {
  std::vector<Impl::JobPtr> dropped;
  const std::lock_guard lock(impl_->mutex);
  dropped = impl_->drop([&](const Job& job) { return job.status.tag == tag; });
}

void JobSystem::give_up(const std::string& tag) {
  std::vector<Impl::JobPtr> given_up;
  {
    const std::lock_guard lock(impl_->mutex);
    const auto chosen = [&](const Job& job) { return job.status.tag == tag; };
    for (const auto& job : impl_->running)
      if (job && chosen(*job) && !job->cancelled()) given_up.push_back(job);
    for (Impl::JobPtr& job : impl_->drop(chosen)) given_up.push_back(std::move(job));
  }
  for (const Impl::JobPtr& job : given_up)
    if (job->on_error)
      job->on_error(Error(ErrorKind::Cancelled, job->status.title + " was cancelled",
                          "its result is not waited for", "start it again"));
}

void JobSystem::cancel_all() {
  std::vector<Impl::JobPtr> dropped;
  const std::lock_guard lock(impl_->mutex);
  dropped = impl_->drop([](const Job&) { return true; });
}

std::vector<JobStatus> JobSystem::status() const {
  std::vector<JobStatus> all;
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& job : impl_->running) {
      if (job) all.push_back(job->status);
    }
    for (const auto& lane : impl_->queued) {
      for (const auto& job : lane) all.push_back(job->status);
    }
  }
  std::sort(all.begin(), all.end(),
            [](const JobStatus& a, const JobStatus& b) { return a.id < b.id; });
  return all;
}

bool JobSystem::idle() const {
  const std::lock_guard lock(impl_->mutex);
  const auto is_free = [](const auto& lane) { return lane == nullptr; };
  const auto is_empty = [](const auto& lane) { return lane.empty(); };
  return std::all_of(impl_->running.begin(), impl_->running.end(), is_free) &&
         std::all_of(impl_->queued.begin(), impl_->queued.end(), is_empty) &&
         impl_->finished.empty();
}

void JobSystem::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(impl_->mutex);
  impl_->wake = std::move(wake);
}

}  // namespace kvloupe
