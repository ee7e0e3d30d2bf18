// What is particular to the methods that evict: hand-computed examples, the corner rules of the
// papers, and what permanence means.
#include "core/base/error.h"
#include "core/selection/eviction/heavy_hitters.h"
#include "tests/selection/sequences.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Ints = std::vector<std::int32_t>;

// Survivors of KV head `head` after chunk `chunk`.
Ints after(const MethodRun& run, std::size_t chunk, std::size_t head = 0) {
  return chunk + 1 < run.cells.size() ? run.cells[chunk + 1].rows[head].positions : run.alive[head];
}

Ints range(std::int32_t begin, std::int32_t end) {
  Ints positions(static_cast<std::size_t>(end - begin));
  std::iota(positions.begin(), positions.end(), begin);
  return positions;
}

// One query head a KV head, dimension 1, scale 1, chunks as given.
Sequence scalar_sequence(std::vector<int> lengths, int num_q_heads = 1, int num_kv_heads = 1) {
  return random_sequence({.num_q_heads = num_q_heads,
                          .num_kv_heads = num_kv_heads,
                          .head_dim = 1,
                          .chunk_lengths = std::move(lengths),
                          .decoded = 0},
                         1);
}

Sequence uniform_sequence(std::vector<int> lengths) {
  Sequence sequence = scalar_sequence(std::move(lengths));
  std::ranges::fill(sequence.q, 0.0F);
  std::ranges::fill(sequence.k, 0.0F);
  return sequence;
}

void expect_near(const std::vector<float>& values, const std::vector<double>& expected,
                 double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(static_cast<double>(values[i]), expected[i], tolerance) << i;
}

TEST(HeavyHitters, ColumnSumsOfUniformAttention) {
  const Sequence sequence = uniform_sequence({8});
  const Cell cell = cell_of(sequence, 0);
  HeavyHitters plain(0.5, false);
  plain.observe(cell, {range(0, 8)});
  expect_near(plain.scores(cell, 0), {2.718, 1.718, 1.218, .885, .635, .435, .268, .125}, 5e-4);
  HeavyHitters aged(0.5, true);
  aged.observe(cell, {range(0, 8)});
  expect_near(aged.scores(cell, 0), {.340, .245, .203, .177, .159, .145, .134, .125}, 5e-4);
}

TEST(HeavyHitters, SumsFollowTheSurvivorsAndAreTakenOverThemAlone) {
  const Sequence sequence = uniform_sequence({4, 2});
  HeavyHitters hitters(0.34, false);
  const Cell first = cell_of(sequence, 0);
  hitters.observe(first, {range(0, 4)});
  // 1 + 1/2 + 1/3 + 1/4, ...; floor(3 * 0.34) = 1 recent key
  const SelectedRow kept = hitters.survivors(first, 0, range(0, 4), 3);
  EXPECT_EQ(kept.positions, (Ints{0, 1, 3}));
  EXPECT_EQ(kept.forced, Ints{3});
  const Cell second = cell_of(sequence, 1);
  hitters.observe(second, {{0, 1, 3, 4, 5}});
  // The queries at 4 and 5 give 1/4 and 1/5 to each of the keys that are left and visible.
  expect_near(hitters.scores(second, 0), {25.0 / 12 + .45, 13.0 / 12 + .45, 1.0 / 4 + .45, .45, .2},
              1e-6);
}

TEST(HeavyHitters, ManyQueriesDoNotDrownTheNextOne) {
  // Three keys and a hundred thousand decoded tokens, each of which gives a third to either old key
  // and to itself, and is dropped.
  constexpr std::int64_t kSteps = 100000;
  const at::Tensor zeros = at::zeros({1, kSteps + 2, 1}, at::kFloat);
  HeavyHitters hitters(0, false);
  Cell cell;
  cell.softmax = 1;
  cell.chunk_len = 1;
  cell.q = at::zeros({1, 1, 1}, at::kFloat);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    cell.past_len = step + 2;
    cell.k = zeros.narrow(1, 0, cell.kv_len());
    hitters.observe(cell, {{0, 1, static_cast<std::int32_t>(step + 2)}});
  }
  expect_near({hitters.scores(cell, 0)[0]}, {kSteps / 3.0}, 0.01);
}

