// The questions about the attention of one head: their keys, and their answers against plain loops.
#include "app/state/questions/how_it_works/query_relevance.h"
#include "app/state/questions/how_it_works/received_rankings.h"
#include "app/state/questions/kept/attention_map.h"
#include "core/selection/lanes/rotary_shape.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"
#include "tests/state/small_workspace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace kvloupe::state {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class HeadQuestionsTest : public ::testing::Test {
 protected:
  // The trace as opened for the `id`th time.
  Place open(const SmallTrace& trace, int id = 1) {
    Place place;
    place.trace = testing::opened(trace, id);
    return place;
  }
  Place at(const SmallTrace& trace, int layer, int q_head, int chunk) {
    return testing::place_in(trace, layer, q_head, chunk);
  }
  template <Question Q>
  std::shared_ptr<const typename Q::Answer> answer(const Q& question) {
    return answers_.need(question, WorkContext{});
  }

  SmallTrace trace_;
  Answers answers_;
};

TEST_F(HeadQuestionsTest, AttentionIsWhatTheDefinitionSays) {
  const Place place = at(trace_, 1, 3, 2);
  const auto strip = answer(AttentionStripQuestion{place});
  ASSERT_EQ(strip->rows->rows, 16);
  ASSERT_EQ(strip->rows->cols, 48);
  EXPECT_EQ(strip->coarse.rows, 0);  // small: drawn as it is
  for (int r = 0; r < 16; ++r)
    for (int c = 0; c <= 32 + r; ++c)
      EXPECT_NEAR(strip->rows->at(r, c), trace_.probability(1, 3, 32 + r, c), 1e-5)
          << r << " " << c;

  Place row = place;
  row.query = 20;
  const auto exact = answer(AttentionRowQuestion{row});
  ASSERT_EQ(exact->cols, 21);
  for (int c = 0; c <= 20; ++c)
    EXPECT_NEAR(exact->at(0, c), trace_.probability(1, 3, 20, c), 1e-5) << c;
}

TEST_F(HeadQuestionsTest, AnswersOfDifferentPlacesHaveDifferentKeys) {
  std::set<std::string> keys;
  int places = 0;
  for (const int id : {1, 2})  // two traces, or one file opened twice
    for (const int layer : {0, 1})
      for (const int q_head : {0, 3})
        for (const int chunk : {1, 2}) {
          Place place = open(trace_, id);
          place.layer = layer;
          place.q_head = q_head;
          place.chunk = chunk;
          ++places;
          keys.insert(key_of(AttentionRowsQuestion{place}));
          keys.insert(key_of(AttentionStripQuestion{place}));
          keys.insert(key_of(QueryGeometryQuestion{place, {}}));
          keys.insert(key_of(GeometryQuestion{place, {}, {}}));
          keys.insert(key_of(QueryRelevanceQuestion{place, {}}));
          keys.insert(key_of(ReceivedRankingsQuestion{place}));
          keys.insert(key_of(RankedSelectionQuestion{place, {}}));
        }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(7 * places));
}

TEST_F(HeadQuestionsTest, KeysNameTheMethodTheWindowAndTheQuery) {
  Place place = at(trace_, 0, 0, 2);
  const MethodChoice a{"quoka:budget_tokens=8", -1, {}}, b{"quoka:budget_tokens=16", -1, {}};
  EXPECT_NE(key_of(QueryGeometryQuestion{place, a}), key_of(QueryGeometryQuestion{place, b}));
  EXPECT_NE(key_of(QueryRelevanceQuestion{place, a}), key_of(QueryRelevanceQuestion{place, b}));
  EXPECT_NE(key_of(RankedSelectionQuestion{place, a}), key_of(RankedSelectionQuestion{place, b}));
  Place other = place;
  other.window = 4;
  EXPECT_NE(key_of(ReceivedRankingsQuestion{place}), key_of(ReceivedRankingsQuestion{other}));
  EXPECT_NE(key_of(RankedSelectionQuestion{place, a}), key_of(RankedSelectionQuestion{other, a}));
  place.query = 33;
  other.query = 34;
  EXPECT_NE(key_of(AttentionRowQuestion{place}), key_of(AttentionRowQuestion{other}));
  // Query heads of one KV head rank together, and select each for itself.
  other = place;
  other.q_head = 1;
  EXPECT_EQ(key_of(ReceivedRankingsQuestion{place}), key_of(ReceivedRankingsQuestion{other}));
  EXPECT_NE(key_of(RankedSelectionQuestion{place, a}), key_of(RankedSelectionQuestion{other, a}));
}

