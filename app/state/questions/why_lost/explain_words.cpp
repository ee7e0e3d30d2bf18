// See explain_words.h.
#include "app/state/questions/why_lost/explain_words.h"

#include "app/state/kept_of_span.h"
#include "app/state/labels.h"
#include "core/base/letters.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

using replay::Explanation;
using replay::Stage;

const char* unit_word(const Explanation& why) {
  return why.spec.traits().granularity == trace::Granularity::Page ? "page" : "block";
}

const std::string* detail_of(const Explanation& why, Stage stage) {
  for (const replay::StageOutcome& outcome : why.stages)
    if (outcome.stage == stage && !outcome.detail.empty()) return &outcome.detail;
  return nullptr;
}

// "all 128 rows of the chunk would keep it. Of the 5 queries with most attention on it 1 was sampled".
// Where all of these were sampled, it was not for want of them.
std::string sampling_text(const Place& place, const Explanation& why) {
  const auto sampled = std::count_if(why.voters.begin(), why.voters.end(),
                                     [](const auto& voter) { return voter.sampled == true; });
  const std::string rows =
      fmt::format("all {} rows of {} would keep it",
                  format_count(place.info().chunks[static_cast<std::size_t>(why.chunk)].length),
                  chunk_name(place.info(), why.chunk));
  const auto num_voters = static_cast<std::ptrdiff_t>(why.voters.size());
  if (num_voters < 2) return rows;
  if (sampled == num_voters)
    return fmt::format(
        "{}. The {} queries with most attention on it were sampled: it is the others that lift it",
        rows, num_voters);
  return fmt::format("{}. Of the {} queries with most attention on it {} sampled", rows, num_voters,
                     sampled == 0   ? "none was"
                     : sampled == 1 ? "1 was"
                                    : fmt::format("{} were", sampled));
}

std::string lost_text(const Place& place, const Explanation& why) {
  const std::string* detail = detail_of(why, *why.lost_at);
  switch (*why.lost_at) {
    case Stage::Evicted:
      // Its numbers follow in a sentence of their own.
      return fmt::format("Lost before this chunk: {}.",
                         detail ? detail->substr(0, detail->find(':')) : "evicted");
    case Stage::ReusedSet:
      return "Lost by the reused set: the true best keys of the layer that it comes from would "
             "hold "
             "it.";
    case Stage::QuerySampling:
      return fmt::format("Lost at query sampling: {}.", sampling_text(place, why));
    case Stage::HeadMerge:
      return "Lost at the head merge: one of the row\u2019s query heads alone would keep it.";
    case Stage::Unit:
      return fmt::format("Lost by its {}: single keys by true mass would keep it.", unit_word(why));
    case Stage::Approximation: return "Lost at the approximation: exact logits would keep it.";
    case Stage::Threshold:
      return fmt::format("Lost at the threshold: no query block of the row keeps its {}.",
                         unit_word(why));
    case Stage::Budget:
      return why.stages.size() > 1
                 ? "Lost to the budget: no other stage, changed alone, would keep it."
                 : "Lost to the budget.";
  }
  return {};
}

std::string unit_text(const Explanation& why) {
  if (!why.unit) return {};
  std::string text = fmt::format("Its {} (tokens {} to {})", unit_word(why),
                                 format_count(why.unit->begin), format_count(why.unit->end - 1));
  if (why.unit->rank == 0) return text + fmt::format(" is one of {}.", format_count(why.unit->of));
  return text + fmt::format(" ranks {} of {}; {} were kept.", format_count(why.unit->rank),
                            format_count(why.unit->of), format_count(why.unit->kept));
}

std::string decided_text(const Place& place, const Explanation& why) {
  if (!why.decided_at) return {};
  if (why.decided_at->layer != why.layer)
    return fmt::format(" (decided in layer {})", why.decided_at->layer);
  return fmt::format(" (decided after {})", chunk_name(place.info(), why.decided_at->chunk));
}

}  // namespace

const char* words_of(StageMark::Sign sign) {
  switch (sign) {
    case StageMark::Sign::Passed: return "passed";
    case StageMark::Sign::LostHere: return "lost here";
    case StageMark::Sign::WouldKeepToo: return "would keep it too";
    case StageMark::Sign::NotAsked: return "not asked";
    case StageMark::Sign::Looking: return "looking";
  }
  return "";
}

std::vector<StageMark> stage_marks(const ExplainNow& now) {
  const Explanation& why = *now.result;
  std::vector<StageMark> marks;
  for (const replay::StageOutcome& outcome : why.stages) {
    StageMark mark{outcome.stage, StageMark::Sign::Passed, replay::words_of(outcome.stage),
                   outcome.detail};
    const bool budget = outcome.stage == Stage::Budget;
    if (why.lost_at == outcome.stage)
      mark.sign = StageMark::Sign::LostHere;
    else if (budget && now.looking_for_budget)
      mark.sign = StageMark::Sign::Looking;
    else if (why.dense_reason || outcome.detail.empty())
      mark.sign = StageMark::Sign::NotAsked;
    else if (!outcome.passed)
      mark.sign = StageMark::Sign::WouldKeepToo;
    if (budget && now.looking_for_budget) mark.detail = "looking for the budget that keeps it";
    marks.push_back(std::move(mark));
  }
  return marks;
}

