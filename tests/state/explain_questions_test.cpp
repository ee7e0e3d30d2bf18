// The questions of the miss inspector about one key: against what the runs of the same methods keep, and
// against plain loops over attention; and what is said of the answers.
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/why_lost/explain.h"
#include "app/state/questions/why_lost/explain_words.h"
#include "app/state/questions/why_lost/head_merge.h"
#include "core/replay/replay.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"
#include "tests/state/small_workspace.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace kvloupe::state {
namespace {

using replay::Explanation;
using replay::KeyLife;
using replay::Stage;
using Sign = StageMark::Sign;

class ExplainQuestionsTest : public ::testing::Test {
 protected:
  Place at(int layer, int q_head, int chunk) {
    return testing::place_in(trace_, layer, q_head, chunk);
  }
  MethodChoice method(const std::string& spec) { return choice_of_spec(spec, *at(0, 0, 0).trace); }
  template <Question Q>
  std::shared_ptr<const typename Q::Answer> answer(const Q& question) {
    EXPECT_EQ(question.obstacle(), "");
    return answers_.need(question, WorkContext{});
  }
  // What the method keeps in the place's row, by a plain run.
  std::vector<std::int32_t> kept(const Place& place, const std::string& spec) {
    const auto run = answer(RunQuestion{place, method(spec)});
    return run->find(place.layer, place.chunk)
        ->rows[static_cast<std::size_t>(row_of(place, *run))]
        .positions;
  }
  bool keeps(const Place& place, const std::string& spec, std::int32_t key) {
    const auto keys = kept(place, spec);
    return std::count(keys.begin(), keys.end(), key) > 0;
  }

