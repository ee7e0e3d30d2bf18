// The CUDA kernels of core/selection's operators as host code, against plain loops: in several orders of
// threads, with memory that faults beyond its ends, and with each barrier left out in turn.
#include "tests/cuda/device_array.h"
#include "tests/cuda/emulated_test.h"
#include "tests/cuda/keep_best_case.h"
#include "tests/cuda/pages_case.h"
#include "tests/cuda/query_choice_case.h"
#include "tests/cuda/score_keys_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda {
namespace {

using testing::DeviceArray;
using testing::same_bits;
using Scores = testing::PlacedScores<DeviceArray>;
using Pages = testing::PlacedPages<DeviceArray>;
using Products = testing::PlacedProducts<DeviceArray>;
using Relevance = testing::PlacedRelevance<DeviceArray>;
using Ranks = testing::PlacedRanks<DeviceArray>;

class EmulatedSelection : public testing::EmulatedTest {};

// The results of a case placed anew.
template <typename Placed, typename... Arguments>
std::vector<float> results_of(const Arguments&... arguments) {
  const Placed placed(arguments...);
  EXPECT_EQ(placed.launch(), cudaSuccess);
  return placed.results();
}

// As near to the definition as is tolerated, and the bits that the same numbers give in fp32.
template <typename Placed, typename... Arguments>
void expect_right(const Arguments&... arguments) {
  const Placed placed(arguments...), in_fp32 = placed.in_fp32();
  EXPECT_EQ(placed.launch(), cudaSuccess);
  EXPECT_LT(placed.error(placed.results()), 1);
  EXPECT_EQ(in_fp32.launch(), cudaSuccess);
  EXPECT_TRUE(same_bits(placed.results(), in_fp32.results())) << "other bits than in fp32";
}

TEST_F(EmulatedSelection, ScoreKeysIsThatOfPlainLoops) {
  for (const testing::ScoreShape& shape : testing::score_shapes())
    for (const testing::ScoreShape& with : testing::with_all_options(shape)) {
      SCOPED_TRACE(::testing::Message()
                   << testing::name_of(with.type) << ", " << with.keys << " keys of " << with.dim
                   << ", cosine " << with.cosine << ", mean " << with.mean_of_queries
                   << ", scores first " << with.scores_first);
      expect_right<Scores>(with);
    }
}

TEST_F(EmulatedSelection, ScoreKeysIsTheSameInAllOrdersOfThreads) {
  for (testing::ScoreShape shape : testing::score_shapes()) {
    SCOPED_TRACE(::testing::Message()
                 << testing::name_of(shape.type) << ", " << shape.keys << " keys of " << shape.dim);
    expect_the_same_in_all_orders([&] { return results_of<Scores>(shape); });
    shape.mean_of_queries = shape.scores_first = true;
    expect_the_same_in_all_orders([&] { return results_of<Scores>(shape); });
  }
}

TEST_F(EmulatedSelection, EveryBarrierOfScoreKeysIsNeeded) {
  for (const testing::ScoreShape& shape : testing::in_all_types<testing::ScoreShape>(
           {{1, 2, 18, 20, 200, 64, 0, 0, true, false, true},
            {1, 2, 18, 20, 200, 33, 0, 0, true, false, true}})) {
    SCOPED_TRACE(::testing::Message() << testing::name_of(shape.type) << " of " << shape.dim);
    const auto run = [&] { return results_of<Scores>(shape); };
    expect_all_barriers_needed("row_products.cu", 2, run);
    expect_all_barriers_needed("score_keys.cu", 1, run);
  }
}

TEST_F(EmulatedSelection, ScoresOfRowsThatAreNoNumbersAreNone) {
  for (const testing::ScoreShape& shape :
       testing::in_all_types<testing::ScoreShape>({{1, 1, 4, 8, 40, 64}}))
    for (const testing::ScoreShape& with : testing::with_all_options(shape)) {
      testing::ScoreInputs in(with);
      in.k[64 * 7 + 3] = std::nanf("");
      const std::vector<float> scores = results_of<Scores>(with, in);
      for (std::size_t key = 0; key < 40; ++key)
        EXPECT_EQ(std::isnan(scores[key]), key == 7) << key;
    }
}

class BestCase {
 public:
  explicit BestCase(const testing::BestShape& shape)
      : shape_(shape), inputs_(shape), scores_(inputs_.scores), forced_(inputs_.forced) {}

