// What became of a span: against what each of its keys is asked alone, selections run by hand, and sums
// by hand.
#include "core/replay/span_loss.h"

#include "core/replay/replay.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"

#include <algorithm>
#include <string>
#include <vector>

namespace kvloupe::replay {
namespace {

using testing::SmallTrace;
using testing::SmallTraceShape;

constexpr int kChunk = 3;

SmallTraceShape shape() { return {.chunk_lengths = {16, 16, 16, 16}}; }

class SpanLossTest : public ::testing::Test {
 protected:
  const SmallTrace trace_{shape()};
  trace::NamedKeys span_{"word", {14, 18}};

  MethodChoice choice_of(const std::string& text) const {
    return choice_anew(selection::MethodSpec::parse(text).resolved(trace_.session().shape()));
  }

  SpanLoss loss_of(const std::string& method, std::vector<int> chunks = {kChunk},
                   bool budgets = false) const {
    SpanLossRequest request;
    request.method = choice_of(method);
    request.span = span_;
    request.chunks = std::move(chunks);
    request.want_budgets = budgets;
    return span_loss(trace_.session(), request, {});
  }

  // How many keys of the span a replay keeps in each row of a layer.
  std::vector<std::int64_t> kept_by_replay(const selection::MethodSpec& spec, int layer,
                                           int chunk = kChunk) const {
    ReplayRequest request;
    request.spec = spec;
    request.layers = {layer};
    request.chunks = {chunk};
    const ReplayResult result = replay(trace_.session(), request, {});
    std::vector<std::int64_t> kept;
    for (const trace::SelectedRow& row : result.find(layer, chunk)->rows)
      kept.push_back(std::count_if(row.positions.begin(), row.positions.end(),
                                   [&](int key) { return span_.keys.contains(key); }));
    return kept;
  }

  // In the chunks 1 to 3. Two of the span's keys come before chunk 1, all four before the others.
  bool keeps_all_by_replay(const selection::MethodSpec& spec, const SpanHead& head) const {
    const auto row = static_cast<std::size_t>(head.row);
    return kept_by_replay(spec, head.layer, 1)[row] == 2 &&
           kept_by_replay(spec, head.layer, 2)[row] == 4 &&
           kept_by_replay(spec, head.layer, 3)[row] == 4;
  }

  void expect_as_each_key_is_told(const std::string& method) const {
    const SpanLoss loss = loss_of(method);
    EXPECT_THAT(loss.layers, ElementsAre(0, 1));
    EXPECT_THAT(loss.chunks, ElementsAre(kChunk));
    ASSERT_FALSE(loss.heads.empty()) << method;
    for (const SpanHead& head : loss.heads) {
      SpanHead asked{head.layer, head.row};
      for (const std::int32_t key : span_.keys.positions_in(0, 64)) {
        ExplainRequest request;
        request.spec = *choice_of(method).spec;
        request.layer = head.layer;
        request.row = head.row;
        request.chunk = kChunk;
        request.key = key;
        request.want_needed_budget = false;
        const Explanation why = explain(trace_.session(), request, {});
        ++asked.keys;
        asked.kept += why.kept;
        asked.mass += why.true_mass;
        asked.whole_mass = why.whole_mass;
        if (why.kept) continue;
        asked.lost_mass += why.true_mass;
        ++asked.lost_to[static_cast<std::size_t>(*why.lost_at)];
      }
      SCOPED_TRACE(method + " layer " + std::to_string(head.layer) + " row " +
                   std::to_string(head.row));
      EXPECT_EQ(head.kept, asked.kept);
      EXPECT_EQ(head.keys, asked.keys);
      EXPECT_EQ(head.lost_to, asked.lost_to);
      EXPECT_NEAR(head.mass, asked.mass, 1e-6);
      EXPECT_NEAR(head.lost_mass, asked.lost_mass, 1e-6);
      EXPECT_NEAR(head.whole_mass, asked.whole_mass, 1e-6);
    }
  }