TEST(H2o, RecentRatioSplitsTheBudget) {
  // Position 0 gets most of the attention, then falling; so heavy keys are the oldest.
  const Sequence sequence = uniform_sequence({20});
  const auto kept = [&](const char* spec) { return after(run_method(sequence, spec), 0); };
  EXPECT_EQ(kept("h2o:budget_tokens=5"), (Ints{0, 1, 2, 18, 19}));  // B odd: floor(2.5) recents
  EXPECT_EQ(kept("h2o:budget_tokens=5,recent_ratio=0"), (Ints{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept("h2o:budget_tokens=5,recent_ratio=1"), (Ints{15, 16, 17, 18, 19}));
  EXPECT_EQ(kept("h2o:budget_tokens=1"), Ints{0});
  // 0.3 * 10 is 2.9999999999999996 in binary, and means 3.
  EXPECT_EQ(kept("h2o:budget_tokens=10,recent_ratio=0.3"), (Ints{0, 1, 2, 3, 4, 5, 6, 17, 18, 19}));
}

TEST(H2o, RecentsAreForcedAndCounted) {
  const MethodRun run = run_method(uniform_sequence({20, 4}), "h2o:budget_tokens=7");
  EXPECT_EQ(run.cells[1].rows[0].forced, (Ints{17, 18, 19}));
}

TEST(H2o, AgeTakesTheAdvantageOfOldKeysAway) {
  // All queries are alike; key 9 is attended to three times as much as each other key.
  Sequence sequence = uniform_sequence({12});
  std::ranges::fill(sequence.q, 1.0F);
  sequence.k[9] = std::log(3.0F);
  // Column sums: key 0 has 1 + .. + 1/9 + 1/12 + ..., key 9 only 3/12 + 3/13 + 3/14 = 0.695; by
  // age that is 0.232 a query, more than key 1 (2.07 / 11 = 0.188), less than key 0 (0.256).
  EXPECT_EQ(after(run_method(sequence, "h2o:budget_tokens=2,recent_ratio=0"), 0), (Ints{0, 1}));
  EXPECT_EQ(after(run_method(sequence, "h2o:budget_tokens=2,recent_ratio=0,normalise=by_age"), 0),
            (Ints{0, 9}));
}

TEST(H2o, CountsChunksInWhichNothingDies) {
  // Chunk 0 looks at key 1 alone; chunk 1, after which the first keys die, at none in particular.
  Sequence sequence = uniform_sequence({4, 4});
  std::fill_n(sequence.q.begin(), 4, 20.0F);
  sequence.k[1] = 1;
  EXPECT_EQ(after(run_method(sequence, "h2o:budget_tokens=4,recent_ratio=0.75"), 1),
            (Ints{1, 5, 6, 7}));
}

TEST(H2o, BeginsWithTheFirstDecodedToken) {
  // The prompt looks at key 1 alone, the first decoded token at key 2, the second at key 0.
  Sequence sequence = uniform_sequence({4, 2, 1, 1});
  sequence.chunks[2].phase = sequence.chunks[3].phase = trace::Phase::Decode;
  std::ranges::fill(sequence.q, 20.0F);
  sequence.k[1] = 1;
  sequence.q[6] = -20;
  sequence.k[2] = -1;
  const char* spec = "h2o:budget_tokens=3,recent_ratio=0.34,start=decode";
  const MethodRun run = run_method(sequence, spec);
  EXPECT_EQ(run.cells[0].dense_reason, DenseReason::EmptyPast);
  EXPECT_EQ(run.cells[1].dense_reason, DenseReason::MethodRule);
  // It attends to the whole prompt; after it keys die.
  EXPECT_EQ(run.cells[2].dense_reason, DenseReason::MethodRule);
  EXPECT_EQ(run.cells[2].rows[0].positions, (Ints{0, 1, 2, 3, 4, 5}));
  EXPECT_FALSE(run.cells[3].dense_reason);
  // Key 2 has all of what was tallied but e^-20; keys 0 and 1 tie with others at e^-20 and e^-40.
  EXPECT_EQ(after(run, 2), (Ints{0, 2, 6}));
  EXPECT_EQ(after(run_method(sequence, "h2o:budget_tokens=3,recent_ratio=0.34"), 1),
            (Ints{0, 1, 5}));
}

TEST(H2o, ThePromptFitsTheBudgetOrIsDenseByRule) {
  Sequence sequence = uniform_sequence({4, 2, 1});
  sequence.chunks[2].phase = trace::Phase::Decode;
  const MethodRun run = run_method(sequence, "h2o:budget_tokens=6,start=decode");
  EXPECT_EQ(run.cells[1].dense_reason, DenseReason::FitsBudget);
  EXPECT_EQ(run.cells[2].dense_reason, DenseReason::FitsBudget);
  EXPECT_EQ(after(run, 2).size(), 6U);
}

// The official step: after every token, the best B by the newest query, over all heads of a layer.
std::vector<Ints> tova_by_the_step(const Sequence& s, int budget) {
  std::vector<Ints> history;
  Ints alive;
  for (int step = 0; step < s.num_tokens(); ++step) {
    alive.push_back(step);
    std::vector<double> weight(alive.size(), 0.0);
    for (int head = 0; head < s.shape.num_q_heads; ++head) {
      std::vector<double> e;
      for (const std::int32_t key : alive) {
        double product = 0;
        for (int i = 0; i < s.shape.head_dim; ++i)
          product += static_cast<double>(s.query(head, step)[i]) *
                     static_cast<double>(s.key(head / s.gqa_group_size(), key)[i]);
        e.push_back(std::exp(s.scale() * product));
      }
      const double total = std::accumulate(e.begin(), e.end(), 0.0);
      for (std::size_t j = 0; j < e.size(); ++j) weight[j] += e[j] / total;
    }
    if (static_cast<int>(alive.size()) > budget)
      alive.erase(alive.begin() + (std::ranges::min_element(weight) - weight.begin()));
    history.push_back(alive);
  }
  return history;
}

TEST(Tova, AChunkOfOneIsTheOfficialStep) {
  const Sequence sequence = random_sequence(
      {.num_q_heads = 6, .chunk_lengths = std::vector<int>(30, 1), .decoded = 10}, 41);
  const auto expected = tova_by_the_step(sequence, 9);
  const MethodRun run = run_method(sequence, "tova:budget_tokens=9,force_last=0");
  int dropped_at_once = 0;
  for (std::size_t step = 0; step < expected.size(); ++step) {
    EXPECT_EQ(after(run, step, 0), expected[step]) << step;
    EXPECT_EQ(after(run, step, 1), expected[step]) << step;
    dropped_at_once += expected[step].back() != static_cast<std::int32_t>(step);
  }
  EXPECT_GT(dropped_at_once, 0);  // else force_last would not matter
}

TEST(Tova, TheForcedKeyCountsAgainstTheBudget) {
  const Sequence sequence = uniform_sequence({20, 3});
  const auto kept = [&](const char* spec) { return after(run_method(sequence, spec), 0); };
  EXPECT_EQ(kept("tova:budget_tokens=1"), Ints{19});
  // All weights tie: the oldest stay.
  EXPECT_EQ(kept("tova:budget_tokens=3"), (Ints{0, 1, 19}));
  EXPECT_EQ(kept("tova:budget_tokens=3,force_last=0"), (Ints{0, 1, 2}));
  const MethodRun run = run_method(sequence, "tova:budget_tokens=3");
  EXPECT_EQ(run.cells[1].rows[0].forced, Ints{19});
  EXPECT_EQ(run.cells[1].rows[0].ties_at_cut, 17);
}

TEST(Tova, TheMeanIsOverAllHeadsUnlessPerKvHead) {
  // Head 0 looks at key 1 with all its weight, head 1 a little at key 2: together key 1, then 2.
  Sequence sequence = scalar_sequence({5}, 2, 2);
  std::ranges::fill(sequence.q, 1.0F);
  std::ranges::fill(sequence.k, 0.0F);
  sequence.k[1] = 9;
  sequence.k[5 + 2] = 1;
  const MethodRun shared = run_method(sequence, "tova:budget_tokens=1,force_last=0");
  EXPECT_EQ(shared.alive, (std::vector<Ints>{{1}, {1}}));
  const MethodRun own = run_method(sequence, "tova:budget_tokens=1,force_last=0,per_kv_head=1");
  EXPECT_EQ(own.alive, (std::vector<Ints>{{1}, {2}}));
}

// A key that no query sees changes nothing but the positions after it.
TEST(Probabilities, KeysWithoutAnyWeightDoNotMatter) {
  SequenceShape shape = {.chunk_lengths = {24, 6}, .decoded = 0};
  Sequence plain = random_sequence(shape, 46);
  const auto set_last = [](Sequence& sequence, float query, float key) {
    const int dim = sequence.shape.head_dim;
    for (std::size_t i = dim - 1; i < sequence.q.size(); i += dim) sequence.q[i] = query;
    for (std::size_t i = dim - 1; i < sequence.k.size(); i += dim) sequence.k[i] = key;
  };
  set_last(plain, 1, 0);
  shape.chunk_lengths = {25, 6};
  Sequence with = random_sequence(shape, 47);
  constexpr int kUnseen = 9;
  const auto copy = [&](const float* from, float* to) {
    const int dim = shape.head_dim;
    std::copy_n(from, kUnseen * dim, to);
    std::copy_n(from + kUnseen * dim, (30 - kUnseen) * dim, to + (kUnseen + 1) * dim);
  };
  for (int head = 0; head < shape.num_q_heads; ++head)
    copy(plain.query(head, 0), const_cast<float*>(with.query(head, 0)));
  for (int head = 0; head < shape.num_kv_heads; ++head) {
    copy(plain.key(head, 0), const_cast<float*>(with.key(head, 0)));
    const_cast<float*>(with.key(head, kUnseen))[shape.head_dim - 1] = -1e5F;
  }
  const auto moved = [](std::vector<Ints> rows) {
    for (Ints& row : rows)
      for (std::int32_t& position : row) position += position >= kUnseen;
    return rows;
  };
  for (const char* spec :
       {"tova:budget_tokens=12", "snapkv:budget_tokens=12,window=6,kernel=1",
        "snapkv:budget_tokens=12,window=6,kernel=1,state=select", "oracle:budget_tokens=12",
        "oracle:budget_tokens=12,reduce=max", "sample_attention:budget_tokens=12,num_queries=3",
        "sample_attention:budget_tokens=12,num_queries=3,mode=coverage,coverage=0.4"}) {
    const MethodRun run = run_method(plain, spec);
    const MethodRun other = run_method(with, spec);
    EXPECT_EQ(positions_of(other.cells[1]), moved(positions_of(run.cells[1]))) << spec;
    EXPECT_EQ(other.alive, moved(run.alive)) << spec;
  }
}

TEST(Infinipot, NoveltyComesFirstThenWhatTheProbeAttendsTo) {
  Sequence sequence = scalar_sequence({6});
  sequence.novelty = {std::numeric_limits<float>::infinity(), 1, 5, 5, 2, 0};
  sequence.q = {1, 1, 1, 1, 1, 1};    // and so the probe's: they prefer large keys
  sequence.k = {-3, 2, 1, -1, 3, 4};  // by u: 5 4 1 2 3 0
  const auto kept = [&](const char* spec) { return after(run_method(sequence, spec), 0); };
  EXPECT_EQ(kept("infinipot:budget_tokens=4"), (Ints{0, 2, 4, 5}));  // 2 and 3 tie: the older
  EXPECT_EQ(kept("infinipot:budget_tokens=4,novelty_ratio=0"), (Ints{1, 2, 4, 5}));
  EXPECT_EQ(kept("infinipot:budget_tokens=4,novelty_ratio=1"), (Ints{0, 2, 3, 4}));
  EXPECT_EQ(kept("infinipot:budget_tokens=3"), (Ints{0, 4, 5}));  // floor(1.5) novel keys
  EXPECT_EQ(kept("infinipot:budget_tokens=1"), Ints{5});
  EXPECT_EQ(kept("infinipot:budget_tokens=6"), range(0, 6));
}

TEST(Infinipot, NothingIsForcedAndTiesAreThoseOfTheLastStep) {
  Sequence sequence = uniform_sequence({6, 1});
  sequence.novelty = {std::numeric_limits<float>::infinity(), 1, 1, 1, 0, 0, 0};
  const SelectedRow novel =
      run_method(sequence, "infinipot:budget_tokens=2,novelty_ratio=1").cells[1].rows[0];
  EXPECT_EQ(novel.positions, (Ints{0, 1}));
  EXPECT_TRUE(novel.forced.empty());
  EXPECT_EQ(novel.ties_at_cut, 2);
  const SelectedRow both = run_method(sequence, "infinipot:budget_tokens=2").cells[1].rows[0];
  EXPECT_EQ(both.positions, (Ints{0, 1}));
  EXPECT_EQ(both.ties_at_cut, 4);
}

TEST(Infinipot, FirstTokenStaysWhileNoveltyHasAShare) {
  const Sequence sequence = random_sequence({}, 42);
  const MethodRun run = run_method(sequence, "infinipot:budget_tokens=8");
  for (const Ints& alive : run.alive) EXPECT_EQ(alive.front(), 0);
}

TEST(Infinipot, ACellWithoutAProbeIsAnInternalError) {
  const Sequence sequence = random_sequence({}, 43);
  const MethodSpec spec = MethodSpec::parse("infinipot:budget_tokens=8");
  const auto selector = make_selector(spec, sequence.model());
  Cell cell = cell_of(sequence, 0);
  cell.probe_q = at::Tensor();
  selector->select(cell);
  try {
    selector->evict(cell);
    FAIL() << "evicted without a probe";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Internal);
  }
}

TEST(Keydiff, EqualKeysLeaveTheOldest) {
  Sequence sequence = uniform_sequence({20});
  std::ranges::fill(sequence.k, 2.0F);
  EXPECT_EQ(after(run_method(sequence, "keydiff:budget_tokens=6"), 0), range(0, 6));
}

TEST(Keydiff, AKeyOfNoLengthLiesBetweenLikeAndUnlike) {
  Sequence sequence = uniform_sequence({6});
  sequence.k = {1, 0, 1, -1, 1, 1};  // scores -1 0 -1 1 -1 -1
  EXPECT_EQ(after(run_method(sequence, "keydiff:budget_tokens=1"), 0), Ints{3});
  EXPECT_EQ(after(run_method(sequence, "keydiff:budget_tokens=2"), 0), (Ints{1, 3}));
  EXPECT_EQ(after(run_method(sequence, "keydiff:budget_tokens=3"), 0), (Ints{0, 1, 3}));
}

TEST(Keydiff, WithoutAMeanDirectionAllKeysAreAlike) {
  Sequence sequence = uniform_sequence({6});
  sequence.k = {1, -1, 2, -3, -1, 1};
  EXPECT_EQ(after(run_method(sequence, "keydiff:budget_tokens=4"), 0), range(0, 4));
}

TEST(Keydiff, TheOrderOfTheKeysDoesNotMatter) {
  const SequenceShape shape = {.chunk_lengths = {40}, .decoded = 0};
  const Sequence sequence = random_sequence(shape, 44);
  Sequence turned = sequence;
  const int dim = shape.head_dim;
  for (int head = 0; head < shape.num_kv_heads; ++head)
    for (int position = 0; position < 40; ++position)
      std::copy_n(sequence.key(head, position), dim,
                  const_cast<float*>(turned.key(head, (position * 7 + 3) % 40)));
  const MethodRun straight = run_method(sequence, "keydiff:budget_tokens=13");
  const MethodRun other = run_method(turned, "keydiff:budget_tokens=13");
  for (std::size_t head = 0; head < 2; ++head) {
    std::set<std::int32_t> expected;
    for (const std::int32_t position : straight.alive[head])
      expected.insert((position * 7 + 3) % 40);
    EXPECT_EQ(std::set<std::int32_t>(other.alive[head].begin(), other.alive[head].end()), expected);
  }
}

TEST(Snapkv, EvenKernelsAreRefused) {
  EXPECT_THROW(MethodSpec::parse("snapkv:kernel=4"), Error);
  EXPECT_NO_THROW(MethodSpec::parse("snapkv:kernel=5"));
}

TEST(Snapkv, OneQueryAndFewerKeysThanTheKernel) {
  // Chunks of one: the window is the chunk; two keys under a kernel of 7 share their largest vote.
  Sequence sequence = uniform_sequence({2, 1, 1});
  sequence.q = {1, 1, 1, 1};
  sequence.k = {0, 5, 0, 0};
  const MethodRun run = run_method(sequence, "snapkv:budget_tokens=2");
  EXPECT_EQ(after(run, 1), (Ints{0, 2}));
  EXPECT_EQ(run.cells[2].rows[0].ties_at_cut, 1);
  EXPECT_EQ(after(run_method(sequence, "snapkv:budget_tokens=2,kernel=1"), 1), (Ints{1, 2}));
}

TEST(StreamingLlm, EvictionFindsWhatAFreshSelectionWould) {
  const Sequence sequence = random_sequence({.chunk_lengths = {3, 9, 1, 30, 5}}, 45);
  const MethodRun run = run_method(sequence, "streaming_llm:budget_tokens=10,sink_tokens=6");
  for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
    const int past = sequence.chunks[chunk].end();
    Ints expected = range(0, std::min(past, 6));
    const Ints recent = range(std::max(past - 4, 6), std::max(past, 6));
    expected.insert(expected.end(), recent.begin(), recent.end());
    EXPECT_EQ(after(run, chunk, 1), past <= 10 ? range(0, past) : expected) << chunk;
  }
}

// kvpress keeps max(1, int(n * (1 - ratio))), which loses a key where n * (1 - ratio) is not exact.
TEST(Budget, AWholeNumberOfTokensIsNotLostInRounding) {
  const auto kvpress = [](int n, double ratio) {
    return std::max(1, static_cast<int>(n * (1 - ratio)));
  };
  EXPECT_EQ(kvpress(100, 0.9), 9);
  EXPECT_EQ(kvpress(1000, 0.9), 99);
  EXPECT_EQ(kvpress(10, 0.8), 1);
  EXPECT_EQ(MethodSpec::parse("h2o:budget_ratio=0.1").budget(100), 10);
  EXPECT_EQ(MethodSpec::parse("h2o:budget_ratio=0.1").budget(1000), 100);
  EXPECT_EQ(MethodSpec::parse("h2o:budget_ratio=0.2").budget(10), 2);
  EXPECT_EQ(MethodSpec::parse("h2o:budget_ratio=0.29").budget(100), 29);
  EXPECT_EQ(MethodSpec::parse("h2o:budget_ratio=0.01").budget(3), 1);
}

}  // namespace
}  // namespace kvloupe::selection::testing
