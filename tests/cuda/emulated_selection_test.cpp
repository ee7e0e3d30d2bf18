// The CUDA kernels of core/selection's operators as host code, against plain loops: in several orders of
// threads, with memory that faults beyond its ends, and with each barrier left out in turn.
#include "tests/cuda/device_array.h"
#include "tests/cuda/emulated_test.h"
#include "tests/cuda/keep_best_case.h"
#include "tests/cuda/pages_case.h"
#include "tests/cuda/score_keys_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda {
namespace {

using testing::DeviceArray;

class EmulatedSelection : public testing::EmulatedTest {};

class ScoreCase {
 public:
  explicit ScoreCase(const testing::ScoreShape& shape)
      : shape_(shape), inputs_(shape), q_(inputs_.q), k_(inputs_.k), chosen_(inputs_.chosen) {}

  std::vector<float> run() const {
    ScoreKeys problem = testing::problem_of(shape_);
    const DeviceArray<float> rows(problem.room_for_rows());
    const DeviceArray<float> scores(static_cast<std::size_t>(shape_.kv_heads * shape_.keys));
    problem.q = q_.data();
    problem.k = k_.data() + shape_.offset;
    problem.chosen = chosen_.data();
    problem.rows = rows.data();
    problem.scores = scores.data();
    EXPECT_EQ(launch_score_keys(problem, nullptr), cudaSuccess);
    return scores.copy();
  }
  double error(const std::vector<float>& got) const {
    return testing::error_of(shape_, inputs_, got);
  }

 private:
  testing::ScoreShape shape_;
  testing::ScoreInputs inputs_;
  DeviceArray<float> q_, k_;
  DeviceArray<std::int32_t> chosen_;
};

TEST_F(EmulatedSelection, ScoreKeysIsThatOfPlainLoops) {
  for (const testing::ScoreShape& shape : testing::score_shapes())
    for (const testing::ScoreShape& with : testing::with_all_options(shape)) {
      const ScoreCase one(with);
      EXPECT_LT(one.error(one.run()), testing::kScoreTolerance)
          << with.keys << " keys of " << with.dim << ", cosine " << with.cosine << ", mean "
          << with.mean_of_queries << ", scores first " << with.scores_first;
    }
}

TEST_F(EmulatedSelection, ScoreKeysIsTheSameInAllOrdersOfThreads) {
  for (testing::ScoreShape shape : testing::score_shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.keys << " keys of " << shape.dim);
    const ScoreCase one(shape);
    expect_the_same_in_all_orders([&] { return one.run(); });
    shape.mean_of_queries = shape.scores_first = true;
    const ScoreCase other(shape);
    expect_the_same_in_all_orders([&] { return other.run(); });
  }
}

TEST_F(EmulatedSelection, EveryBarrierOfScoreKeysIsNeeded) {
  const ScoreCase one({1, 2, 18, 20, 200, 64, 0, 0, true, false, true});
  expect_all_barriers_needed("row_products.cu", 2, [&] { return one.run(); });
  expect_all_barriers_needed("score_keys.cu", 1, [&] { return one.run(); });
}

TEST_F(EmulatedSelection, ScoresOfRowsThatAreNoNumbersAreNone) {
  testing::ScoreShape shape = {1, 1, 4, 8, 40, 64};
  for (const testing::ScoreShape& with : testing::with_all_options(shape)) {
    testing::ScoreInputs in(with);
    in.k[64 * 7 + 3] = std::nanf("");
    const DeviceArray<float> q(in.q), k(in.k);
    const DeviceArray<std::int32_t> chosen(in.chosen);
    ScoreKeys problem = testing::problem_of(with);
    const DeviceArray<float> rows(problem.room_for_rows()), scores(40);
    problem.q = q.data(), problem.k = k.data(), problem.chosen = chosen.data();
    problem.rows = rows.data(), problem.scores = scores.data();
    EXPECT_EQ(launch_score_keys(problem, nullptr), cudaSuccess);
    for (std::size_t key = 0; key < 40; ++key)
      EXPECT_EQ(std::isnan(scores.copy()[key]), key == 7) << key;
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
  expect_all_barriers_needed("keep_best.cu", 5, [&] { return one.run(); });
}

TEST_F(EmulatedSelection, PagesAreThoseOfPlainLoops) {
  for (const testing::PageShape& shape : testing::page_shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.count << " rows of " << shape.dim);
    const std::vector<float> rows = testing::page_rows(shape);
    const DeviceArray<float> there(rows);
    const testing::PageResults want = testing::pages_of(shape, rows);
    const auto run = [&](auto launch, std::size_t count) {
      PagesOfRows problem = testing::problem_of(shape);
      const DeviceArray<float> results(count);
      problem.rows = there.data();
      problem.results = results.data();
      EXPECT_EQ(launch(problem, nullptr), cudaSuccess);
      return results.copy();
    };
    const auto bounds = [&] { return run(launch_page_bounds, want.bounds.size()); };
    const auto means = [&] { return run(launch_block_means, want.means.size()); };
    EXPECT_EQ(bounds(), want.bounds);
    EXPECT_EQ(means(), want.means);
    expect_the_same_in_all_orders(bounds);
    expect_the_same_in_all_orders(means);
  }
}

TEST_F(EmulatedSelection, ProductsAreThoseOfPlainLoops) {
  for (const testing::ProductShape& shape : testing::product_shapes()) {
    SCOPED_TRACE(::testing::Message() << shape.rows << " rows of " << shape.dim);
    const testing::ProductInputs in(shape);
    const DeviceArray<float> rows(in.rows), keys(in.keys);
    const auto run = [&] {
      PackRows pack = testing::pack_of(shape);
      RowProducts products = testing::products_of(shape);
      const DeviceArray<float> packed(
          packed_floats(shape.kv_heads, shape.sets, shape.rows, shape.width()));
      const DeviceArray<float> results(testing::num_products(shape));
      pack.from = rows.data();
      pack.to = packed.data();
      products.rows = packed.data();
      products.keys = keys.data();
      products.results = results.data();
      EXPECT_EQ(launch_pack_rows(pack, nullptr), cudaSuccess);
      EXPECT_EQ(launch_row_products(products, nullptr), cudaSuccess);
      return results.copy();
    };
    EXPECT_LT(testing::error_of(shape, in, run()), testing::kProductTolerance);
    expect_the_same_in_all_orders(run);
  }
}

TEST_F(EmulatedSelection, ProblemsThatCannotBeAreRefused) {
  const testing::ScoreShape shape = {1, 1, 1, 1, 1, kMostChannels + 1};
  const ScoreKeys wide = testing::problem_of(shape);
  EXPECT_EQ(launch_score_keys(wide, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_row_products({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_keep_best({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_page_bounds({}, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_pack_rows({}, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kvloupe::cuda