  // The head keeps all of the span by the budget that is said to be enough, and not by one less.
  void expect_least_budget(const SpanLoss& loss, const SpanHead& head) const {
    const auto kept = [&](std::int64_t budget) {
      const auto spec = loss.method.spec->with({{"budget_tokens", std::to_string(budget)}});
      return kept_by_replay(spec, head.layer)[static_cast<std::size_t>(head.row)];
    };
    EXPECT_EQ(kept(*head.enough), 4) << loss.method.text;
    if (*head.enough > 1) {
      EXPECT_LT(kept(*head.enough - 1), 4) << loss.method.text;
    }
  }
};

const std::vector<std::string> kMethods = {
    "oracle:budget_tokens=7",
    "quoka:budget_tokens=7,num_queries=2",
    "uniform_queries:budget_tokens=9,num_queries=2",
    "sparq:budget_tokens=7,num_channels=2",
    "snapkv:budget_tokens=9,window=3",
    "keydiff:budget_tokens=9",
    "quest:budget_tokens=8,page_size=4,skip_layers=0,prefill=per_query",
};

// As many as the span has, here and there.
const trace::KeySet kScattered = trace::KeySet::of(std::vector{3, 14, 15, 30});

TEST_F(SpanLossTest, IsWhatEachKeyIsToldAlone) {
  for (const std::string& method : kMethods) expect_as_each_key_is_told(method);
  span_.keys = kScattered;
  for (const std::string& method : kMethods) expect_as_each_key_is_told(method);
}

TEST_F(SpanLossTest, OfKeysHereAndThereThoseBetweenNeedNoBudget) {
  span_.keys = kScattered;
  for (const char* const method : {"oracle:budget_tokens=7", "quoka:budget_tokens=7,num_queries=2",
                                   "snapkv:budget_tokens=9,window=3"}) {
    const SpanLoss loss = loss_of(method, {kChunk}, true);
    for (const SpanHead& head : loss.heads) {
      ASSERT_TRUE(head.enough) << method;
      expect_least_budget(loss, head);
    }
  }
  // The newest keys before 48, from key 3 on.
  EXPECT_EQ(loss_of("sliding_window:budget_tokens=7", {kChunk}, true).sums().enough, 45);
}

TEST_F(SpanLossTest, SeveralChunksAreCountedTogether) {
  const SpanLoss loss = loss_of("quoka:budget_tokens=7,num_queries=2", {2, 3});
  const selection::MethodSpec spec = *choice_of("quoka:budget_tokens=7,num_queries=2").spec;
  for (const SpanHead& head : loss.heads) {
    const auto row = static_cast<std::size_t>(head.row);
    EXPECT_EQ(head.keys, 8);
    EXPECT_EQ(head.kept,
              kept_by_replay(spec, head.layer, 2)[row] + kept_by_replay(spec, head.layer, 3)[row]);
  }
  // Chunk 1 begins at 16: two keys of [14, 18) come before it.
  for (const SpanHead& head : loss_of("oracle:budget_tokens=7", {1}).heads) EXPECT_EQ(head.keys, 2);
  // In chunk 0 nothing comes before.
  EXPECT_TRUE(loss_of("oracle:budget_tokens=7", {0}).heads.empty());
}

TEST_F(SpanLossTest, CountsFromTheSetsAloneAreTheSame) {
  for (const std::string& method : kMethods) {
    ReplayRequest request;
    request.spec = *choice_of(method).spec;
    request.chunks = {2, 3};
    request.want_mass = false;
    const SpanLoss counted =
        count_span(replay(trace_.session(), request, {}), choice_of(method), span_);
    const SpanLoss asked = loss_of(method, {2, 3});
    EXPECT_EQ(counted.layers, asked.layers);
    EXPECT_EQ(counted.chunks, asked.chunks);
    EXPECT_EQ(counted.dense_heads, asked.dense_heads);
    ASSERT_EQ(counted.heads.size(), asked.heads.size()) << method;
    for (std::size_t i = 0; i < counted.heads.size(); ++i) {
      EXPECT_EQ(counted.heads[i].layer, asked.heads[i].layer) << method;
      EXPECT_EQ(counted.heads[i].row, asked.heads[i].row) << method;
      EXPECT_EQ(counted.heads[i].kept, asked.heads[i].kept) << method;
      EXPECT_EQ(counted.heads[i].keys, asked.heads[i].keys) << method;
    }
  }
}

TEST_F(SpanLossTest, TheBudgetThatIsEnoughKeepsTheSpanAndOneLessDoesNot) {
  for (const char* const method : {"oracle:budget_tokens=7", "quoka:budget_tokens=7,num_queries=2",
                                   "sliding_window:budget_tokens=7"}) {
    const SpanLoss loss = loss_of(method, {kChunk}, true);
    EXPECT_TRUE(loss.has_budgets && loss.exact_budgets);
    std::int64_t most = 0;
    for (const SpanHead& head : loss.heads) {
      ASSERT_TRUE(head.enough) << method;
      most = std::max(most, *head.enough);
      expect_least_budget(loss, head);
    }
    EXPECT_EQ(loss.sums().enough, most) << method;
  }
  // The newest keys before 48: all of [14, 18) from 34 on.
  EXPECT_EQ(loss_of("sliding_window:budget_tokens=7", {kChunk}, true).sums().enough, 34);
}

TEST_F(SpanLossTest, OfMethodsThatEvictTheBudgetFoundKeepsTheSpanAndOneLessDoesNot) {
  for (const char* const method :
       {"keydiff:budget_tokens=9", "snapkv:budget_tokens=9,window=3", "tova:budget_tokens=9"}) {
    const SpanLoss loss = loss_of(method, {kChunk}, true);
    EXPECT_TRUE(loss.has_budgets) << method;
    EXPECT_FALSE(loss.exact_budgets) << method;
    for (const SpanHead& head : loss.heads) {
      ASSERT_TRUE(head.enough) << method;
      expect_least_budget(loss, head);
    }
  }
}

TEST_F(SpanLossTest, ARowAloneIsToldTheBudgetThatTheSpanIs) {
  std::vector<std::string> methods = kMethods;
  methods.insert(methods.end(), {"tova:budget_tokens=9", "less_is_more:budget_tokens=9",
                                 "streaming_llm:budget_tokens=9"});
  for (const std::string& method : methods) {
    const SpanLoss loss = loss_of(method, {kChunk}, true);
    for (const SpanHead& head : loss.heads) {
      ExplainRequest request;
      request.spec = *choice_of(method).spec;
      request.layer = head.layer;
      request.row = head.row;
      request.chunk = kChunk;
      const SpanBudget alone = budget_of_span(trace_.session(), request, span_.keys, {});
      EXPECT_EQ(alone.budget, head.enough)
          << method << " layer " << head.layer << " row " << head.row;
    }
  }
}

TEST_F(SpanLossTest, AChangeKeepsItInAsManyHeadsAsItsMethodDoes) {
  int told = 0;
  // With the larger budgets a row loses some in one chunk and nothing in another, where a change may.
  for (const int budget : {7, 12, 24, 26, 30}) {
    const SpanLoss loss =
        loss_of("quoka:num_queries=1,budget_tokens=" + std::to_string(budget), {1, 2, 3});
    ASSERT_FALSE(loss.changes.empty()) << budget;
    for (const SpanChange& change : loss.changes) {
      if (!change.spec) continue;
      ++told;
      int heads = 0;
      for (const SpanHead& head : loss.heads)
        heads += head.lost() > 0 && keeps_all_by_replay(*change.spec, head);
      EXPECT_EQ(change.heads, heads) << change.change << budget;
    }
  }
  EXPECT_GT(told, 0);
}

TEST_F(SpanLossTest, OfWhatIsKeptWholeNothingIsTried) {
  const SpanLoss loss = loss_of("quoka:num_queries=1,budget_tokens=48", {2, 3});
  EXPECT_EQ(loss.sums().lost(), 0);
  EXPECT_TRUE(loss.changes.empty());
}

// A layer that keeps everything says nothing of a span that comes later.
TEST_F(SpanLossTest, OfASpanThatComesLaterNothingIsKept) {
  const auto sentences = [&](const std::string& method, int chunk) {
    ReplayRequest request;
    request.spec = *choice_of(method).spec;
    request.chunks = {chunk};
    request.want_mass = false;
    const SpanLoss counted =
        count_span(replay(trace_.session(), request, {}), choice_of(method), span_);
    const std::string asked = sentence_of(loss_of(method, {chunk}));
    EXPECT_EQ(sentence_of(counted), asked);
    return asked;
  };
  span_.keys = {40, 44};
  for (const char* method : {"oracle:budget_tokens=7,skip_layers=1",
                             "oracle:budget_tokens=7,skip_layers=2", "oracle:budget_tokens=7"})
    EXPECT_EQ(sentences(method, 1), "In chunk 1 no key of word comes before the chunk.") << method;
  EXPECT_EQ(sentences("oracle:budget_tokens=7,skip_layers=2", kChunk),
            "In chunk 3 oracle 7 keeps every key: none of word is lost.");
}

// Three heads: one keeps all, one some, one none.
SpanLoss by_hand() {
  SpanLoss loss;
  loss.method = choice_anew(selection::MethodSpec::parse("quoka:budget_tokens=256"));
  loss.span = {"needle", {10, 14}};
  loss.layers = {0, 1};
  loss.chunks = {5};
  loss.has_causes = true;
  loss.heads.resize(3);
  const auto fill = [&](std::size_t i, int layer, int row, std::int64_t kept, double mass,
                        double lost_mass) {
    SpanHead& head = loss.heads[i];
    head.layer = layer;
    head.row = row;
    head.kept = kept;
    head.keys = 4;
    head.mass = mass;
    head.lost_mass = lost_mass;
  };
  fill(0, 0, 0, 4, 1, 0);
  fill(1, 0, 1, 1, 8, 6);
  fill(2, 1, 0, 0, 3, 3);
  loss.heads[1].lost_to[static_cast<std::size_t>(Stage::QuerySampling)] = 3;
  loss.heads[2].lost_to[static_cast<std::size_t>(Stage::Budget)] = 4;
  return loss;
}

TEST(SpanLossSums, AddUp) {
  SpanLoss loss = by_hand();
  const SpanLoss::Sums sums = loss.sums();
  EXPECT_EQ(sums.heads, 3);
  EXPECT_EQ(sums.whole, 1);
  EXPECT_EQ(sums.nothing, 1);
  EXPECT_EQ(sums.kept, 5);
  EXPECT_EQ(sums.keys, 12);
  EXPECT_DOUBLE_EQ(sums.mass, 12);
  EXPECT_DOUBLE_EQ(sums.lost_mass, 9);
  EXPECT_THAT(sums.causes(), ElementsAre(Stage::Budget, Stage::QuerySampling));
  EXPECT_FALSE(sums.enough);
  EXPECT_EQ(loss.sums_of_layer(0).kept, 5);
  EXPECT_EQ(loss.sums_of_layer(1).whole, 0);
  // 80 % of 12 is 9.6: the heads of 8 and 3.
  const auto matter = loss.heads_of_mass(0.8);
  ASSERT_EQ(matter.size(), 2U);
  EXPECT_EQ(matter[0]->row, 1);
  EXPECT_EQ(matter[1]->layer, 1);
  for (SpanHead& head : loss.heads) head.enough = 100 * (head.layer + 1) + head.row;
  EXPECT_EQ(loss.sums().enough, 200);
  EXPECT_EQ(loss.sums_of_layer(0).enough, 101);
}

TEST(SpanLossSums, AreSaidInASentence) {
  SpanLoss loss = by_hand();
  EXPECT_EQ(sentence_of(loss),
            "In chunk 5 quoka 256 keeps 42 % of needle. 1 of 3 KV heads keeps all 4 keys, 1 keeps "
            "none. Of the 2 KV heads with 80 % of its attention none keeps all. Lost to: 57 % "
            "budget, 43 % query sampling.");
  EXPECT_EQ(remedy_of(loss), "");
  loss.changes.push_back({Stage::QuerySampling, "all rows of the chunk", {}, 1, 3});
  EXPECT_EQ(remedy_of(loss),
            "All rows of the chunk would keep all of it in 1 of the 2 heads that lose some.");
  loss.has_budgets = true;
  for (SpanHead& head : loss.heads) head.enough = 1300;
  EXPECT_THAT(remedy_of(loss),
              HasSubstr("A budget of 1,300 keeps all of it in every head, 1,299 does not."));
  loss.heads[0].enough = 1500;  // a head of little mass
  EXPECT_THAT(remedy_of(loss),
              HasSubstr("A budget of 1,500 keeps all of it in every head, 1,499 does not; 1,300 is "
                        "enough in the heads with 80 % of its attention."));
  loss.heads[0].enough.reset();
  EXPECT_THAT(remedy_of(loss), HasSubstr("No budget that was tried"));
  loss.has_causes = false;
  EXPECT_THAT(sentence_of(loss), Not(HasSubstr("Lost to")));
  loss.heads.clear();
  EXPECT_EQ(sentence_of(loss), "In chunk 5 no key of needle comes before the chunk.");
  loss.dense_heads = 3;
  EXPECT_EQ(sentence_of(loss), "In chunk 5 no key of needle comes before the chunk.");
  loss.comes_before = true;
  EXPECT_EQ(sentence_of(loss), "In chunk 5 quoka 256 keeps every key: none of needle is lost.");
  loss.idle_heads = 1;
  EXPECT_EQ(sentence_of(loss), "In chunk 5 quoka 256 does not choose among keys of needle.");
}

TEST(SpanLossSums, OfSeveralAnswersAddUp) {
  SpanLoss a = by_hand(), b = by_hand();
  a.changes = {{Stage::QuerySampling, "all rows", {}, 1, 3}};
  b.changes = {{Stage::QuerySampling, "all rows", {}, 2, 4}, {Stage::HeadMerge, "alone", {}, 4, 5}};
  a.add(b);
  EXPECT_EQ(a.heads.size(), 6U);
  ASSERT_EQ(a.changes.size(), 2U);
  EXPECT_EQ(a.changes[0].change, "alone");
  EXPECT_EQ(a.changes[1].heads, 3);
  EXPECT_EQ(a.changes[1].keys, 7);
}

}  // namespace
}  // namespace kvloupe::replay
