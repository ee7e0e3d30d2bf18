// What the kit for a lent GPU prints of results that are no numbers: JSON all the same, and of which
// case they are.
#include "tests/gpu/attention_line.h"
#include "tests/gpu/kernel_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace kvloupe::gpu {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// JSON has neither word.
auto has_numbers_alone() { return AllOf(Not(HasSubstr("inf")), Not(HasSubstr("nan"))); }

struct Printed {
  std::string answer, words;
};
template <typename Print>
Printed printed(const Print& print) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  print();
  return {::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

TEST(KitLines, AttentionThatIsNoNumberIsAWrongCase) {
  const cuda::testing::Case c = {.name = "dense",
                                 .kind = cuda::testing::Kind::Dense,
                                 .kv_heads = 1,
                                 .group = 1,
                                 .chunk_len = 3,
                                 .past = 5,
                                 .dim = 8};
  const Printed got = printed([&] {
    print_attention_case(c, {INFINITY, NAN, INFINITY, INFINITY}, true, false);
  });
  EXPECT_THAT(got.answer, has_numbers_alone());
  EXPECT_THAT(got.answer, HasSubstr("\"output\": 1e+09, \"lse\": 1e+09"));
  EXPECT_EQ(got.words, "wrong: dense, fp32, 3 queries after 5 keys\n");
}

struct NoNumbers {
  cudaError_t launch() const { return cudaSuccess; }
  std::vector<float> results() const { return {NAN}; }
  double error(const std::vector<float>&) const { return INFINITY; }
};

TEST(KitLines, ASelectionThatIsNoNumberIsAWrongCase) {
  Lines lines;
  const Printed got = printed(
      [&] { lines.check_case("score_keys", cuda::NumberType::Fp16, "7 keys", NoNumbers()); });
  EXPECT_THAT(got.answer, has_numbers_alone());
  EXPECT_EQ(got.words, "wrong: score_keys, fp16, 7 keys\n");
  EXPECT_FALSE(lines.right());
}

}  // namespace
}  // namespace kvloupe::gpu
