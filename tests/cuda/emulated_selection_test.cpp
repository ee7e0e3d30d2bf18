// The CUDA kernels of core/selection's operators as host code, against plain loops: in several orders of
// threads, with memory that faults beyond its ends, and with each barrier left out in turn.
#include "core/base/error.h"
#include "core/cuda/emulator/emulator.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/score_keys_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>
#include <vector>

namespace kvloupe::cuda {
namespace {

using testing::DeviceArray;
using testing::same_bits;

class EmulatedSelection : public ::testing::Test {
 protected:
  void TearDown() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier({});
  }

  // In eight orders of threads the results of `run` are those of the first.
  template <typename Run>
  static void expect_the_same_in_all_orders(const Run& run) {
    const auto first = run();
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
      emulator::set_schedule(seed);
      EXPECT_TRUE(same_bits(run(), first)) << "another order of threads gives other bits: " << seed;
    }
    emulator::set_schedule(0);
  }

  // Each barrier of the file shows when it is left out: other results, or lanes that wait in vain.
  template <typename Run>
  static void expect_all_barriers_needed(std::string_view file, std::size_t count, const Run& run) {
    const auto right = run();
    const std::set<emulator::Site> sites = emulator::barrier_sites_in(file);
    EXPECT_EQ(sites.size(), count) << file;
    for (const emulator::Site& site : sites) {
      emulator::leave_out_barrier(site);
      int wrong = 0;
      for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        emulator::set_schedule(seed);
        try {
          wrong += same_bits(run(), right) ? 0 : 1;
        } catch (const Error&) {
          ++wrong;
        }
      }
      emulator::set_schedule(0);
      EXPECT_GT(wrong, 0) << "without the barrier of " << file << ":" << site.line
                          << " nothing changes";
    }
    emulator::leave_out_barrier({});
  }
};

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

TEST_F(EmulatedSelection, ProblemsThatCannotBeAreRefused) {
  ScoreKeys wide = testing::problem_of({1, 1, 1, 1, 1, kMostChannels + 1});
  EXPECT_EQ(launch_score_keys(wide, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(launch_row_products({}, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace kvloupe::cuda
