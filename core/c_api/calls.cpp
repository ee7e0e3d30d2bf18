// kvloupe.h in the engine: exceptions become codes and sentences, and the work goes to the selector's own thread.
#include "core/c_api/calls.h"

#include "core/base/foreign_error.h"
#include "core/base/thread_room.h"
#include "core/base/version.h"
#include "core/c_api/session.h"
#include "core/c_api/spec_facts.h"
#include "core/c_api/worker.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

struct kvloupe_selector {
  mutable std::mutex calls;
  pid_t process = ::getpid();  // the worker is a thread of this one alone
  std::int32_t threads = 0;
  std::unique_ptr<kvloupe::c_api::Worker> worker;
  std::optional<kvloupe::c_api::Session> session;
};

namespace kvloupe::c_api {
namespace {

// Workers of selectors that are no more, for the next ones. The host's heap keeps some kilobytes for each thread, which a thread
// of another C library does not give back at its end: so none ends.
class Workers {
 public:
  std::unique_ptr<Worker> take() {
    const std::lock_guard lock(mutex_);
    forget_those_of_the_parent();
    if (idle_.empty()) return std::make_unique<Worker>();
    std::unique_ptr<Worker> worker = std::move(idle_.back());
    idle_.pop_back();
    return worker;
  }
  void put(std::unique_ptr<Worker> worker) {
    const std::lock_guard lock(mutex_);
    forget_those_of_the_parent();
    idle_.push_back(std::move(worker));
  }

 private:
  // A child that fork() made has their memory, and not their threads.
  void forget_those_of_the_parent() {
    if (process_ == ::getpid()) return;
    process_ = ::getpid();
    for (std::unique_ptr<Worker>& worker : idle_) static_cast<void>(worker.release());
    idle_.clear();
  }

  std::mutex mutex_;
  pid_t process_ = ::getpid();
  std::vector<std::unique_ptr<Worker>> idle_;
};

// Never destroyed: its threads wait to the end of the process.
Workers& workers() {
  static auto* all = new Workers;
  return *all;
}

int code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Usage: return KVLOUPE_ERROR_USAGE;
    case ErrorKind::Input:
    case ErrorKind::Cancelled: return KVLOUPE_ERROR_INPUT;
    case ErrorKind::Internal: break;
  }
  return KVLOUPE_ERROR_INTERNAL;
}

int fail(const Error& failure, ErrorText* error) {
  // At the end of a character of UTF-8 where it must be cut.
  std::size_t length = std::min(std::strlen(failure.what()), kMostOfError - 1);
  while (length > 0 && (static_cast<unsigned char>(failure.what()[length]) & 0xC0U) == 0x80U)
    --length;
  std::memcpy(error->text, failure.what(), length);
  error->text[length] = '\0';
  return code_of(failure.kind());
}

// Runs the work and says what became of it. Nothing is thrown.
template <typename Work>
int guarded(ErrorText* error, const Work& work) noexcept {
  try {
    work();
    return KVLOUPE_OK;
  } catch (const std::exception& thrown) {
    return fail(error_from("the selector failed", thrown), error);
  } catch (...) {
    return fail({ErrorKind::Internal, "the selector failed", "something unknown was thrown",
                 "please report this with what you did"},
                error);
  }
}

// Runs the work in that thread and throws here what went wrong there.
void in_thread(Worker& worker, const char* what_failed, const std::function<void()>& work,
               bool spins = false) {
  std::optional<Error> failure;
  worker.run(
      [&]() noexcept {
        try {
          work();
        } catch (const std::exception& thrown) {
          failure = error_from(what_failed, thrown);
        } catch (...) {
          failure = Error(ErrorKind::Internal, what_failed, "something unknown was thrown",
                          "please report this with what you did");
        }
      },
      spins);
  if (failure) throw *failure;
}

// The cores of a call while it lasts: those that compute, and one for the caller.
class CoresOfCall {
 public:
  explicit CoresOfCall(std::int32_t threads)
      : count_((threads > 0 ? threads : default_threads()) + 1),
        are_free_(taken.fetch_add(count_) + count_ <= default_threads()) {}
  ~CoresOfCall() { taken -= count_; }
  CoresOfCall(const CoresOfCall&) = delete;
  CoresOfCall& operator=(const CoresOfCall&) = delete;

  bool are_free() const { return are_free_; }

 private:
  static inline std::atomic<std::int32_t> taken = 0;
  std::int32_t count_;
  bool are_free_;
};

void check_process(const kvloupe_selector& selector) {
  if (selector.process != ::getpid())
    throw usage_error("the selector cannot be used in this process",
                      "it was made in the one from which this one was forked",
                      "make a selector after the fork");
}

// In the selector's own thread, one call after the other.
int in_worker(kvloupe_selector* selector, ErrorText* error,
              const std::function<void(Session&)>& work) {
  return guarded(error, [&] {
    check_process(*selector);
    const std::lock_guard lock(selector->calls);
    const CoresOfCall cores(selector->threads);
    in_thread(
        *selector->worker, "the selector failed", [&] { work(*selector->session); },
        cores.are_free());
  });
}

// A selector with the session that `emplace` puts into it.
int make(std::int32_t threads, const std::function<void(std::optional<Session>&)>& emplace,
         kvloupe_selector** selector, ErrorText* error) {
  return guarded(error, [&] {
    if (threads < 0 || threads > 4096)
      throw usage_error(fmt::format("{} threads cannot compute", threads),
                        "the number is from 1 to 4096, or 0 for all cores", "give another number");
    // OpenMP would end the program with a message of its own; one more is the worker.
    require_threads((threads > 0 ? threads : default_threads()) + 1);
    auto made = std::make_unique<kvloupe_selector>();
    made->threads = threads;
    made->worker = workers().take();
    // In the thread that its settings are to hold for.
    try {
      in_thread(*made->worker, "the selector cannot be made", [&] { emplace(made->session); });
    } catch (const Error&) {
      workers().put(std::move(made->worker));
      throw;
    }
    *selector = made.release();
  });
}

