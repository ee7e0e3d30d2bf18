#include "core/base/finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace kvloupe {
namespace {

TEST(AllFinite, FindsOneBadNumberAtEveryPlace) {
  for (std::size_t count = 1; count < 70; ++count)
    for (std::size_t place = 0; place < count; ++place)
      for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
        std::vector<float> values(count, -1.5F);
        EXPECT_TRUE(all_finite(values));
        values[place] = bad;
        EXPECT_FALSE(all_finite(values)) << place << " of " << count;
      }
}

TEST(AllFinite, AgreesWithTheStandardLibraryOnEveryKindOfNumber) {
  EXPECT_TRUE(all_finite({}));
  // Every exponent, of both signs, with fractions of none, one and all bits.
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (const std::uint32_t fraction : {0U, 1U, 0x400000U, 0x7FFFFFU}) {
      const float value = std::bit_cast<float>(sign_and_exponent << 23 | fraction);
      EXPECT_EQ(all_finite({&value, 1}), std::isfinite(value)) << value;
    }
}

}  // namespace
}  // namespace kvloupe
