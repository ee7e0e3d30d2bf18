#include "app/state/answers.h"

#include <algorithm>

namespace kvloupe::state {

AnswerStore::AnswerStore(MemoryAccountPtr memory) : memory_(std::move(memory)) {
  memory_->add(*this);
}

AnswerStore::~AnswerStore() { memory_->remove(*this); }

std::optional<AnswerStore::Entry> AnswerStore::find(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  found->second.asked = frame_;
  found->second.used = memory_->now();
  return found->second;
}

void AnswerStore::begin(const std::string& key, bool on_request) {
  Entry entry;
  entry.on_request = on_request;
  const std::lock_guard lock(mutex_);
  entry.asked = frame_;
  std::swap(entries_[key], entry);
}

void AnswerStore::show(const std::string& key, std::shared_ptr<const void> answer) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  // Cancelled meanwhile, or begun anew.
  if (found == entries_.end() || found->second.state != ResultState::Loading) return;
  found->second.answer.swap(answer);
}

std::shared_ptr<const void> AnswerStore::charged(std::shared_ptr<const void> answer,
                                                 std::uint64_t bytes) const {
  struct Charged {
    MemoryCharge charge;  // goes last
    std::shared_ptr<const void> answer;
  };
  auto held = std::make_shared<const Charged>(
      Charged{MemoryCharge(memory_, MemoryPart::Answers, bytes), std::move(answer)});
  const void* const value = held->answer.get();
  return {std::move(held), value};
}

void AnswerStore::put(const std::string& key, std::shared_ptr<const void> answer,
                      std::uint64_t bytes) {
  answer = charged(std::move(answer), bytes);
  std::shared_ptr<const void> before;
  const std::lock_guard lock(mutex_);
  before = put_locked(key, std::move(answer));
}

std::shared_ptr<const void> AnswerStore::put_of(const CancelToken& work, const std::string& key,
                                                std::shared_ptr<const void> answer,
                                                std::uint64_t bytes) {
  answer = charged(std::move(answer), bytes);
  std::shared_ptr<const void> before;
  // Under the lock: whoever drops the entry cancels first and then takes the lock. So either the flag
  // is found raised here, or the entry is found there.
  const std::lock_guard lock(mutex_);
  if (!work.cancelled()) before = put_locked(key, answer);
  return answer;
}

std::shared_ptr<const void> AnswerStore::put_locked(const std::string& key,
                                                    std::shared_ptr<const void> answer) {
  Entry& entry = entries_[key];
  entry.state = ResultState::Ready;
  entry.answer.swap(answer);
  entry.error.reset();
  entry.asked = frame_;
  entry.used = memory_->now();
  return answer;
}

void AnswerStore::fail(const std::string& key, const Error& error) {
  std::shared_ptr<const void> before;
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  entry.state = ResultState::Error;
  entry.answer.swap(before);
  entry.error = error;
}

void AnswerStore::stop(const std::string& key) {
  Entry stopped;
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.state != ResultState::Loading) return;
  if (found->second.on_request && found->second.answer)
    found->second.state = ResultState::Ready;
  else
    stopped = entries_.extract(found).mapped();
}

std::vector<std::string> AnswerStore::next_frame() {
  std::vector<Entries::node_type> gone;
  const std::lock_guard lock(mutex_);
  std::vector<std::string> unwanted;
  for (const auto& [key, entry] : entries_)
    if (entry.state == ResultState::Loading && !entry.on_request && entry.asked + 1 < frame_)
      unwanted.push_back(key);
  for (const std::string& key : unwanted) gone.push_back(entries_.extract(key));
  ++frame_;
  return unwanted;
}

void AnswerStore::forget_if(const std::function<bool(const std::string& key)>& doomed) {
  std::vector<Entries::node_type> gone;
  const std::lock_guard lock(mutex_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    const auto entry = it++;
    if (doomed(entry->first)) gone.push_back(entries_.extract(entry));
  }
}

void AnswerStore::forget_failures() {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_,
                [](const auto& entry) { return entry.second.state == ResultState::Error; });
}

bool AnswerStore::measuring() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [](const auto& entry) {
    return entry.second.on_request && entry.second.state == ResultState::Loading;
  });
}

void AnswerStore::take_shown(const AnswerStore& other) {
  Entries shown;
  {
    const std::lock_guard lock(other.mutex_);
    for (const auto& [key, entry] : other.entries_)
      if (entry.state == ResultState::Ready && entry.asked + 1 >= other.frame_)
        shown.emplace(key, entry);
  }
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : shown) {
    entry.asked = frame_;
    entries_.insert_or_assign(key, std::move(entry));
  }
}

AnswerStore::Entries::const_iterator AnswerStore::oldest() const {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Entry& entry = it->second;
    if (entry.state == ResultState::Ready && entry.asked + 1 < frame_ &&
        entry.answer.use_count() == 1 &&
        (oldest == entries_.end() || entry.used < oldest->second.used))
      oldest = it;
  }
  return oldest;
}

std::optional<std::uint64_t> AnswerStore::oldest_use() const {
  const std::lock_guard lock(mutex_);
  const auto found = oldest();
  if (found == entries_.end()) return std::nullopt;
  return found->second.used;
}

std::shared_ptr<const void> AnswerStore::give_up_oldest() {
  const std::lock_guard lock(mutex_);
  const auto found = oldest();
  if (found == entries_.end()) return nullptr;
  return entries_.extract(found).mapped().answer;
}

Answers::Answers(MemoryAccountPtr memory) : store_(std::move(memory)) {}

Answers::~Answers() { jobs_.cancel_all(); }

void Answers::take_shown(const Answers& others) {
  start_engine = others.start_engine;
  store_.take_shown(others.store_);
}

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
  if (const auto entry = store_.find(key); !entry || !entry->on_request) return jobs_.give_up(key);
  jobs_.cancel(key);
  store_.stop(key);
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