TEST_F(HeadQuestionsTest, SayWhyTheyCannotBeAsked) {
  EXPECT_EQ(AttentionStripQuestion{}.obstacle(), "Open a trace");
  EXPECT_EQ(QueryGeometryQuestion{}.obstacle(), "Open a trace");
  EXPECT_EQ(RankedSelectionQuestion{}.obstacle(), "Open a trace");
  const Place first = open(trace_);
  EXPECT_NE(ReceivedRankingsQuestion{first}.obstacle().find("first chunk"), std::string::npos);
  EXPECT_EQ(AttentionRowQuestion{first}.obstacle(), "Choose a query");
  EXPECT_EQ((QueryGeometryQuestion{first, {}}.obstacle()), "");  // no method is needed
  EXPECT_EQ((RankedSelectionQuestion{at(trace_, 0, 0, 1), {}}.obstacle()), "Choose a method");
}

TEST_F(HeadQuestionsTest, GeometryFramesAllPointsAndCountsTheChosen) {
  const Place place = at(trace_, 1, 2, 3);
  const auto few = answer(QueryGeometryQuestion{place, {}});
  EXPECT_EQ(few->num_queries(), 5U);
  EXPECT_EQ(few->num_chosen, 0);  // without a method none is ringed

  const MethodChoice quoka = choice_of_spec("quoka:budget_tokens=8,num_queries=3", *place.trace);
  const auto g = answer(QueryGeometryQuestion{at(trace_, 1, 2, 2), quoka});
  EXPECT_EQ(g->chosen_by, "quoka");
  EXPECT_EQ(g->num_chosen, 3);
  double least_chosen = 2, most_left = -2;
  for (std::size_t i = 0; i < g->num_queries(); ++i) {
    const double s = g->geometry.relevance[i];
    (g->is_chosen(i) ? least_chosen : most_left) =
        g->is_chosen(i) ? std::min(least_chosen, s) : std::max(most_left, s);
    EXPECT_GE(s, g->least_relevance);
    EXPECT_LE(s, g->most_relevance);
    EXPECT_LE(g->geometry.max_attention[i], g->most_attention);
  }
  EXPECT_GE(least_chosen, most_left);
}

// Every form has its own answer, and the whole head one whatever the chunk.
TEST_F(HeadQuestionsTest, GeometryHasAnAnswerForEachForm) {
  using Fit = GeometryForm::Fit;
  using Color = GeometryForm::Color;
  const Place place = at(trace_, 1, 2, 2);
  std::set<std::string> keys;
  int forms = 0;
  for (const Fit fit : {Fit::All, Fit::Queries, Fit::Keys, Fit::Both})
    for (const Color color : {Color::Relevance, Color::Position, Color::Fate, Color::Attention})
      for (const int dimensions : {2, 3})
        for (const bool before : {false, true})
          for (const bool all_chunks : {false, true}) {
            ++forms;
            keys.insert(
                key_of(GeometryQuestion{place, {}, {fit, color, dimensions, before, all_chunks}}));
          }
  EXPECT_EQ(keys.size(), static_cast<std::size_t>(forms));
  const Place other = at(trace_, 1, 2, 3);
  EXPECT_EQ(key_of(HeadPointsQuestion{place, true}), key_of(HeadPointsQuestion{other, true}));
  EXPECT_NE(key_of(HeadPointsQuestion{place}), key_of(HeadPointsQuestion{other}));
}

