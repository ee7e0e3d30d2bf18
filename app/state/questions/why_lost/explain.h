// Why a method kept or lost one key: in one place, through all chunks, and in all layers and rows.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/replay/explain.h"
#include "core/replay/key_life.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;

// The row of a known method that speaks for the place's head.
int row_of_method(const Place& place, const MethodChoice& method);
// What the engine is asked about a known method there; `position` -1 where it is about no key.
replay::ExplainRequest request_of(const Place& place, const MethodChoice& method,
                                  std::int32_t position);
// Why nothing can be selected anew; empty: it can.
std::string why_not_anew(const Place& place, const MethodChoice& method, std::int32_t position);

// One key, by selecting anew, also where the method was recorded. The heads of a row share an answer.
template <PlaceParts kParts>
struct OfKey : OfMethodAnew<kParts> {
  std::int32_t position = -1;

  int row() const { return row_of_method(this->place, this->method); }  // of a known method
  template <typename... Added>
  std::string key(const Added&... added) const {
    return OfMethodAnew<kParts>::key(row(), position, added...);
  }
  std::string obstacle() const { return why_not_anew(this->place, this->method, position); }
};

struct ExplainQuestion : OfKey<At::Layer | At::Chunk> {
  static constexpr const char* kName = "explain";
  static constexpr Pace kPace = Pace::Patient;
  // Where every budget must be tried to find the needed one, only a question that says so finds it:
  // all else is there at once.
  bool try_all_budgets = false;
  using Answer = replay::Explanation;

  std::string key() const { return OfKey::key(try_all_budgets); }
  std::string title() const;
  std::string obstacle() const;  // also where the method did not decide on the key
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);

  bool budget_takes_long() const;
};

// The best answer that there is now: with the needed budget, or without it.
struct ExplainNow {
  Result<ExplainQuestion> result;
  bool looking_for_budget = false;
  // The budget is not known, and takes so long that it is looked for on request alone: minutes, in
  // which the lane does nothing else.
  bool may_look() const {
    return result && result.question.budget_takes_long() && !looking_for_budget &&
           !result.question.try_all_budgets && !result->dense_reason;
  }
};
// `first` answers a question that does not try all budgets. `search`: who looks wants that done, too,
// for as long as this is asked.
ExplainNow with_budget(Workspace& workspace, const Result<ExplainQuestion>& first, bool search);

// The budget that keeps all keys of the watched span here.
struct SpanBudgetQuestion : OfMethodAnew<At::Layer | At::Chunk | At::Keys> {
  static constexpr const char* kName = "span budget";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = replay::SpanBudget;

  std::string key() const { return OfMethodAnew::key(row_of_method(place, method)); }
  std::string title() const { return "Looking for the budget that keeps them all"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;

  bool takes_long() const;  // as of a single key
};

struct KeyLifeQuestion : OfKey<At::Layer> {
  static constexpr const char* kName = "key life";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = replay::KeyLife;

  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer.chunks); }
};

// What a method selected in one chunk of all layers, a run in those that it has.
struct ChunkSetsQuestion : OfRun<At::Chunk> {
  static constexpr const char* kName = "sets of all layers";
  using Answer = replay::ReplayResult;

  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return RunQuestion::bytes(answer); }
};

// What became of a key in one chunk of all layers and rows.
struct KeyFatesQuestion : OfRun<At::Chunk> {
  static constexpr const char* kName = "key fates";
  static constexpr Pace kPace = Pace::Patient;
  std::int32_t position = -1;
  struct Fate {
    replay::KeyLife::State state = replay::KeyLife::State::Unborn;
    bool dense = false;
  };
  struct Answer {
    std::vector<int> layers;  // of the run, or of the trace
    int num_rows = 0;
    int q_heads_per_row = 1;
    trace::RowAxis axis = trace::RowAxis::KvHead;
    std::vector<Fate> fates;    // [layers, num_rows]
    int kept = 0, decided = 0;  // cells in which it was kept, in which it could be lost

    const Fate& at(std::size_t layer_idx, int row) const {
      return fates[layer_idx * static_cast<std::size_t>(num_rows) + static_cast<std::size_t>(row)];
    }
  };

  std::string key() const { return OfRun::key(position); }
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer.fates, answer.layers); }
};

// The key of a watched span that is worth asking about: of those that the method lost the one of most
// true mass, else of all.
struct WatchedKeyQuestion : OfMethod<At::Cell | At::Keys> {
  static constexpr const char* kName = "watched key";
  static constexpr Pace kPace = Pace::Patient;
  struct Answer {
    std::int32_t position = -1;  // the span's first where none is a candidate
    bool lost = false;
    int num_lost = 0, num_candidates = 0;  // of the span
    bool missed = false;                   // lost, and among as many keys of most mass as were kept
  };

  std::string title() const { return "Finding the key that was lost"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
};

// The key that the place means: the one chosen, or that of the span by method A, or by B where A lost
// none of it.
struct WatchedKey {
  std::int32_t position = -1;  // none: it is not known yet, or nothing is watched
  bool of_span = false;        // one of several
  std::string note;            // of a span: which one it is
  bool loading = false;
  std::string error;
};
WatchedKey watched_key(Workspace& workspace);

}  // namespace kvloupe::state
