// The kernels of attention as host code, against plain loops in fp64: in several orders of threads, with
// memory that faults beyond its ends, and with each barrier left out in turn, which must show.
#include "core/cuda/emulator/emulator.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/row_attention_case.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::cuda {
namespace {

using testing::Case;
using testing::Kind;
using testing::Results;
using Placed = testing::PlacedCase<testing::DeviceArray>;

constexpr std::uint64_t kOrders = 8;

bool same_bits(const Results& a, const Results& b) {
  return testing::same_bits(a.output, b.output) && testing::same_bits(a.lse, b.lse) &&
         testing::same_bits(a.key_mass, b.key_mass);
}

Results run(const Case& c) {
  const Placed placed(c);
  EXPECT_EQ(placed.attend(), cudaSuccess);
  if (c.kind == Kind::Dense) {
    EXPECT_EQ(placed.add_mass(), cudaSuccess);
  }
  return placed.results();
}

class RowAttention : public ::testing::TestWithParam<Case> {
 protected:
  void TearDown() override {
    emulator::set_schedule(0);
    emulator::leave_out_barrier({});
  }
};

TEST_P(RowAttention, IsThatOfPlainLoopsInAnyOrderOfThreads) {
  const Case& c = GetParam();
  const Results first = run(c);
  const testing::Errors errors = testing::errors_of(c, testing::Inputs(c), first);
  EXPECT_TRUE(testing::are_small(errors))
      << errors.output << ", " << errors.lse << ", " << errors.key_mass << ": "
      << errors.of_tolerated << " of what is tolerated";
  for (std::uint64_t seed = 1; seed <= kOrders; ++seed) {
    emulator::set_schedule(seed);
    EXPECT_TRUE(same_bits(run(c), first)) << "another order of threads gives other bits: " << seed;
  }
}

TEST_P(RowAttention, LogSumExpIsTheSameWithoutValues) {
  const Placed placed(GetParam());
  ASSERT_EQ(placed.attend(), cudaSuccess);
  const Results with = placed.results();
  const Placed alone(GetParam());
  ASSERT_EQ(alone.attend(/*with_values=*/false), cudaSuccess);
  EXPECT_TRUE(testing::same_bits(alone.results().lse, with.lse));
  for (const float number : alone.results().output)
    ASSERT_TRUE(std::isnan(number)) << "an output was written";
}

INSTANTIATE_TEST_SUITE_P(Cases, RowAttention, ::testing::ValuesIn(testing::cases_of_all_types()),
                         [](const auto& each) {
                           std::string name = testing::name_of(each.param.type);
                           for (const char letter : std::string(each.param.name))
                             if (std::isalpha(static_cast<unsigned char>(letter)) != 0)
                               name += letter;
                           return name;
                         });

class Barriers : public RowAttention {
 protected:
  // How many barriers of the file the case meets; each of them must be needed.
  static void expect_needed(const char* file, std::size_t count, const Case& c) {
    const Results right = run(c);
    const auto sites = emulator::barrier_sites_in(file);
    EXPECT_EQ(sites.size(), count);
    for (const emulator::Site& site : sites) {
      emulator::leave_out_barrier(site);
      int wrong = 0;
      for (std::uint64_t seed = 1; seed <= kOrders; ++seed) {
        emulator::set_schedule(seed);
        wrong += same_bits(run(c), right) ? 0 : 1;
      }
      EXPECT_GT(wrong, 0) << "without the barrier of line " << site.line << " nothing changes";
    }
  }
};

constexpr Case kGathered = {.name = "gathered",
                            .kind = Kind::Gathered,
                            .kv_heads = 1,
                            .group = 2,
                            .chunk_len = 40,
                            .past = 300,
                            .dim = 64};
constexpr Case kDense = {.name = "dense",
                         .kind = Kind::Dense,
                         .kv_heads = 1,
                         .group = 2,
                         .chunk_len = 70,
                         .past = 100,
                         .dim = 64};

TEST_F(Barriers, OfAttentionAreNeeded) { expect_needed("attend_fp32.cu", 3, kGathered); }

TEST_F(Barriers, OfKeyMassAreNeeded) { expect_needed("key_mass.cu", 3, kDense); }

TEST_F(Barriers, OfAttentionInHalfPrecisionAreNeeded) {
  // What the last warp found lies over V in shared memory where heads are as wide.
  Case wide = in_type(kGathered, NumberType::Bf16);
  wide.dim = kMaxHeadDim;
  wide.chunk_len = 30;
  wide.past = 150;
  expect_needed("attend_half.cu", 5, wide);
}

TEST_F(Barriers, OfAttentionOfFewRowsInHalfPrecisionAreNeeded) {
  Case few = in_type(kGathered, NumberType::Fp16);
  few.chunk_len = 3;
  expect_needed("attend_half.cu", 5, few);
}

TEST_F(Barriers, OfKeyMassInHalfPrecisionAreNeeded) {
  expect_needed("key_mass_half.cu", 3, in_type(kDense, NumberType::Bf16));
}

TEST(RowAttentionLimits, HeadsThatAreTooWideAreRefused) {
  for (const NumberType type : {NumberType::Fp32, NumberType::Bf16}) {
    Case wide = in_type(kDense, type);
    wide.dim = kMaxHeadDim + 1;
    const Placed placed(wide);
    EXPECT_EQ(placed.attend(), cudaErrorInvalidValue);
    EXPECT_EQ(placed.add_mass(), cudaErrorInvalidValue);
  }
}

}  // namespace
}  // namespace kvloupe::cuda