// The box holds what the form shows, and touches it on every side.
TEST_F(HeadQuestionsTest, GeometryFramesWhatItShows) {
  using Points = std::vector<std::array<float, 3>>;
  const auto expect_framed = [](const GeometryQuestion::Box& box,
                                const std::vector<const Points*>& clouds) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      float low = std::numeric_limits<float>::infinity(), high = -low;
      for (const Points* points : clouds)
        for (const auto& point : *points) {
          low = std::min(low, point[axis]);
          high = std::max(high, point[axis]);
        }
      EXPECT_EQ(box.low[axis], low);
      EXPECT_EQ(box.high[axis], high);
    }
  };
  GeometryForm form;
  form.dimensions = 3;
  const Place place = at(trace_, 1, 2, 2);
  const auto all = answer(GeometryQuestion{place, {}, form});
  const auto& points = *all->points;
  expect_framed(all->box, {&points.queries, &points.keys, &points.mean_queries});
  form.fit = GeometryForm::Fit::Both;
  form.all_chunks = true;
  const auto apart = answer(GeometryQuestion{place, {}, form});
  EXPECT_EQ(apart->points->mean_queries.size(), 4U);
  expect_framed(apart->query_box, {&apart->points->queries, &apart->points->mean_queries});
  expect_framed(apart->key_box, {&apart->points->keys});
  // The queries of the place's chunk are rows of the method's answer, the others are not.
  EXPECT_EQ(apart->row_of(place, 31), std::nullopt);
  EXPECT_EQ(apart->row_of(place, 32), std::optional<std::size_t>(0));
  EXPECT_EQ(apart->row_of(place, 47), std::optional<std::size_t>(15));
  EXPECT_EQ(apart->row_of(place, 48), std::nullopt);
}

// Kept as the run says; lost: among the keys of largest true mass, as many as were kept, and not kept.
TEST_F(HeadQuestionsTest, GeometryKnowsTheFateOfEachKey) {
  const Place place = at(trace_, 1, 2, 2);
  GeometryForm form;
  form.color = GeometryForm::Color::Fate;
  EXPECT_EQ((GeometryQuestion{place, {}, form}.obstacle()), "Choose a method");
  const MethodChoice method = choice_of_spec("quoka:budget_tokens=8", *place.trace);
  const auto g = answer(GeometryQuestion{place, method, form});
  const auto run = answer(RunQuestion{place, method});
  const auto& kept = run->find(1, 2)->rows[static_cast<std::size_t>(row_of(place, *run))].positions;
  std::vector<double> mass = trace_.mass(1, 1, 32, 48);
  mass.resize(32);
  std::vector<int> order(32);
  for (int i = 0; i < 32; ++i) order[static_cast<std::size_t>(i)] = i;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return mass[static_cast<std::size_t>(a)] > mass[static_cast<std::size_t>(b)];
  });
  ASSERT_EQ(g->fates.size(), 48U);
  int lost = 0;
  for (std::int32_t key = 0; key < 48; ++key) {
    const KeyFate fate = g->fates[static_cast<std::size_t>(key)];
    const bool is_kept = std::find(kept.begin(), kept.end(), key) != kept.end();
    const bool is_true =
        std::find(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept.size()), key) !=
        order.begin() + static_cast<std::ptrdiff_t>(kept.size());
    EXPECT_EQ(fate.lost, key < 32 && is_true && !is_kept) << key;
    EXPECT_EQ(fate.state == analysis::KeyState::Current, key >= 32) << key;
    EXPECT_EQ(fate.state == analysis::KeyState::Dropped, key < 32 && !is_kept) << key;
    lost += fate.lost;
  }
  EXPECT_GT(lost, 0);
  // Queries have the colour: the same but for what is lost, which asks for exact attention.
  form.color = GeometryForm::Color::Relevance;
  const auto by_relevance = answer(GeometryQuestion{place, method, form});
  ASSERT_EQ(by_relevance->fates.size(), 48U);
  for (std::size_t key = 0; key < 48; ++key) {
    EXPECT_EQ(by_relevance->fates[key].state, g->fates[key].state) << key;
    EXPECT_FALSE(by_relevance->fates[key].lost) << key;
  }
  EXPECT_TRUE(answer(GeometryQuestion{place, {}, form})->fates.empty());
}

// What was before the rotary embedding needs what the trace says of it.
TEST_F(HeadQuestionsTest, GeometryBeforeTheRotaryEmbeddingSaysWhyItCannotBeShown) {
  GeometryForm form;
  form.before_rotary = true;
  EXPECT_EQ((GeometryQuestion{at(trace_, 0, 0, 0), {}, form}.obstacle()), "");
  selection::ModelShape shape = trace_.session().shape();
  EXPECT_EQ(selection::rotary_unknown(shape), std::nullopt);
  shape.rope_theta = 0;
  EXPECT_NE(selection::rotary_unknown(shape)->why.find("does not say"), std::string::npos);
  shape.rope_scaling = "{}";
  EXPECT_NE(selection::rotary_unknown(shape)->why.find("scales"), std::string::npos);
}