  testing::BestResults run() const {
    KeepBest problem = testing::problem_of(shape_);
    const auto rows = static_cast<std::size_t>(shape_.rows);
    const DeviceArray<std::int32_t> indices(rows * static_cast<std::size_t>(shape_.kept));
    const DeviceArray<std::int64_t> num_forced(rows), ties(rows);
    problem.scores = scores_.data();
    problem.forced = inputs_.forced.empty() ? nullptr : forced_.data();
    problem.indices = indices.data();
    problem.num_forced = num_forced.data();
    problem.ties_at_cut = ties.data();
    const DeviceArray<std::uint8_t> scratch(keep_best_scratch(problem));
    problem.scratch = scratch.data();
    EXPECT_EQ(launch_keep_best(problem, nullptr), cudaSuccess);
    return {indices.copy(), num_forced.copy(), ties.copy()};
  }
  testing::BestResults wanted() const { return testing::best_of(shape_, inputs_); }

 private:
  testing::BestShape shape_;
  testing::BestInputs inputs_;
  DeviceArray<float> scores_;
  DeviceArray<std::uint8_t> forced_;
};

TEST_F(EmulatedSelection, KeepBestIsAStableSort) {
  for (const testing::BestShape& shape : testing::best_shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.kept << " of " << shape.count);
    const BestCase one(shape);
    const testing::BestResults got = one.run(), want = one.wanted();
    EXPECT_EQ(got.indices, want.indices);
    EXPECT_EQ(got.num_forced, want.num_forced);
    EXPECT_EQ(got.ties, want.ties);
    expect_the_same_in_all_orders([&] { return one.run(); });
  }
}

TEST_F(EmulatedSelection, EveryBarrierOfKeepBestIsNeeded) {
  const BestCase one({1, 600, 200, 0, 0.2, 3});
  expect_all_barriers_needed("keep_best.cu", 7, [&] { return one.run(); });
}

TEST_F(EmulatedSelection, RelevanceIsThatOfPlainLoops) {
  for (const testing::RelevanceShape& shape : testing::relevance_shapes()) {
    SCOPED_TRACE(::testing::Message() << testing::name_of(shape.type) << ", " << shape.rows
                                      << " queries of " << shape.dim);
    expect_right<Relevance>(shape);
    expect_the_same_in_all_orders([&] { return results_of<Relevance>(shape); });
  }
}

TEST_F(EmulatedSelection, RanksAreAStableSort) {
  for (const testing::RankedShape& shape : testing::ranked_shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.kept << " of " << shape.count);
    const Ranks one(shape);
    EXPECT_EQ(one.launch(), cudaSuccess);
    EXPECT_EQ(one.results(), one.wanted());
  }
}

TEST_F(EmulatedSelection, EveryBarrierOfTheQueryChoiceIsNeeded) {
  const auto run = [&] {
    std::vector<float> all = results_of<Relevance>(testing::RelevanceShape{2, 40, 64});
    const Ranks ranks({2, 300, 20});
    EXPECT_EQ(ranks.launch(), cudaSuccess);
    for (const std::int32_t index : ranks.results()) all.push_back(static_cast<float>(index));
    return all;
  };
  expect_all_barriers_needed("query_choice.cu", 3, run);
}

TEST_F(EmulatedSelection, PagesAreThoseOfPlainLoops) {
  for (const testing::PageShape& shape : testing::page_shapes())
    for (const bool bounds : {true, false}) {
      SCOPED_TRACE(::testing::Message() << testing::name_of(shape.type) << ", " << shape.count
                                        << " rows of " << shape.dim << ", bounds " << bounds);
      expect_right<Pages>(shape, bounds);
      expect_the_same_in_all_orders([&] { return results_of<Pages>(shape, bounds); });
    }
}

TEST_F(EmulatedSelection, ProductsAreThoseOfPlainLoops) {
  for (const testing::ProductShape& shape : testing::product_shapes()) {
    SCOPED_TRACE(::testing::Message()
                 << testing::name_of(shape.type) << ", " << shape.rows << " rows of " << shape.dim);
    expect_right<Products>(shape);
    expect_the_same_in_all_orders([&] { return results_of<Products>(shape); });
  }
}

TEST_F(EmulatedSelection, ProblemsThatCannotBeAreRefused) {
  const testing::ScoreShape shape = {1, 1, 1, 1, 1, kMostChannels + 1};
  const ScoreKeys wide = testing::problem_of(shape);
  EXPECT_EQ(launch_score_keys(wide, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_row_products({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_keep_best({}, nullptr), cudaErrorInvalidValue);
  const KeepBest without_scratch = testing::problem_of(testing::BestShape{1, 20000, 100});
  EXPECT_EQ(launch_keep_best(without_scratch, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_page_bounds({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_pack_rows({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_query_relevance({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_ranked_rows({}, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kvloupe::cuda