  SmallTrace trace_{SmallTraceShape{.decoded = 2}};
  Answers answers_;
};

// 53 tokens in chunks of 16, 16, 16 and 5, then two decode steps.
TEST_F(ExplainQuestionsTest, AnExplanationIsOfThePlacesOwnRowAndCell) {
  int lost = 0;
  for (const int q_head : {1, 2})
    for (const int chunk : {1, 2, 3})
      for (const std::int32_t key : {0, 7, 15}) {
        const Place place = at(1, q_head, chunk);
        const std::string spec = "uniform_queries:budget_tokens=6";
        const auto why = answer(ExplainQuestion{place, method(spec), key});
        EXPECT_EQ(why->row, q_head / 2);
        EXPECT_EQ(why->kept, keeps(place, spec, key)) << q_head << " " << chunk << " " << key;
        const trace::ChunkInfo span = place.chunk_info();
        const auto mass = trace_.mass(1, place.kv_head(), span.begin, span.end());
        std::int64_t better = 0;
        for (int other = 0; other < span.begin; ++other)
          better += mass[static_cast<std::size_t>(other)] > mass[static_cast<std::size_t>(key)];
        EXPECT_EQ(why->true_rank, better + 1);
        ASSERT_TRUE(why->needed_budget);
        const auto with = [](std::int64_t budget) {
          return fmt::format("uniform_queries:budget_tokens={}", budget);
        };
        EXPECT_TRUE(keeps(place, with(*why->needed_budget), key));
        if (*why->needed_budget > 1) {
          EXPECT_FALSE(keeps(place, with(*why->needed_budget - 1), key));
        }
        lost += !why->kept;
        EXPECT_EQ(why->lost_at.has_value(), !why->kept);
      }
  EXPECT_GT(lost, 0);
}

// A method that evicts tries all budgets: that is a question of its own, and everything else does not
// wait for it.
TEST_F(ExplainQuestionsTest, TheLongSearchForABudgetIsAskedForApart) {
  const Place place = at(0, 0, 3);
  std::int32_t key = 0;
  while (keeps(place, "h2o:budget_tokens=8", key)) ++key;
  ExplainQuestion question{place, method("h2o:budget_tokens=8"), key};
  ASSERT_TRUE(question.budget_takes_long());
  const auto first = answer(question);
  EXPECT_FALSE(first->needed_budget);
  EXPECT_EQ(first->lost_at, Stage::Evicted);
  ExplainQuestion thorough = question;
  thorough.try_all_budgets = true;
  EXPECT_NE(question.key(), thorough.key());
  const auto found = answer(thorough);
  ASSERT_TRUE(found->needed_budget);
  std::int64_t least = 1;
  while (!keeps(place, fmt::format("h2o:budget_tokens={}", least), key)) ++least;
  EXPECT_EQ(found->needed_budget, least);
  EXPECT_FALSE((ExplainQuestion{place, method("quoka:budget_tokens=8"), key}.budget_takes_long()));
  EXPECT_FALSE((ExplainQuestion{place, method("dense"), key}.budget_takes_long()));
}

TEST_F(ExplainQuestionsTest, NothingIsAskedWhereNothingWasDecided) {
  const auto obstacle = [&](int chunk, const std::string& spec, std::int32_t key) {
    return ExplainQuestion{at(0, 0, chunk), method(spec), key}.obstacle();
  };
  EXPECT_EQ(obstacle(1, "quoka:budget_tokens=8", 15), "");
  EXPECT_THAT(obstacle(1, "quoka:budget_tokens=8", 16), HasSubstr("one of chunk 1 itself"));
  EXPECT_EQ(obstacle(1, "quoka:budget_tokens=8,budget_scope=all", 16), "");
  EXPECT_THAT(obstacle(1, "quoka:budget_tokens=8", 32), HasSubstr("comes after chunk 1"));
  EXPECT_THAT(obstacle(1, "quoka:budget_tokens=8", -1), HasSubstr("Click a key"));
  EXPECT_THAT(obstacle(1, "quoka:budget_tokens=8", 4000), HasSubstr("ends before"));
  EXPECT_THAT((ExplainQuestion{at(0, 0, 1), {"future:depth=3", 4, {}}, 3}.obstacle()),
              HasSubstr("does not know the method future"));
  EXPECT_EQ((ExplainQuestion{Place{}, {}, 3}.obstacle()), "Open a trace");
  // What stands before the first chunk is no candidate, and its life is known all the same.
  EXPECT_THAT(obstacle(0, "quoka:budget_tokens=8", 3), HasSubstr("of chunk 0 itself"));
  EXPECT_EQ((KeyLifeQuestion{at(0, 0, 0), method("quoka:budget_tokens=8"), 3}.obstacle()), "");
}

TEST_F(ExplainQuestionsTest, AKeyBehindTheWindowIsHidden) {
  const SmallTrace windowed(SmallTraceShape{.window = 20});
  auto opened = std::make_shared<OpenTrace>();
  opened->session = session::SessionPtr(session::SessionPtr(), &windowed.session());
  Place place;
  place.trace = opened;
  place.chunk = 2;  // begins at 32: its first query sees the keys from 13 on
  const MethodChoice quoka = choice_of_spec("quoka:budget_tokens=4", *opened);
  EXPECT_THAT((ExplainQuestion{place, quoka, 12}.obstacle()), HasSubstr("hidden"));
  EXPECT_EQ((ExplainQuestion{place, quoka, 13}.obstacle()), "");
  const auto run = answer(RunQuestion{place, quoka});
  EXPECT_EQ(run->find(0, 2)->first_candidate, 13);
}

// The life says of every chunk what the KV map draws there.
TEST_F(ExplainQuestionsTest, ALifeGoesThroughTheStatesOfTheMap) {
  std::set<KeyLife::State> seen;
  for (const char* spec : {"quoka:budget_tokens=6", "h2o:budget_tokens=6"})
    for (const std::int32_t key : {2, 20, 33}) {
      const Place place = at(1, 3, 0);
      const auto life = answer(KeyLifeQuestion{place, method(spec), key});
      const auto map = answer(KvMapQuestion{place, method(spec)});
      ASSERT_EQ(life->chunks.size(), 6U);
      for (std::size_t chunk = 0; chunk < 6; ++chunk) {
        using analysis::KeyState;
        const KeyState drawn =
            map->map.states[chunk * static_cast<std::size_t>(map->map.num_tokens) +
                            static_cast<std::size_t>(key)];
        const auto state = life->chunks[chunk].state;
        seen.insert(state);
        const bool is_kept = drawn == KeyState::Kept || drawn == KeyState::Sink ||
                             drawn == KeyState::Recent || drawn == KeyState::Dense;
        EXPECT_EQ(state == KeyLife::State::Kept, is_kept) << spec << " " << key << " " << chunk;
        EXPECT_EQ(state == KeyLife::State::Lost, drawn == KeyState::Dropped);
        EXPECT_EQ(state == KeyLife::State::Evicted, drawn == KeyState::Evicted);
        EXPECT_EQ(state == KeyLife::State::Own, drawn == KeyState::Current);
        EXPECT_EQ(state == KeyLife::State::Unborn, drawn == KeyState::Future);
      }
    }
  EXPECT_EQ(seen.size(), 5U) << "all states but the hidden one";
}

TEST_F(ExplainQuestionsTest, FatesAreThoseOfEveryLayerAndRow) {
  for (const char* spec :
       {"quoka:budget_tokens=6", "h2o:budget_tokens=6", "snapkv:budget_tokens=6"}) {
    const auto fates = answer(KeyFatesQuestion{at(0, 0, 2), method(spec), 5});
    ASSERT_EQ(fates->layers, (std::vector<int>{0, 1}));
    const bool evicts = method(spec).spec->traits().evicts();
    int num_kept = 0;
    for (const int layer : {0, 1})
      for (int row = 0; row < fates->num_rows; ++row) {
        const bool is_kept = keeps(at(layer, row * fates->q_heads_per_row, 2), spec, 5);
        num_kept += is_kept;
        EXPECT_EQ(fates->at(static_cast<std::size_t>(layer), row).state,
                  is_kept  ? KeyLife::State::Kept
                  : evicts ? KeyLife::State::Evicted
                           : KeyLife::State::Lost)
            << spec << layer << row;
      }
    EXPECT_EQ(fates->kept, num_kept);
    EXPECT_EQ(fates->decided, 2 * fates->num_rows);
  }
  // The first chunk has no past: what it sees is its own.
  const auto first = answer(KeyFatesQuestion{at(0, 0, 0), method("quoka:budget_tokens=6"), 5});
  EXPECT_EQ(first->decided, 0);
  EXPECT_EQ(first->at(1, 1).state, KeyLife::State::Own);
}

// `select --layer 1 --save`: of the others nothing is known, and the run is no less shown.
TEST_F(ExplainQuestionsTest, FatesOfARunAreOfTheLayersThatItHas) {
  const session::TraceSession& session = trace_.session();
  const auto spec = selection::MethodSpec::parse("quoka:budget_tokens=6").resolved(session.shape());
  replay::save_run(session, spec, replay::replay(session, {spec, {1}, {}, {}, false, false}, {}));
  auto opened = std::make_shared<OpenTrace>();
  opened->id = 2;
  opened->session = std::make_shared<session::TraceSession>(session.info().path);
  Place place;
  place.trace = opened;
  place.layer = 1;
  place.chunk = 2;
  const MethodChoice run = choice_of_run(place.info().runs.front(), *opened);
  ASSERT_TRUE(run.recorded());
  const auto of_run = answer(KeyFatesQuestion{place, run, 5});
  EXPECT_THAT(of_run->layers, ElementsAre(1));
  const auto anew = answer(KeyFatesQuestion{at(1, 0, 2), method(spec.canonical()), 5});
  ASSERT_EQ(of_run->num_rows, anew->num_rows);
  for (int row = 0; row < anew->num_rows; ++row)
    EXPECT_EQ(of_run->at(0, row).state, anew->at(1, row).state) << row;
}

TEST_F(ExplainQuestionsTest, TheKeyOfASpanIsTheLostOneOfMostMass) {
  const std::string spec = "quoka:budget_tokens=12";
  Place place = at(0, 2, 3);
  place.keys = {4, 40};
  const auto watched = answer(WatchedKeyQuestion{place, method(spec)});
  const trace::ChunkInfo chunk = place.chunk_info();
  const auto mass = trace_.mass(0, 1, chunk.begin, chunk.end());
  const auto keys = kept(place, spec);
  std::int32_t best = -1;
  int lost = 0;
  for (std::int32_t key = 4; key < 40; ++key) {
    if (std::count(keys.begin(), keys.end(), key) > 0) continue;
    ++lost;
    if (best < 0 || mass[static_cast<std::size_t>(key)] > mass[static_cast<std::size_t>(best)])
      best = key;
  }
  EXPECT_EQ(watched->position, best);
  EXPECT_TRUE(watched->lost);
  EXPECT_EQ(watched->num_lost, lost);
  EXPECT_EQ(watched->num_candidates, 36);
  // All kept: the one of most mass.
  const auto all = answer(WatchedKeyQuestion{place, method("quoka:budget_tokens=400")});
  EXPECT_FALSE(all->lost);
  EXPECT_EQ(all->position, std::max_element(mass.begin() + 4, mass.begin() + 40) - mass.begin());
  // None of them comes before the first chunk.
  place.chunk = 0;
  EXPECT_EQ(answer(WatchedKeyQuestion{place, method(spec)})->position, 4);
}

Explanation lost_key(const Place& place, const MethodChoice& choice) {
  Explanation why;
  why.spec = *choice.spec;
  why.layer = place.layer;
  why.chunk = place.chunk;
  why.key = 3;
  why.kept = false;
  why.score = 0.412;
  why.cut = 0.44;
  why.rank = 301;
  why.candidates = 1920;
  why.budget = 8;
  why.true_mass = 0.5;
  why.whole_mass = 4;
  why.true_rank = 12;
  why.needed_budget = 301;
  why.lost_at = Stage::QuerySampling;
  why.stages = {{Stage::QuerySampling, false, "all rows of the chunk: kept"},
                {Stage::HeadMerge, true, "query head 0 alone: lost"},
                {Stage::Approximation, false, "exact logits: kept"},
                {Stage::Budget, false, "kept from a budget of 301 on"}};
  why.voters = {{0, 40, 0.5, false}, {1, 41, 0.4, true}};
  return why;
}

ExplainNow now_of(const Explanation& why, bool looking = false) {
  ExplainNow now;
  now.result.answer = std::make_shared<const Explanation>(why);
  now.looking_for_budget = looking;
  return now;
}

// The head that would keep most of the watched keys alone, and only keys before the chunk.
TEST_F(ExplainQuestionsTest, HeadMergeSaysWhatIsKeptOfTheWatchedKeys) {
  HeadMergeQuestion question;
  question.place = at(0, 0, 2);
  question.method = method("quoka:budget_tokens=8");
  const std::int32_t past = question.place.chunk_info().begin;
  HeadMergeQuestion::Answer answer;
  answer.choices.heads.resize(2);
  answer.choices.heads[0].own = {past - 2, past - 1};
  answer.choices.heads[0].recall_alone = 0.5;
  answer.choices.heads[0].recall_merged = 0.4;
  answer.choices.heads[1].q_head = 1;
  answer.choices.heads[1].own = {2, past - 1};
  answer.choices.merged = {2, past - 2};
  question.place.keys = {past - 2, past + 2};
  EXPECT_THAT(
      sentence_of(question, answer),
      ::testing::EndsWith(" Of the 2 keys from 30 to 33 the shared set keeps 1, head 0 alone 2."));
  question.place.keys = {past, past + 2};
  EXPECT_THAT(sentence_of(question, answer), ::testing::EndsWith("40.0 % in place of 50.0 %."));
}

// What a window hides was no choice: of keys 8 to 15, queries from 32 on with a window of 20 see three.
TEST_F(ExplainQuestionsTest, HeadMergeCountsOnlyKeysInTheWindow) {
  const SmallTrace trace({.window = 20});
  HeadMergeQuestion question;
  question.place = testing::place_in(trace, 0, 0, 2);
  question.place.keys = {8, 16};
  question.method = method("quoka:budget_tokens=8");
  HeadMergeQuestion::Answer answer;
  answer.choices.heads.resize(1);
  answer.choices.heads[0].own = {13, 15};
  answer.choices.heads[0].recall_alone = 0.5;
  answer.choices.heads[0].recall_merged = 0.4;
  answer.choices.merged = {13, 20};
  EXPECT_THAT(
      sentence_of(question, answer),
      ::testing::EndsWith(" Of the 3 keys from 8 to 15 the shared set keeps 1, head 0 alone 2."));
}

TEST_F(ExplainQuestionsTest, ALostKeyIsExplainedInWords) {
  const Place place = at(0, 0, 2);
  const MethodChoice uniform = method("uniform_queries:budget_tokens=8");
  Explanation why = lost_key(place, uniform);
  EXPECT_EQ(
      cause_of(place, why),
      "Lost at query sampling: all 16 rows of chunk 2 would keep it. Of the 2 queries with most "
      "attention on it 1 was sampled.");
  // Where all of them were sampled, it was not for want of them.
  why.voters[0].sampled = true;
  EXPECT_EQ(cause_of(place, why),
            "Lost at query sampling: all 16 rows of chunk 2 would keep it. The 2 queries with most "
            "attention on it were sampled: it is the others that lift it.");
  EXPECT_EQ(
      numbers_of(place, why),
      "Score 0.412, rank 301 of 1,920, cut 0.44; by true mass it is 12th of 1,920, with 12.5 % "
      "of it.");
  EXPECT_EQ(budget_of(now_of(why)), "Kept from a budget of 301 on (here 8).");
  why.needed_budget.reset();
  EXPECT_EQ(budget_of(now_of(why)), "No budget keeps it (here 8).");
  EXPECT_THAT(budget_of(now_of(why, true)), HasSubstr("Looking for the budget"));
  why.decided_at = {0, 1, 300};
  EXPECT_THAT(numbers_of(place, why),
              HasSubstr("rank 301 of 300, cut 0.44 (decided after chunk 1)"));
  // Where nothing was ranked the mass alone is said.
  why.score.reset();
  why.cut.reset();
  why.rank.reset();
  why.decided_at.reset();
  EXPECT_EQ(numbers_of(place, why), "By true mass it is 12th of 1,920, with 12.5 % of it.");
}

TEST_F(ExplainQuestionsTest, EveryCauseHasASentenceOfItsOwn) {
  const Place place = at(0, 0, 2);
  Explanation why = lost_key(place, method("quest:budget_tokens=8,page_size=4,skip_layers=0"));
  why.unit = Explanation::Unit{0, 4, 3, 8, 2};
  std::set<std::string> sentences;
  for (int stage = 0; stage < replay::kNumStages; ++stage) {
    why.lost_at = static_cast<Stage>(stage);
    const std::string sentence = cause_of(place, why);
    EXPECT_TRUE(sentence.starts_with("Lost ")) << sentence;
    sentences.insert(sentence);
  }
  EXPECT_EQ(sentences.size(), static_cast<std::size_t>(replay::kNumStages));
  EXPECT_THAT(numbers_of(place, why),
              HasSubstr("Its page (tokens 0 to 3) ranks 3 of 8; 2 were kept."));
  why.lost_at.reset();
  why.kept = true;
  EXPECT_EQ(cause_of(place, why), "Kept.");
  why.forced = true;
  EXPECT_THAT(cause_of(place, why), HasSubstr("Kept by rule"));
  why.dense_reason = trace::DenseReason::FitsBudget;
  EXPECT_THAT(cause_of(place, why), HasSubstr("all of the past fits the budget"));
  EXPECT_EQ(budget_of(now_of(why)), "");
}

TEST_F(ExplainQuestionsTest, StagesAreMarkedByWhatTheyWouldHaveDone) {
  const Place place = at(0, 0, 2);
  const MethodChoice uniform = method("uniform_queries:budget_tokens=8");
  const auto signs = [&](const Explanation& why, bool looking) {
    std::vector<Sign> found;
    for (const StageMark& mark : stage_marks(now_of(why, looking))) found.push_back(mark.sign);
    return found;
  };
  Explanation why = lost_key(place, uniform);
  EXPECT_EQ(signs(why, false),
            (std::vector{Sign::LostHere, Sign::Passed, Sign::WouldKeepToo, Sign::WouldKeepToo}));
  why.stages.back().detail.clear();
  EXPECT_EQ(signs(why, true).back(), Sign::Looking);
  EXPECT_EQ(signs(why, false).back(), Sign::NotAsked);
  why.lost_at.reset();
  why.kept = true;
  why.dense_reason = trace::DenseReason::EmptyPast;
  EXPECT_EQ(signs(why, false), std::vector(4, Sign::NotAsked));
}

// What was recorded may have been selected on other numbers than those that are stored.
TEST_F(ExplainQuestionsTest, ARecordedRunThatDisagreesIsSaid) {
  const Place place = at(0, 0, 2);
  ExplainQuestion question{place, method("uniform_queries:budget_tokens=8"), 3};
  replay::ReplayResult run;
  run.q_heads_per_row = 2;
  replay::ReplayCell cell;
  cell.layer = 0;
  cell.chunk = 2;
  cell.rows = {{{1, 3}}, {{}}};
  run.cells.push_back(cell);
  const Explanation why = lost_key(place, question.method);
  EXPECT_THAT(disagreement(question, why, run), IsEmpty()) << "it was not recorded";
  question.method.run = 0;
  EXPECT_THAT(disagreement(question, why, run), HasSubstr("kept it; selected anew it is lost"));
  question.position = 4;
  EXPECT_THAT(disagreement(question, why, run), IsEmpty());
}

TEST_F(ExplainQuestionsTest, OrdinalsEndAsTheyAreSpoken) {
  for (const auto& [number, text] : {std::pair{1, "1st"},
                                     {2, "2nd"},
                                     {3, "3rd"},
                                     {4, "4th"},
                                     {11, "11th"},
                                     {12, "12th"},
                                     {13, "13th"},
                                     {21, "21st"},
                                     {112, "112th"},
                                     {1922, "1,922nd"}})
    EXPECT_EQ(ordinal(number), text);
}

}  // namespace
}  // namespace kvloupe::state
