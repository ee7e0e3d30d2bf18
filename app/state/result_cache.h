// Results of background jobs, asked for anew in every frame. A channel is one place on the screen:
// it computes one result at a time, a newer request supersedes the older, and while a new one is
// computed the last one stays available, marked stale.
#pragma once

#include "core/base/jobs.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace kvloupe::state {

enum class ResultState { Empty, Loading, Error, Ready };

template <typename T>
struct Result {
  ResultState state = ResultState::Empty;
  std::shared_ptr<const T> value;  // set when Ready, or when stale
  bool stale = false;              // value belongs to an earlier request of the channel
  std::string key;                 // of `value`
  std::string error;
  std::string note;  // Empty: why there is nothing

  explicit operator bool() const { return value != nullptr; }
  const T* operator->() const { return value.get(); }
  const T& operator*() const { return *value; }
};

template <typename T>
Result<T> empty_result(std::string note) {
  Result<T> result;
  result.note = std::move(note);
  return result;
}

// What a result that depends on another one reports while the other is not ready.
template <typename T, typename U>
Result<T> waiting_for(const Result<U>& other) {
  Result<T> result;
  result.state = other.state == ResultState::Ready ? ResultState::Loading : other.state;
  result.error = other.error;
  result.note = other.note;
  return result;
}

template <typename T>
class ResultCache {
 public:
  explicit ResultCache(JobSystem& jobs, std::size_t capacity = 24)
      : jobs_(&jobs), capacity_(capacity) {}

  using Work = std::function<std::shared_ptr<const T>(const WorkContext&)>;

  // Urgent work is queued at once. Patient work (heavy, or of a detail) is queued when nothing else
  // runs: the lane is first come, first served, and what stands in the middle of the screen must
  // not wait behind it.
  enum class Pace { Urgent, Patient };
  Result<T> request(const std::string& channel, const std::string& key, const std::string& title,
                    Lane lane, const Work& work, Pace pace = Pace::Urgent) {
    Channel& where = channels_[channel];
    auto found = entries_.find(key);
    if (found == entries_.end()) {
      if (forget_in_flight(where)) jobs_->cancel(channel);
      if (pace == Pace::Patient && !jobs_->idle()) {
        Result<T> waiting{ResultState::Loading, nullptr, false, {}, {}, {}};
        attach_stale(where, waiting);
        return waiting;
      }
      where.in_flight = key;
      found = entries_.emplace(key, Entry{}).first;
      submit(channel, key, title, lane, work);
    }
    Entry& entry = found->second;
    entry.used = ++clock_;
    if (entry.state == ResultState::Ready) {
      where.shown = key;
      forget_old();
      return {ResultState::Ready, entry.value, false, key, {}, {}};
    }
    Result<T> result{entry.state, nullptr, false, {}, entry.error, {}};
    if (entry.state == ResultState::Loading) attach_stale(where, result);
    return result;
  }

  // The last result shown on a channel, whatever it belongs to.
  Result<T> last(const std::string& channel, Result<T> result) {
    attach_stale(channels_[channel], result);
    return result;
  }
  bool has(const std::string& key) const { return entries_.count(key) != 0; }
  void clear() {
    entries_.clear();
    channels_.clear();
    ++*generation_;
  }

 private:
  struct Entry {
    ResultState state = ResultState::Loading;
    std::shared_ptr<const T> value;
    std::string error;
    std::uint64_t used = 0;
  };
  struct Channel {
    std::string in_flight;
    std::string shown;
  };

  void submit(const std::string& channel, const std::string& key, const std::string& title,
              Lane lane, const Work& work) {
    // The callbacks run in publish(), on this thread; the generation tells a cleared cache.
    const auto generation = generation_;
    const std::uint64_t born = *generation;
    jobs_->submit<T>(
        lane, channel, title, work,
        [this, key, generation, born](std::shared_ptr<const T> value) {
          if (*generation != born) return;
          Entry& entry = entries_[key];
          entry.state = ResultState::Ready;
          entry.value = std::move(value);
        },
        [this, key, generation, born](const Error& error) {
          if (*generation != born) return;
          Entry& entry = entries_[key];
          entry.state = ResultState::Error;
          entry.error = error.what();
        });
  }

  // The job system drops or cancels the older job of a channel without a callback.
  // True if there was one.
  bool forget_in_flight(Channel& channel) {
    const auto found = entries_.find(channel.in_flight);
    if (found == entries_.end() || found->second.state != ResultState::Loading) return false;
    entries_.erase(found);
    return true;
  }

  void attach_stale(const Channel& channel, Result<T>& result) const {
    const auto found = entries_.find(channel.shown);
    if (found == entries_.end() || found->second.state != ResultState::Ready) return;
    result.value = found->second.value;
    result.key = found->first;
    result.stale = true;
  }

  void forget_old() {
    while (entries_.size() > capacity_) {
      auto oldest = entries_.end();
      for (auto it = entries_.begin(); it != entries_.end(); ++it)
        if (it->second.state != ResultState::Loading &&
            (oldest == entries_.end() || it->second.used < oldest->second.used))
          oldest = it;
      if (oldest == entries_.end()) return;
      entries_.erase(oldest);
    }
  }

  JobSystem* jobs_;
  std::size_t capacity_;
  std::uint64_t clock_ = 0;
  std::map<std::string, Entry> entries_;
  std::map<std::string, Channel> channels_;
  std::shared_ptr<std::uint64_t> generation_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace kvloupe::state
