// The one place where questions are answered: jobs, one cache within the memory limit, one loading
// and error state. One thread asks, frame by frame; what is no longer asked for is cancelled.
#pragma once

#include "app/state/question.h"
#include "core/base/engine_library.h"
#include "core/base/error.h"
#include "core/base/memory_account.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// Answers by key, whatever their type. Every member may be called from any thread. What this frame
// and the one before asked for, and what somebody holds, never goes to make room. An answer is
// charged until its last user lets go of it.
class AnswerStore final : public MemoryCache {
 public:
  struct Entry {
    ResultState state = ResultState::Loading;
    std::shared_ptr<const void> answer;  // Ready, or a first one while Loading
    std::optional<Error> error;
    std::uint64_t asked = 0;  // frame in which it was last asked for
    std::uint64_t used = 0;   // MemoryAccount::now of that
    bool on_request = false;
  };

  explicit AnswerStore(MemoryAccountPtr memory);
  ~AnswerStore();

  // Notes that the key is asked for in this frame.
  std::optional<Entry> find(const std::string& key);
  void begin(const std::string& key, bool on_request);
  void show(const std::string& key, std::shared_ptr<const void> answer);  // of one under way
  void put(const std::string& key, std::shared_ptr<const void> answer, std::uint64_t bytes);
  // Of work under way: not kept once it was cancelled, so that what was forgotten does not come back.
  // Returns the answer as it is charged.
  std::shared_ptr<const void> put_of(const CancelToken& work, const std::string& key,
                                     std::shared_ptr<const void> answer, std::uint64_t bytes);
  void fail(const std::string& key, const Error& error);
  // A measurement cut short keeps what it has shown; another entry under way goes.
  void stop(const std::string& key);
  // Keys under way that were asked for neither in this frame nor in the one before, then counts a
  // frame.
  std::vector<std::string> next_frame();
  void forget_if(const std::function<bool(const std::string& key)>& doomed);
  void forget_failures();
  bool measuring() const;  // an entry on request is under way
  // The answers that another store was lately asked for: they stay charged where they were put.
  void take_shown(const AnswerStore& other);

  std::optional<std::uint64_t> oldest_use() const override;
  std::shared_ptr<const void> give_up_oldest() override;

 private:
  using Entries = std::map<std::string, Entry>;
  std::shared_ptr<const void> charged(std::shared_ptr<const void> answer,
                                      std::uint64_t bytes) const;
  // The answer that was there before: the caller destroys it outside of the lock.
  std::shared_ptr<const void> put_locked(const std::string& key,
                                         std::shared_ptr<const void> answer);
  Entries::const_iterator oldest() const;

  const MemoryAccountPtr memory_;
  mutable std::mutex mutex_;
  Entries entries_;
  std::uint64_t frame_ = 2;
};

class Answers {
 public:
  explicit Answers(MemoryAccountPtr memory = std::make_shared<MemoryAccount>());

  // Readies the engine, from any thread, before the work of a question that needs it; nothing to do
  // when it returned before. By default it loads the engine (core/base/engine_library.h).
  std::function<void()> start_engine = load_engine;
  ~Answers();

  // What is known now. An unknown answer is computed in the background: ask again in the next frame.
  template <Question Q>
  Result<Q> ask(const Q& question);
  // Begins a measurement, anew where there is one already.
  template <Question Q>
  void start(const Q& question);
  template <Question Q>
  void stop(const Q& question);
  void stop_measuring();
  // The user cancels a job, of an answer or any other. Who asks for the answer again is told so, until what failed is tried
  // again. A measurement keeps its samples.
  void give_up(const std::string& key);
  // Inside a job: the answer now, from the cache or computed here.
  template <Question Q>
  std::shared_ptr<const typename Q::Answer> need(const Q& question, const WorkContext& context);

  // Once a frame, before anything is asked: delivers results and cancels what nobody asked for
  // lately. Returns how many results came.
  int begin_frame();
  // Results alone, for who waits between frames.
  int deliver() { return jobs_.publish(); }
  // Answers that mention the part of a key, of a closed trace for example, and the work on them.
  void forget(const std::string& key_part);
  // What failed is tried again when it is next asked for: memory may be free, or a file back.
  void forget_failures() { store_.forget_failures(); }
  bool busy() const { return !jobs_.idle(); }
  bool measuring() const { return store_.measuring(); }
  JobSystem& jobs() { return jobs_; }
  const JobSystem& jobs() const { return jobs_; }
  // What others were asked for in this frame or the one before need not be computed here.
  void take_shown(const Answers& others);

