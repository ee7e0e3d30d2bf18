#include "app/state/answers.h"

#include <algorithm>

namespace kvloupe::state {

std::optional<AnswerStore::Entry> AnswerStore::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  found->second.asked = frame_;
  return found->second;
}

void AnswerStore::begin(const std::string& key, bool on_request) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  entry = Entry{};
  entry.asked = frame_;
  entry.on_request = on_request;
}

void AnswerStore::show(const std::string& key, std::shared_ptr<const void> answer) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  // Cancelled meanwhile, or begun anew.
  if (found == entries_.end() || found->second.state != ResultState::Loading) return;
  found->second.answer = std::move(answer);
}

void AnswerStore::put(const std::string& key, std::shared_ptr<const void> answer,
                      std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  put_locked(key, std::move(answer), bytes);
}

void AnswerStore::put_of(const CancelToken& work, const std::string& key,
                         std::shared_ptr<const void> answer, std::uint64_t bytes) {
  // Under the lock: who forgets cancels first and takes the lock then, so it finds either the flag
  // raised here or the entry there.
  const std::lock_guard lock(mutex_);
  if (!work.cancelled()) put_locked(key, std::move(answer), bytes);
}

void AnswerStore::put_locked(const std::string& key, std::shared_ptr<const void> answer,
                             std::uint64_t bytes) {
  Entry& entry = entries_[key];
  entry.state = ResultState::Ready;
  entry.answer = std::move(answer);
  entry.error.reset();
  entry.bytes = bytes;
  entry.asked = frame_;
  shrink();
}

void AnswerStore::fail(const std::string& key, const Error& error) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  entry.state = ResultState::Error;
  entry.answer.reset();
  entry.error = error;
}

void AnswerStore::stop(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state != ResultState::Loading) return;
  if (found->second.on_request && found->second.answer)
    found->second.state = ResultState::Ready;
  else
    entries_.erase(found);
}

std::vector<std::string> AnswerStore::next_frame() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> unwanted;
  for (const auto& [key, entry] : entries_)
    if (entry.state == ResultState::Loading && !entry.on_request && entry.asked + 1 < frame_)
      unwanted.push_back(key);
  for (const std::string& key : unwanted) entries_.erase(key);
  ++frame_;
  return unwanted;
}

void AnswerStore::forget_if(const std::function<bool(const std::string& key)>& doomed) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const auto& entry) { return doomed(entry.first); });
}

void AnswerStore::forget_failures() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_,
                [](const auto& entry) { return entry.second.state == ResultState::Error; });
}

std::uint64_t AnswerStore::bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.bytes;
  return sum;
}

bool AnswerStore::measuring() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second.on_request && entry.second.state == ResultState::Loading;
  });
}

// The longest not asked for goes first; what this frame and the one before asked for stays.
void AnswerStore::shrink() {
  std::uint64_t sum = 0;
  for (const auto& [key, entry] : entries_) sum += entry.bytes;
  while (sum > limit_) {
    auto oldest = entries_.end();
    for (auto it = entries_.begin(); it != entries_.end(); ++it)
      if (it->second.state != ResultState::Loading && it->second.asked + 1 < frame_ &&
          (oldest == entries_.end() || it->second.asked < oldest->second.asked))
        oldest = it;
    if (oldest == entries_.end()) return;
    sum -= oldest->second.bytes;
    entries_.erase(oldest);
  }
}

Answers::Answers(std::uint64_t memory_limit) : store_(memory_limit) {}

Answers::~Answers() { jobs_.cancel_all(); }

int Answers::begin_frame() {
  const int delivered = deliver();
  for (const std::string& key : store_.next_frame()) jobs_.cancel(key);
  return delivered;
}

void Answers::stop_measuring() {
  for (const JobStatus& job : jobs_.status()) {
    const auto entry = store_.find(job.tag);
    if (!entry || !entry->on_request) continue;
    jobs_.cancel(job.tag);
    store_.stop(job.tag);
  }
}

void Answers::give_up(const std::string& key) {
  jobs_.cancel(key);
  const auto entry = store_.find(key);
  if (!entry) return;
  if (entry->on_request)
    store_.stop(key);
  else
    store_.fail(key, Error(ErrorKind::Cancelled, "this was not computed", "it was cancelled",
                           "press F5 to begin anew"));
}

void Answers::forget(const std::string& key_part) {
  const auto mentions = [&](const std::string& key) {
    return (key + "|").find("|" + key_part + "|") != std::string::npos;
  };
  for (const JobStatus& job : jobs_.status())
    if (mentions(job.tag)) jobs_.cancel(job.tag);
  store_.forget_if(mentions);
}

}  // namespace kvloupe::state
