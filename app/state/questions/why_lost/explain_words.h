// What an explanation says, in words: in the panel, in pictures and in tests the same.
#pragma once

#include "app/state/questions/why_lost/explain.h"

#include <string>
#include <vector>

namespace kvloupe::state {

// What became of one stage of a method.
struct StageMark {
  enum class Sign {
    Passed,        // changing it alone would not have kept the key, or nothing was lost
    LostHere,      // the cause
    WouldKeepToo,  // a later stage that, changed alone, would have kept the key as well
    NotAsked,
    Looking,
  };
  replay::Stage stage;
  Sign sign = Sign::Passed;
  std::string words;   // "query sampling"
  std::string detail;  // what was changed, and with what result
};
// Of an answer that is there.
std::vector<StageMark> stage_marks(const ExplainNow& now);
const char* words_of(StageMark::Sign sign);

// "Lost at query sampling: all 128 rows of chunk 15 would keep it."
std::string cause_of(const Place& place, const replay::Explanation& why);
// "Score 0.412, rank 301 of 1,920, cut 0.440; by true mass it is 12th."
std::string numbers_of(const Place& place, const replay::Explanation& why);
// "Kept from a budget of 301 on (here 256)."; empty for a method without one, and where that was not
// looked for. Of an answer that is there.
std::string budget_of(const ExplainNow& now);
// "All 22 keys of “needle” are kept from a budget of 1,217 on (here 256)."; empty where none of them is up
// for choice.
std::string sentence_of(const SpanBudgetQuestion& question,
                        const SpanBudgetQuestion::Answer& answer);
// What is looked for: "all 22 keys of “needle”".
std::string all_keys_words(const Place& place);
// Where a recorded run holds the key and the selection anew does not, or the other way round.
std::string disagreement(const ExplainQuestion& question, const replay::Explanation& why,
                         const replay::ReplayResult& run);

// "kept", "kept: everything is", "evicted"
std::string words_of(replay::KeyLife::State state, bool dense);
// Why everything is kept in a cell.
const char* words_of(trace::DenseReason reason);
// "12th", "1,921st"
std::string ordinal(std::int64_t number);

}  // namespace kvloupe::state
