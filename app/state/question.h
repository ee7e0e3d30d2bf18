// What a view needs, as a value. A question says all that its answer depends on: two questions with
// one key have one answer. The work runs in a background job and captures nothing but the question.
//
//   struct KvMapQuestion : OfMethod<At::Head> {          // question_at.h: place and method, key, obstacle
//     static constexpr const char* kName = "kv map";     // part of the key
//     using Answer = KvMapAnswer;                         // immutable once made, free of Torch
//     std::string title() const;                          // "Laying out the KV map": of what views ask
//     Answer work(Steps& steps) const;                    // throws Error
//     std::string key() const;                            // with the members that it adds
//     // where the defaults do not fit:
//     static constexpr Lane kLane = Lane::TraceIo;        // it only reads; or as a function of the
//     Lane lane() const;                                  // question, where some only read
//     static constexpr Pace kPace = Pace::Urgent;
//     std::string obstacle() const;                       // why it cannot be asked; empty: it can
//     static std::uint64_t bytes(const Answer&);          // memory that the answer holds
//   };
#pragma once

#include "core/base/cancel.h"
#include "core/base/jobs.h"

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace kvloupe::state {

class Steps;

// Urgent work is queued at once. Patient work (heavy, or of a detail) is queued when nothing else
// runs: the lane is first come, first served, and what stands in the middle of the screen must not
// wait behind it. Work on request waits until it is started by hand (Answers::start).
enum class Pace { Urgent, Patient, OnRequest };

template <typename Q>
concept Question = std::copyable<Q> && requires(const Q& question, Steps& steps) {
  typename Q::Answer;
  { Q::kName } -> std::convertible_to<std::string>;
  { question.key() } -> std::convertible_to<std::string>;
  { question.work(steps) } -> std::same_as<typename Q::Answer>;
};

template <Question Q>
std::string key_of(const Q& question) {
  return std::string(Q::kName) + "|" + question.key();
}
template <Question Q>
constexpr Pace pace_of() {
  if constexpr (requires { Q::kPace; }) return Q::kPace;
  return Pace::Urgent;
}
// What selects anew does so in a whole layer; what only looks at a place does not wait behind it.
template <Question Q>
Lane lane_of(const Q& question) {
  if constexpr (requires { question.lane(); }) return question.lane();
  if constexpr (requires { Q::kLane; }) return Q::kLane;
  if constexpr (requires { question.selects(); })
    if (question.selects()) return Lane::Whole;
  return pace_of<Q>() == Pace::Patient ? Lane::Whole : Lane::Compute;
}
// What only reads needs no engine (core/base/engine_library.h): it is shown before Torch is loaded,
// and nothing that Torch computes holds it up.
template <Question Q>
bool needs_engine(const Q& question) {
  return lane_of(question) != Lane::TraceIo;
}
template <Question Q>
std::string obstacle_of(const Q& question) {
  if constexpr (requires { question.obstacle(); }) return question.obstacle();
  return {};
}
template <Question Q>
std::uint64_t bytes_of(const typename Q::Answer& answer) {
  if constexpr (requires { Q::bytes(answer); }) return Q::bytes(answer);
  return sizeof(answer);
}

// What strings, vectors and maps hold beside themselves, for `bytes`.
template <typename Part>
std::uint64_t bytes_in(const Part& part) {
  if constexpr (requires { part.first, part.second; }) {
    return bytes_in(part.first) + bytes_in(part.second);
  } else if constexpr (requires { part.begin(), part.size(), typename Part::value_type(); }) {
    std::uint64_t sum = part.size() * sizeof(typename Part::value_type);
    if constexpr (!std::is_trivially_copyable_v<typename Part::value_type>)
      for (const auto& one : part) sum += bytes_in(one);
    return sum;
  } else {
    return 0;
  }
}
template <typename First, typename Second, typename... More>
std::uint64_t bytes_in(const First& first, const Second& second, const More&... more) {
  return bytes_in(first) + bytes_in(second, more...);
}

enum class ResultState { Empty, Loading, Error, Ready };

// What is known of a question now. Whatever is drawn of an answer is labelled by the question that
// stands beside it.
template <Question Q>
struct Result {
  ResultState state = ResultState::Empty;
  Q question;                                        // that `answer` answers
  std::shared_ptr<const typename Q::Answer> answer;  // Ready; Loading: a first or an older answer
  bool stale = false;  // `question` is an older one: another trace, place or method
  std::string key;     // of `answer`; texture and layout keys are made from it
  std::string error;
  std::string note;  // Empty: why there is nothing

  explicit operator bool() const { return answer != nullptr; }
  const typename Q::Answer* operator->() const { return answer.get(); }
  const typename Q::Answer& operator*() const { return *answer; }
};

// "" for Ready, else what stands in the way.
template <Question Q>
std::string problem_of(const Result<Q>& result) {
  switch (result.state) {
    case ResultState::Ready: return {};
    case ResultState::Error: return result.error;
    case ResultState::Loading: return "the result is not computed yet";
    case ResultState::Empty: return result.note;
  }
  return {};
}

}  // namespace kvloupe::state
