// Why a key was lost: against selections run by hand, budget by budget and change by change, and plain
// loops over the same numbers.
#include "core/replay/explain.h"
#include "core/base/error.h"
#include "core/replay/key_life.h"
#include "core/replay/lost_keys.h"
#include "core/replay/replay.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace kvloupe::replay {
namespace {

using testing::SmallTrace;
using testing::SmallTraceShape;

constexpr int kLayer = 1, kChunk = 3;

// Long enough that budgets bite, with a group of two heads.
SmallTraceShape shape() { return {.chunk_lengths = {16, 16, 16, 16}, .probe_len = 4}; }

class Explain : public ::testing::Test {
 protected:
  const SmallTrace trace_{shape()};

  selection::MethodSpec spec_of(const std::string& text) const {
    return selection::MethodSpec::parse(text).resolved(trace_.session().shape());
  }

  Explanation why(const std::string& method, std::int64_t key, int row = 0,
                  int chunk = kChunk) const {
    ExplainRequest request;
    request.spec = spec_of(method);
    request.layer = kLayer;
    request.chunk = chunk;
    request.row = row;
    request.key = key;
    return explain(trace_.session(), request, {});
  }

  // What a replay keeps there.
  bool keeps(const std::string& method, std::int64_t key, int row = 0) const {
    ReplayRequest request;
    request.spec = spec_of(method);
    request.layers = {kLayer};
    request.chunks = {kChunk};
    const ReplayResult result = replay(trace_.session(), request, {});
    const auto& positions = result.find(kLayer, kChunk)->rows.at(static_cast<std::size_t>(row));
    return std::binary_search(positions.positions.begin(), positions.positions.end(), key);
  }
};

const std::vector<std::string> kMethods = {
    "oracle:budget_tokens=7",
    "random:budget_tokens=7",
    "sliding_window:budget_tokens=7",
    "quoka:budget_tokens=7,num_queries=2",
    "quoka:budget_tokens=7,num_queries=3,group_query_mode=post_agg,query_reduce=mean",
    "uniform_queries:budget_tokens=7,num_queries=2",
    "sample_attention:budget_tokens=7,num_queries=2",
    "sample_attention:budget_tokens=20,num_queries=2,mode=coverage,coverage=0.5",
    "sparq:budget_tokens=7,num_channels=2",
    "loki:budget_tokens=7,num_channels=2,basis=self",
    "tidal_decode:budget_tokens=7,first_layer=0,correction_layer=0,sel_layers=set",
    "less_is_more:budget_tokens=12,first_layer=0,correction_layer=0,sel_layers=set",
    "snapkv:budget_tokens=7,window=3,state=select",
    "keydiff:budget_tokens=7,state=select",
    "quest:budget_tokens=8,page_size=4,skip_layers=0",
    "quest:budget_tokens=8,page_size=4,skip_layers=0,gqa_reduce=union",
    "quest:budget_tokens=8,page_size=4,skip_layers=0,gqa_reduce=mean_score",
    "quest:budget_tokens=8,page_size=4,skip_layers=0,gqa_reduce=union,rule=kernel",
    "quest:budget_tokens=8,page_size=4,skip_layers=0,prefill=per_query",
    "quest:budget_tokens=6,page_size=6,skip_layers=0,prefill=per_query,force_last_page=0",
    "flash_prefill:budget_tokens=12,block_size=4,sink_blocks=1,window_blocks=1,lowering=budget",
    "snapkv:budget_tokens=9,window=3",
    "keydiff:budget_tokens=9",
    "h2o:budget_tokens=9",
    "tova:budget_tokens=9",
    "tova:budget_tokens=9,per_kv_head=1",
    "streaming_llm:budget_tokens=9",
    "infinipot:budget_tokens=9",
    "infinipot:budget_tokens=9,novelty_ratio=1",
};

TEST_F(Explain, KeptIsWhatAReplayKeeps) {
  for (const std::string& method : kMethods) {
    int kept = 0;
    for (std::int64_t key = 0; key < 48; key += 5) {
      const Explanation answer = why(method, key);
      EXPECT_EQ(answer.kept, keeps(method, key)) << method << " key " << key;
      EXPECT_EQ(answer.kept, !answer.lost_at) << method;
      EXPECT_EQ(answer.candidates, 48) << method;
      kept += answer.kept;
    }
    EXPECT_LT(kept, 10) << method;
  }
}

// All budgets, one after the other.
TEST_F(Explain, TheNeededBudgetIsTheSmallestThatKeepsTheKey) {
  for (const std::string& method : kMethods) {
    const selection::MethodSpec spec = spec_of(method);
    const std::int64_t unit = std::max<std::int64_t>(1, spec.traits().page_size);
    const bool two_pages = method.find("rule=kernel") != std::string::npos;
    for (const std::int64_t key : {0, 11, 17, 26, 31, 38, 46}) {
      std::int64_t smallest = 1;
      while (smallest <= 48 &&
             !keeps(spec.with({{"budget_tokens", std::to_string(smallest)}}).canonical(), key))
        ++smallest;
      const std::optional<std::int64_t> needed = why(method, key).needed_budget;
      ASSERT_TRUE(needed) << method << " key " << key;
      // Of pages and blocks as many tokens as the whole ones have that are needed.
      if (two_pages && smallest == 1) {
        EXPECT_TRUE(*needed == unit || *needed == 2 * unit) << method << " key " << key;
      } else {
        EXPECT_EQ(*needed, unit > 1 && smallest == 1 ? unit : smallest) << method << " key " << key;
      }
    }
  }
}

// All budgets again, for several keys at once.
TEST_F(Explain, TheBudgetOfASpanIsTheSmallestThatKeepsAllOfIt) {
  for (const char* method :
       {"oracle:budget_tokens=7", "uniform_queries:budget_tokens=8,num_queries=4",
        "quest:budget_tokens=8,page_size=4,skip_layers=0", "streaming_llm:budget_tokens=9",
        "snapkv:budget_tokens=9,window=3"}) {
    ExplainRequest request;
    request.spec = spec_of(method);
    request.layer = kLayer;
    request.chunk = kChunk;
    const SpanBudget found = budget_of_span(trace_.session(), request, {44, 52}, {});
    EXPECT_EQ(found.num_keys, 4) << "those from 48 on are the chunk's own";
    std::int64_t smallest = 1;
    const auto keeps_all = [&](std::int64_t budget) {
      const std::string text =
          request.spec.with({{"budget_tokens", std::to_string(budget)}}).canonical();
      for (const std::int64_t key : {44, 45, 46, 47})
        if (!keeps(text, key)) return false;
      return true;
    };
    while (smallest <= 48 && !keeps_all(smallest)) ++smallest;
    ASSERT_LE(smallest, 48) << method;
    ASSERT_TRUE(found.budget) << method;
    if (!request.spec.traits().grows_with_budget) {  // a smaller one may keep them by chance
      EXPECT_GE(*found.budget, smallest) << method;
      EXPECT_TRUE(keeps_all(*found.budget)) << method;
      EXPECT_FALSE(*found.budget > 1 && keeps_all(*found.budget - 1)) << method;
      for (double next = 48; std::llround(next) > *found.budget; next /= std::sqrt(2.0))
        EXPECT_TRUE(keeps_all(std::llround(next))) << method << ' ' << next;
      continue;
    }
    const std::int64_t unit = std::max<std::int64_t>(1, request.spec.traits().page_size);
    EXPECT_EQ(*found.budget, unit > 1 && smallest == 1 ? unit : smallest) << method;
  }
}

// A query of the chunk chooses among pages of the chunk too: they are no rivals, and set no cut.
TEST_F(Explain, PagesOfTheChunkItselfAreNoRivals) {
  for (const char* method :
       {"quest:budget_tokens=8,page_size=4,skip_layers=0,prefill=per_query",
        "quest:budget_tokens=6,page_size=6,skip_layers=0,prefill=per_query,force_last_page=0"}) {
    const auto kept = spec_of(method);
    int lost = 0;
    for (std::int64_t key = 0; key < 48; key += 4) {
      const Explanation answer = why(method, key);
      ASSERT_TRUE(answer.unit) << method;
      EXPECT_EQ(answer.unit->of, (48 + kept.traits().page_size - 1) / kept.traits().page_size);
      for (const Explanation::Rival& rival : answer.rivals) {
        EXPECT_LT(rival.key, 48) << method;
        EXPECT_TRUE(keeps(method, rival.key)) << method;
      }
      if (!answer.kept) {
        EXPECT_LT(answer.score.value(), answer.cut.value()) << method << " key " << key;
        ++lost;
      }
    }
    EXPECT_GT(lost, 0) << method;
  }
}

// Only where a larger budget keeps all that a smaller one does may one say "from ... on".
TEST_F(Explain, TheWordsClaimNoMoreThanTheBudgetsShow) {
  EXPECT_EQ(budget_words(why("oracle:budget_tokens=7", 20)),
            "kept from a budget of " +
                std::to_string(*why("oracle:budget_tokens=7", 20).needed_budget) + " on");
  const Explanation evicts = why("snapkv:budget_tokens=9,window=3", 20);
  EXPECT_EQ(budget_words(evicts),
            std::to_string(*evicts.needed_budget) +
                " is the smallest budget that keeps it, a larger one need not");
}

// Of a key that was evicted before, the chunk's own queries decided nothing.
TEST_F(Explain, VotersOfADeadKeyAreNotSaidToBeSampled) {
  int dead = 0, alive = 0;
  for (std::int64_t key = 0; key < 48; ++key) {
    const Explanation answer = why("tova:budget_tokens=9", key);
    for (const Explanation::Voter& voter : answer.voters)
      EXPECT_EQ(voter.sampled.has_value(), answer.kept) << key;
    ++(answer.kept ? alive : dead);
  }
  EXPECT_GT(dead, 0);
  EXPECT_GT(alive, 0);
}

// Nor in a decode step of a method that acts in the prompt alone.
TEST_F(Explain, VotersOfAStepInWhichTheMethodRestsAreNotSaidToBeSampled) {
  SmallTraceShape with_steps = shape();
  with_steps.decoded = 2;
  const SmallTrace trace(with_steps);
  for (const auto& [method, votes] : {std::pair{"snapkv:budget_tokens=9,window=3", false},
                                      std::pair{"tova:budget_tokens=9", true}}) {
    ExplainRequest request;
    request.spec = selection::MethodSpec::parse(method).resolved(trace.session().shape());
    request.layer = kLayer;
    request.chunk = 4;
    request.want_needed_budget = false;
    int alive = 0;
    for (request.key = 0; request.key < 64; ++request.key) {
      const Explanation answer = explain(trace.session(), request, {});
      if (!answer.kept) continue;
      ++alive;
      for (const Explanation::Voter& voter : answer.voters)
        EXPECT_EQ(voter.sampled.has_value(), votes) << method;
    }
    EXPECT_GT(alive, 0) << method;
  }
}

// TOVA's w is a mean over heads, those of the group or all: of the first chunk's last query, in plain loops.
TEST_F(Explain, TheScoreOfTovaIsAMeanOverHeads) {
  for (const auto& [method, heads] :
       {std::pair{"tova:budget_tokens=9,per_kv_head=1", 2}, std::pair{"tova:budget_tokens=9", 4}})
    for (int key = 0; key < 16; key += 3) {
      double mean = 0;
      for (int head = 0; head < heads; ++head)
        mean += trace_.probability(kLayer, head, 15, key) / heads;
      EXPECT_NEAR(why(method, key, 0, 1).score.value(), mean, 1e-5 * mean) << method << key;
    }
}

TEST_F(Explain, RankAndCutAreThoseOfThePlainScores) {
  // The oracle's score is M: by a plain loop.
  const std::vector<double> mass = trace_.mass(kLayer, 0, 48, 64);
  std::vector<double> falling(mass.begin(), mass.begin() + 48);
  std::sort(falling.begin(), falling.end(), std::greater<>());
  for (const std::int64_t key : {3, 20, 40}) {
    const Explanation answer = why("oracle:budget_tokens=7", key);
    const double own = mass[static_cast<std::size_t>(key)];
    const auto rank = std::find(falling.begin(), falling.end(), own) - falling.begin() + 1;
    EXPECT_NEAR(answer.score.value(), own, 1e-5 * own);
    EXPECT_NEAR(answer.true_mass, own, 1e-5 * own);
    EXPECT_EQ(answer.rank.value(), rank);
    EXPECT_EQ(answer.true_rank, rank);
    EXPECT_NEAR(answer.cut.value(), falling[6], 1e-5 * falling[6]);
    EXPECT_NEAR(answer.margin().value(), own - falling[6], 1e-5);
    EXPECT_EQ(answer.needed_budget.value(), rank);
    // The rival of the cut is the last one that was kept.
    EXPECT_NEAR(answer.rivals.front().score, falling[6], 1e-5 * falling[6]);
  }
}

TEST_F(Explain, AStageIsPassedWhereTheMethodWithoutItLosesTheKeyToo) {
  struct Change {
    std::string method, changed;
    Stage stage;
  };
  const std::vector<Change> changes = {
      {"quoka:budget_tokens=7,num_queries=2", "quoka:budget_tokens=7,num_queries=16",
       Stage::QuerySampling},
      {"quoka:budget_tokens=7,num_queries=2", "quoka:budget_tokens=7,num_queries=2,metric=dot",
       Stage::Approximation},
      {"uniform_queries:budget_tokens=7,num_queries=2",
       "uniform_queries:budget_tokens=7,num_queries=16", Stage::QuerySampling},
      {"sparq:budget_tokens=7,num_channels=2", "sparq:budget_tokens=7,num_channels=8",
       Stage::Approximation},
  };
  for (const Change& change : changes) {
    std::set<bool> seen;
    for (std::int64_t key = 0; key < 48; ++key) {
      const Explanation answer = why(change.method, key);
      if (answer.kept) continue;
      const auto found =
          std::find_if(answer.stages.begin(), answer.stages.end(),
                       [&](const StageOutcome& outcome) { return outcome.stage == change.stage; });
      ASSERT_NE(found, answer.stages.end()) << change.method;
      EXPECT_EQ(found->passed, !keeps(change.changed, key)) << change.method << " key " << key;
      seen.insert(found->passed);
    }
    EXPECT_EQ(seen.size(), 2U) << change.method;
  }
}

// One head alone: its own products, without the group.
TEST_F(Explain, AHeadMergeLosesWhatAHeadAloneWouldKeep) {
  int merged_away = 0;
  for (std::int64_t key = 0; key < 48; ++key) {
    const Explanation answer = why("oracle:budget_tokens=7", key);
    if (answer.kept) continue;
    bool alone = false;
    for (const int head : {0, 1}) {
      std::vector<double> mass(48, 0.0);
      for (int query = 48; query < 64; ++query)
        for (int j = 0; j < 48; ++j)
          mass[static_cast<std::size_t>(j)] += trace_.probability(kLayer, head, query, j);
      const auto better = std::count_if(mass.begin(), mass.end(), [&](double other) {
        return other > mass[static_cast<std::size_t>(key)];
      });
      alone |= better < 7;
    }
    EXPECT_EQ(answer.lost_at, alone ? Stage::HeadMerge : Stage::Budget) << key;
    merged_away += alone;
  }
  EXPECT_GT(merged_away, 0);
}

TEST_F(Explain, AnEvictedKeySaysWhenAndByWhatScore) {
  const auto spec = spec_of("tova:budget_tokens=9");
  ReplayRequest request;
  request.spec = spec;
  request.layers = {kLayer};
  const ReplayResult run = replay(trace_.session(), request, {});
  int dead = 0;
  for (std::int64_t key = 0; key < 48; ++key) {
    const Explanation answer = why("tova:budget_tokens=9", key);
    const auto died = run.evict_chunk[0][0][static_cast<std::size_t>(key)];
    ASSERT_EQ(answer.kept, died >= kChunk) << key;
    ASSERT_TRUE(answer.decided_at) << key;
    if (answer.kept) {
      EXPECT_EQ(answer.decided_at->chunk, kChunk - 1);
      continue;
    }
    ++dead;
    EXPECT_EQ(answer.lost_at, Stage::Evicted);
    EXPECT_EQ(answer.decided_at->chunk, died);
    EXPECT_GT(answer.rank.value(), 9);
    EXPECT_LE(answer.margin().value(), 0);
  }
  EXPECT_GT(dead, 0);
}

TEST_F(Explain, TheVotersAreTheQueriesOfMostAttention) {
  const Explanation answer = why("uniform_queries:budget_tokens=7,num_queries=2", 20);
  double most = 0;
  for (const int head : {0, 1})
    for (int query = 48; query < 64; ++query)
      most = std::max(most, trace_.probability(kLayer, head, query, 20));
  ASSERT_FALSE(answer.voters.empty());
  EXPECT_NEAR(answer.voters.front().attention, most, 1e-5);
  const Explanation::Voter& first = answer.voters.front();
  // Rows floor((2i + 1) 16 / 4): 4 and 12.
  EXPECT_EQ(first.sampled.value(), first.position == 52 || first.position == 60);
}

TEST_F(Explain, WhatIsNoCandidateIsRefused) {
  EXPECT_THROW(why("quoka:budget_tokens=7", 48), Error);
  EXPECT_THROW(why("quoka:budget_tokens=7", -1), Error);
  EXPECT_THROW(why("quoka:budget_tokens=7", 1000), Error);
}

TEST_F(Explain, LostKeysHaveTheCausesThatExplainGives) {
  for (const std::string& method :
       {std::string("quoka:budget_tokens=7,num_queries=2"), std::string("h2o:budget_tokens=9"),
        std::string("quest:budget_tokens=8,page_size=4,skip_layers=0"),
        std::string(
            "flash_prefill:lowering=union,block_size=4,sink_blocks=0,window_blocks=1,alpha=0.9")}) {
    LostKeysRequest request;
    request.method = choice_anew(spec_of(method));
    request.layers = {kLayer};
    request.count = 1000;
    const LostKeys lost = lost_keys(trace_.session(), request, {});
    double sum = 0, by_cause = 0;
    int compared = 0;
    for (const LostKey& key : lost.keys) {
      sum += key.mass;
      if (key.chunk != kChunk || ++compared > 12) continue;
      const Explanation answer = why(method, key.key, key.row);
      EXPECT_EQ(answer.lost_at, key.cause) << method << " key " << key.key;
      EXPECT_NEAR(answer.true_mass, key.mass, 1e-6);
    }
    EXPECT_GT(compared, 0) << method;
    for (const double mass : lost.all.by_cause) by_cause += mass;
    EXPECT_NEAR(sum, lost.all.lost, 1e-9 + 1e-6 * sum) << method;
    EXPECT_NEAR(by_cause, lost.all.lost, 1e-9 + 1e-9 * sum) << method;
    EXPECT_TRUE(std::is_sorted(lost.keys.begin(), lost.keys.end(),
                               [](const auto& a, const auto& b) { return a.mass > b.mass; }));
  }
}

TEST_F(Explain, ARegretIsWantedMoreThanWhenItWasDropped) {
  LostKeysRequest request;
  request.method = choice_anew(spec_of("tova:budget_tokens=9"));
  request.layers = {kLayer};
  const LostKeys lost = lost_keys(trace_.session(), request, {});
  ASSERT_FALSE(lost.regrets.empty());
  ReplayRequest whole;
  whole.spec = *request.method.spec;
  whole.layers = {kLayer};
  const ReplayResult run = replay(trace_.session(), whole, {});
  for (const Regret& regret : lost.regrets) {
    const auto died = run.evict_chunk[0][static_cast<std::size_t>(regret.row)]
                                     [static_cast<std::size_t>(regret.key)];
    EXPECT_EQ(regret.dropped, died + 1);
    EXPECT_GT(regret.wanted, regret.dropped);
    EXPECT_GT(regret.mass_when_wanted, regret.mass_when_dropped);
    const auto mass = trace_.mass(kLayer, regret.row, 16 * regret.wanted, 16 * regret.wanted + 16);
    EXPECT_NEAR(regret.mass_when_wanted, mass[static_cast<std::size_t>(regret.key)], 1e-5);
  }
}

TEST_F(Explain, AKeysLifeFollowsItsChunks) {
  ExplainRequest request;
  request.spec = spec_of("tova:budget_tokens=9");
  request.layer = kLayer;
  request.key = 20;  // of chunk 1
  const KeyLife life = key_life(trace_.session(), request, {});
  using State = KeyLife::State;
  ASSERT_EQ(life.chunks.size(), 4U);
  EXPECT_EQ(life.chunks[0].state, State::Unborn);
  EXPECT_EQ(life.chunks[1].state, State::Own);
  for (const int chunk : {2, 3}) {
    const bool alive = !life.evicted_after || *life.evicted_after >= chunk;
    const auto& at = life.chunks[static_cast<std::size_t>(chunk)];
    EXPECT_EQ(at.state, alive ? State::Kept : State::Evicted);
    EXPECT_NEAR(at.true_mass, trace_.mass(kLayer, 0, 16 * chunk, 16 * chunk + 16)[20], 1e-5);
  }
}

TEST_F(Explain, HeadsAloneKeepNoLessOfTheirOwn) {
  ExplainRequest request;
  request.spec = spec_of("oracle:budget_tokens=7");
  request.layer = kLayer;
  request.chunk = kChunk;
  const HeadChoices choices = head_choices(trace_.session(), request, {});
  ASSERT_EQ(choices.heads.size(), 2U);
  EXPECT_EQ(choices.merged.size(), 7U);
  for (const HeadChoices::Head& head : choices.heads) {
    EXPECT_EQ(head.own.size(), 7U);
    // The best seven of a head hold most of what it attends to.
    EXPECT_GE(head.recall_alone, head.recall_merged);
    for (const auto& key : head.lost)
      EXPECT_FALSE(std::binary_search(choices.merged.begin(), choices.merged.end(), key.key));
  }
  EXPECT_GE(choices.merge_loss(), 0);
  request.spec = spec_of("quest:budget_tokens=8,page_size=4,skip_layers=0");
  EXPECT_TRUE(head_choices(trace_.session(), request, {}).heads.empty());
}

}  // namespace
}  // namespace kvloupe::replay