TEST_F(HeadQuestionsTest, WantedKeysAreWhatEachQueryGivesThem) {
  Place place = at(trace_, 1, 3, 2);
  EXPECT_EQ(KeyWantedQuestion{place}.obstacle(), "Choose a key");
  place.keys = {30,
                35};  // three of them are the chunk's own, which its first queries do not see all
  const auto wanted = answer(KeyWantedQuestion{place});
  ASSERT_EQ(wanted->attention.size(), 16U);
  std::size_t most_of = 0;
  for (int r = 0; r < 16; ++r) {
    double sum = 0;
    for (int key = 30; key < 35; ++key) sum += trace_.probability(1, 3, 32 + r, key);
    EXPECT_NEAR(wanted->attention[static_cast<std::size_t>(r)], sum, 1e-5) << r;
    if (wanted->attention[static_cast<std::size_t>(r)] > wanted->attention[most_of])
      most_of = static_cast<std::size_t>(r);
  }
  EXPECT_EQ(wanted->most_of, most_of);
  EXPECT_EQ(wanted->most, wanted->attention[most_of]);
  EXPECT_EQ(wanted->part(most_of), 1);
  Place scattered = place;
  scattered.keys = trace::KeySet::of(std::vector{3, 30, 34});
  EXPECT_NEAR(answer(KeyWantedQuestion{scattered})->attention.back(),
              trace_.probability(1, 3, 47, 3) + trace_.probability(1, 3, 47, 30) +
                  trace_.probability(1, 3, 47, 34),
              1e-5);
  Place other = place;
  other.keys = {30, 34};
  EXPECT_NE(key_of(KeyWantedQuestion{place}), key_of(KeyWantedQuestion{other}));
  other.keys = {48, 49};
  EXPECT_EQ(KeyWantedQuestion{other}.obstacle(), "The key comes after the chunk");
}

TEST_F(HeadQuestionsTest, GeometryOfAnUnknownRecordedMethodIsShownNonetheless) {
  const MethodChoice unknown{"from_the_future:depth=3", 0, {}};
  const auto g = answer(QueryRelevanceQuestion{at(trace_, 0, 1, 1), unknown});
  EXPECT_EQ(g->queries->num_queries(), 16U);
  EXPECT_EQ(g->queries->chosen_by, "");
  EXPECT_TRUE(g->queries->geometry.chosen.empty());
}

// Eight parts of as many queries; a hand-made cloud whose order is shuffled.
TEST_F(HeadQuestionsTest, MediansAreThoseOfPartsAlongTheAxis) {
  std::vector<float> x, y;
  for (int i = 0; i < 40; ++i) {
    const int at = (i * 7) % 40;  // each of 0 to 39 once
    x.push_back(static_cast<float>(at));
    y.push_back(static_cast<float>(at % 5 == 4 ? 1000 : at));
  }
  const auto medians = medians_along(x, y);
  ASSERT_EQ(medians.size(), 8U);
  for (int part = 0; part < 8; ++part) {
    EXPECT_EQ(medians[static_cast<std::size_t>(part)].x, 5 * part + 2);
    // 5p, 5p+1, 5p+2, 5p+3 and 1000.
    EXPECT_EQ(medians[static_cast<std::size_t>(part)].y, 5 * part + 2);
  }
  x.resize(14);
  y.resize(14);
  EXPECT_TRUE(medians_along(x, y).empty());
}