int facts_of(const char* spec, char* json, std::size_t room, std::size_t* length,
             ErrorText* error) {
  return guarded(error, [&] {
    const std::string text = spec_facts(spec);
    if (length != nullptr) *length = text.size();
    if (room == 0) return;
    const std::size_t written = std::min(text.size(), room - 1);
    std::memcpy(json, text.data(), written);
    json[written] = '\0';
  });
}

int create(const char* spec, const kvloupe_model* model, std::int32_t threads,
           kvloupe_selector** selector, ErrorText* error) {
  return make(
      threads, [&](std::optional<Session>& session) { session.emplace(spec, *model, threads); },
      selector, error);
}

int fork_of(const kvloupe_selector* selector, kvloupe_selector** copy, ErrorText* error) {
  if (const int code = guarded(error, [&] { check_process(*selector); })) return code;
  const std::lock_guard lock(selector->calls);
  return make(
      selector->threads,
      [&](std::optional<Session>& session) { session.emplace(*selector->session); }, copy, error);
}

void destroy(kvloupe_selector* selector) {
  // In a forked child its thread is not there, and its lock may be held for good.
  if (selector->process != ::getpid()) return;
  ErrorText ignored;
  guarded(&ignored, [&] {
    in_thread(*selector->worker, "the selector cannot be ended",
              [&] { selector->session.reset(); });
    workers().put(std::move(selector->worker));
  });
  delete selector;
}

const char* spec_of(const kvloupe_selector* selector) { return selector->session->spec().c_str(); }

int select(kvloupe_selector* selector, const kvloupe_chunk* chunk, ErrorText* error) {
  return in_worker(selector, error, [&](Session& session) { session.select(*chunk); });
}

int alive(kvloupe_selector* selector, std::int32_t layer, ErrorText* error) {
  return in_worker(selector, error, [&](Session& session) { session.show_alive(layer); });
}

int reset(kvloupe_selector* selector, std::int64_t past, std::int64_t chunk, ErrorText* error) {
  return in_worker(selector, error, [&](Session& session) { session.reset(past, chunk); });
}

int layout(const kvloupe_selector* selector, std::int32_t* row_axis, std::int64_t* num_rows,
           std::int64_t* q_heads_per_row, ErrorText*) {
  const Session& session = *selector->session;
  const selection::RowLayout& rows = session.layout();
  if (row_axis != nullptr)
    *row_axis = rows.axis == trace::RowAxis::KvHead  ? KVLOUPE_ROW_KV_HEAD
                : rows.axis == trace::RowAxis::QHead ? KVLOUPE_ROW_Q_HEAD
                                                     : KVLOUPE_ROW_SUBGROUP;
  if (num_rows != nullptr) *num_rows = session.num_rows();
  if (q_heads_per_row != nullptr) *q_heads_per_row = rows.q_heads_per_row;
  return KVLOUPE_OK;
}

int row(const kvloupe_selector* selector, std::int64_t index, const std::int32_t** positions,
        std::int64_t* count, ErrorText* error) {
  return guarded(error, [&] {
    check_process(*selector);
    const std::lock_guard lock(selector->calls);
    const std::span<const std::int32_t> found = selector->session->row(index);
    *positions = found.data();
    *count = std::ssize(found);
  });
}

int rows(const kvloupe_selector* selector, const std::int32_t** positions,
         const std::int64_t** offsets, ErrorText* error) {
  return guarded(error, [&] {
    check_process(*selector);
    const std::lock_guard lock(selector->calls);
    const Rows& found = selector->session->rows();
    *positions = found.positions.data();
    *offsets = found.offsets.data();
  });
}

int blocks(const kvloupe_selector* selector, kvloupe_blocks* blocks, ErrorText* error) {
  return guarded(error, [&] {
    check_process(*selector);
    const std::lock_guard lock(selector->calls);
    const trace::BlockMasks* found = selector->session->blocks();
    if (found == nullptr) return;
    blocks->num_q_heads = found->num_q_heads;
    blocks->block_size = found->grid.block_size;
    blocks->past = found->grid.past_len;
    blocks->num_query_blocks = found->grid.num_query_blocks();
    blocks->num_key_blocks = found->grid.num_key_blocks();
    blocks->kept = found->kept.data();
    blocks->forced = found->forced.data();
    blocks->abstains = found->abstains.empty() ? nullptr : found->abstains.data();
  });
}

const char* dense_reason(const kvloupe_selector* selector) {
  // In a forked child the lock may be held for good.
  if (selector->process != ::getpid()) return nullptr;
  const std::lock_guard lock(selector->calls);
  return selector->session->dense_reason();
}

const std::string version_text = version();

}  // namespace
}  // namespace kvloupe::c_api

extern "C" const kvloupe::c_api::Calls kvloupe_c_calls_4 = {
    kvloupe::c_api::version_text.c_str(),
    &kvloupe::c_api::facts_of,
    &kvloupe::c_api::create,
    &kvloupe::c_api::fork_of,
    &kvloupe::c_api::destroy,
    &kvloupe::c_api::spec_of,
    &kvloupe::c_api::select,
    &kvloupe::c_api::alive,
    &kvloupe::c_api::layout,
    &kvloupe::c_api::row,
    &kvloupe::c_api::rows,
    &kvloupe::c_api::blocks,
    &kvloupe::c_api::dense_reason,
    &kvloupe::c_api::reset,
};