std::string cause_of(const Place& place, const Explanation& why) {
  if (why.lost_at) return lost_text(place, why);
  if (why.dense_reason)
    return fmt::format("Kept: everything is here, {}.", words_of(*why.dense_reason));
  if (why.forced) return "Kept by rule, whatever its score (sink, window, recent or last page).";
  return why.kept ? "Kept." : "Lost.";
}

std::string numbers_of(const Place& place, const Explanation& why) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (why.score) add(fmt::format("score {:.4g}", *why.score));
  if (why.rank)
    add(fmt::format("rank {} of {}", format_count(*why.rank), format_count(why.num_ranked())));
  if (why.cut) add(fmt::format("cut {:.4g}", *why.cut));
  if (!text.empty()) text += decided_text(place, why);
  const double share = why.whole_mass > 0 ? why.true_mass / why.whole_mass : 0;
  text += fmt::format("{}by true mass it is {} of {}, with {} of it.", text.empty() ? "" : "; ",
                      ordinal(why.true_rank), format_count(why.candidates), share_text(share));
  text.front() = static_cast<char>(text.front() - 'a' + 'A');
  const std::string unit = unit_text(why);
  return unit.empty() ? text : text + " " + unit;
}

std::string budget_of(const ExplainNow& now_known) {
  const Explanation& why = *now_known.result;
  if (now_known.looking_for_budget) return "Looking for the budget that keeps it\u2026";
  if (!why.spec.has_budget() || why.dense_reason || now_known.may_look()) return {};
  const std::string now =
      why.budget ? fmt::format(" (here {})", format_count(*why.budget)) : std::string();
  if (!why.needed_budget) return fmt::format("No budget keeps it{}.", now);
  return fmt::format("{}{}.", capitalised(budget_words(why)), now);
}

std::string all_keys_words(const Place& place) {
  const auto span = watched_keys(place);
  if (!span) return {};
  const std::string words = watched_words(place);
  const bool named = words != span->name;
  if (is_picked(words)) return "all " + words;
  return named ? fmt::format("all {} keys of {}", span->keys.size(), words) : "all of " + words;
}

std::string sentence_of(const SpanBudgetQuestion& question,
                        const SpanBudgetQuestion::Answer& answer) {
  if (answer.num_keys == 0) return {};
  const selection::MethodSpec& spec = *question.method.spec;
  const std::string here = spec.budget_tokens() > 0
                               ? fmt::format(" (here {})", format_count(spec.budget_tokens()))
                               : std::string();
  const std::string what = all_keys_words(question.place);
  if (!answer.budget) return fmt::format("No budget keeps {}{}.", what, here);
  const std::string budget = format_count(*answer.budget);
  if (spec.traits().grows_with_budget)
    return fmt::format("A budget of {} keeps {}{}.", budget, what, here);
  return fmt::format("A budget of {} keeps {}, one less does not{}; a larger one need not.", budget,
                     what, here);
}

std::string disagreement(const ExplainQuestion& question, const Explanation& why,
                         const replay::ReplayResult& run) {
  if (!question.method.recorded()) return {};
  const replay::ReplayCell* cell = run.find(question.place.layer, question.place.chunk);
  const auto row = static_cast<std::size_t>(row_of(question.place, run));
  if (cell == nullptr || row >= cell->rows.size()) return {};
  const auto& kept = cell->rows[row].positions;
  const bool recorded = std::binary_search(kept.begin(), kept.end(), question.position);
  if (recorded == why.kept) return {};
  return fmt::format(
      "The recorded run {} it; selected anew it is {}, and that is what is explained.",
      recorded ? "kept" : "lost", why.kept ? "kept" : "lost");
}

const char* words_of(trace::DenseReason reason) {
  switch (reason) {
    case trace::DenseReason::EmptyPast: return "nothing comes before the chunk";
    case trace::DenseReason::FitsBudget: return "all of the past fits the budget";
    case trace::DenseReason::MethodRule: return "the method does not choose in this layer or phase";
  }
  return "";
}

std::string words_of(replay::KeyLife::State state, bool dense) {
  using State = replay::KeyLife::State;
  switch (state) {
    case State::Unborn: return "not yet there";
    case State::Own: return "of the chunk itself";
    case State::Kept: return dense ? "kept: everything is" : "kept";
    case State::Lost: return "lost";
    case State::Evicted: return "evicted before";
    case State::Hidden: return "hidden by the layer\u2019s window";
    case State::Unknown: return "not known: the trace lacks the chunk\u2019s queries";
  }
  return "";
}

std::string ordinal(std::int64_t number) {
  const std::int64_t tens = number % 100, ones = number % 10;
  const char* end = tens >= 11 && tens <= 13 ? "th"
                    : ones == 1              ? "st"
                    : ones == 2              ? "nd"
                    : ones == 3              ? "rd"
                                             : "th";
  return format_count(number) + end;
}

}  // namespace kvloupe::state