TEST_F(HeadQuestionsTest, RankedSelectionCountsWhatTheMethodKept) {
  const Place place = at(trace_, 1, 2, 3);
  const MethodChoice method = choice_of_spec("quoka:budget_tokens=8", *place.trace);
  const auto ranked = answer(ReceivedRankingsQuestion{place});
  const auto chosen = answer(RankedSelectionQuestion{place, method});
  const auto run = answer(RunQuestion{place, method});
  ASSERT_EQ(chosen->selected.size(), 48U);
  const auto& kept = run->find(1, 3)->rows[static_cast<std::size_t>(row_of(place, *run))].positions;
  std::int64_t global = 0, kept_global = 0, specific = 0, kept_specific = 0;
  double most_mean = 0;
  for (std::int32_t j = 0; j < 48; ++j) {
    const bool is_kept = std::find(kept.begin(), kept.end(), j) != kept.end();
    const auto i = static_cast<std::size_t>(j);
    EXPECT_EQ(chosen->selected[i] != 0, is_kept) << j;
    const analysis::KeyKind kind = ranked->rankings.kind[i];
    const KeyFate fate = chosen->fates[i];
    const bool wanted =
        kind == analysis::KeyKind::Global || kind == analysis::KeyKind::QuerySpecific;
    EXPECT_EQ(fate.lost, wanted && !is_kept) << j;
    EXPECT_EQ(fate.state, is_kept ? analysis::KeyState::Kept : analysis::KeyState::Dropped) << j;
    global += kind == analysis::KeyKind::Global;
    kept_global += kind == analysis::KeyKind::Global && is_kept;
    specific += kind == analysis::KeyKind::QuerySpecific;
    kept_specific += kind == analysis::KeyKind::QuerySpecific && is_kept;
    most_mean = std::max(most_mean, double{ranked->rankings.mean[i]});
  }
  EXPECT_EQ(chosen->global.keys, global);
  EXPECT_EQ(chosen->global.selected, kept_global);
  EXPECT_EQ(chosen->query_specific.keys, specific);
  EXPECT_EQ(chosen->query_specific.selected, kept_specific);
  EXPECT_EQ(ranked->num_global, global);
  EXPECT_EQ(ranked->num_query_specific, specific);
  EXPECT_EQ(ranked->most_mean, most_mean);
  EXPECT_EQ(ranked->drawn_one_in, 1);
  EXPECT_EQ(ranked->drawn.size(), 48U);
  EXPECT_EQ(chosen->facts.choice, method);
}

// Sinks and recent keys are kept by rule, as in the KV map; where all is kept nothing is lost.
TEST_F(HeadQuestionsTest, RankedSelectionKnowsWhatIsKeptByRuleAndWhatIsLost) {
  using analysis::KeyKind;
  using analysis::KeyState;
  const Place place = at(trace_, 1, 2, 3);
  const auto kinds = answer(ReceivedRankingsQuestion{place})->rankings.kind;
  const auto fates = [&](const char* spec) {
    return answer(RankedSelectionQuestion{place, choice_of_spec(spec, *place.trace)})->fates;
  };
  const auto count = [](const std::vector<KeyFate>& of, KeyState state) {
    return std::count_if(of.begin(), of.end(),
                         [&](const KeyFate& fate) { return fate.state == state; });
  };
  const auto streaming = fates("streaming_llm:budget_tokens=12,sink_tokens=4");
  EXPECT_EQ(count(streaming, KeyState::Sink), 4);
  EXPECT_EQ(count(streaming, KeyState::Recent), 8);
  EXPECT_EQ(count(fates("quoka:budget_tokens=1000"), KeyState::Dense), 48);
  // The newest key alone: the others that rank high are lost.
  const auto newest = fates("sliding_window:budget_tokens=1");
  ASSERT_EQ(newest.size(), 48U);
  int lost = 0;
  for (std::size_t key = 0; key < 47; ++key) {
    EXPECT_EQ(newest[key].lost, kinds[key] != KeyKind::Other) << key;
    lost += newest[key].lost;
  }
  EXPECT_GT(lost, 0);
  EXPECT_FALSE(newest.back().lost);
}

TEST_F(HeadQuestionsTest, ManyOtherKeysAreThinnedAndNoTellingOneIs) {
  const SmallTrace large({.num_layers = 1, .chunk_lengths = {5000, 4}});
  const auto ranked = answer(ReceivedRankingsQuestion{at(large, 0, 0, 1)});
  const std::int64_t telling = ranked->num_global + ranked->num_query_specific;
  EXPECT_GE(telling, 250);
  const std::int64_t others = 5000 - telling, step = ranked->drawn_one_in;
  EXPECT_GT(step, 1);
  EXPECT_EQ(static_cast<std::int64_t>(ranked->drawn.size()), telling + (others + step - 1) / step);
  std::int64_t drawn_telling = 0;
  for (const std::int32_t key : ranked->drawn)
    drawn_telling +=
        ranked->rankings.kind[static_cast<std::size_t>(key)] != analysis::KeyKind::Other;
  EXPECT_EQ(drawn_telling, telling);
}

}  // namespace
}  // namespace kvloupe::state