 private:
  template <Question Q>
  void submit(const std::string& key, const Q& question);

  AnswerStore store_;
  JobSystem jobs_;  // last: its threads use the store until they are joined
};

// What work is given: its cancel flag and progress, and the answers that it builds on.
class Steps {
 public:
  Steps(Answers& answers, AnswerStore* store, std::string key, const WorkContext& work_context)
      : context(work_context), answers_(answers), store_(store), key_(std::move(key)) {}

  template <Question Q>
  std::shared_ptr<const typename Q::Answer> need(const Q& question) {
    return answers_.need(question, context);
  }
  // Lets the window draw a first, coarse answer while the work goes on.
  template <typename Answer>
  void show(Answer answer) {
    if (store_ != nullptr) store_->show(key_, std::make_shared<const Answer>(std::move(answer)));
  }

  const WorkContext& context;

 private:
  Answers& answers_;
  AnswerStore* store_;  // null where another question needs the answer: nothing is shown early
  std::string key_;
};

template <Question Q>
Result<Q> Answers::ask(const Q& question) {
  using Answer = typename Q::Answer;
  Result<Q> result{ResultState::Empty, question, nullptr, false, {}, {}, {}};
  result.note = obstacle_of(question);
  if (!result.note.empty()) return result;
  result.key = key_of(question);
  auto entry = store_.find(result.key);
  if (!entry) {
    if (pace_of<Q>() == Pace::OnRequest) return result;
    result.state = ResultState::Loading;
    if (pace_of<Q>() == Pace::Patient && !jobs_.idle()) return result;
    submit(result.key, question);
    return result;
  }
  result.state = entry->state;
  result.answer = std::static_pointer_cast<const Answer>(entry->answer);
  if (entry->error) result.error = entry->error->what();
  return result;
}

template <Question Q>
void Answers::submit(const std::string& key, const Q& question) {
  using Answer = typename Q::Answer;
  store_.begin(key, pace_of<Q>() == Pace::OnRequest);
  jobs_.submit<Answer>(
      lane_of(question), key, question.title(),
      [this, key, question](const WorkContext& context) {
        // Another job may have needed it meanwhile.
        if (const auto entry = store_.find(key); entry && entry->state == ResultState::Ready)
          return std::static_pointer_cast<const Answer>(entry->answer);
        if (needs_engine(question)) start_engine();
        Steps steps(*this, &store_, key, context);
        return std::shared_ptr<const Answer>(std::make_shared<const Answer>(question.work(steps)));
      },
      [this, key](std::shared_ptr<const Answer> answer) {
        const std::uint64_t bytes = bytes_of<Q>(*answer);
        store_.put(key, std::move(answer), bytes);
      },
      [this, key](const Error& error) { store_.fail(key, error); });
}

template <Question Q>
std::shared_ptr<const typename Q::Answer> Answers::need(const Q& question,
                                                        const WorkContext& context) {
  using Answer = typename Q::Answer;
  const std::string key = key_of(question);
  if (const auto entry = store_.find(key)) {
    if (entry->state == ResultState::Ready)
      return std::static_pointer_cast<const Answer>(entry->answer);
    // Who builds on what the user cancelled fails: Cancelled would mean that this work was.
    if (const auto& error = entry->error)
      throw error->kind() != ErrorKind::Cancelled
          ? *error
          : input_error(error->what_failed(), error->why(), error->remedy());
  }
  if (needs_engine(question)) start_engine();
  Steps steps(*this, nullptr, key, context);
  auto answer = std::make_shared<const Answer>(question.work(steps));
  const std::uint64_t bytes = bytes_of<Q>(*answer);
  return std::static_pointer_cast<const Answer>(
      store_.put_of(context.cancel, key, std::move(answer), bytes));
}

template <Question Q>
void Answers::start(const Q& question) {
  if (!obstacle_of(question).empty()) return;
  stop_measuring();
  submit(key_of(question), question);
}

template <Question Q>
void Answers::stop(const Q& question) {
  const std::string key = key_of(question);
  jobs_.cancel(key);
  store_.stop(key);
}

}  // namespace kvloupe::state
