// Numbers as people read and write them, against hand-written values.
#include "core/base/units.h"

#include "core/base/quantile.h"
#include "core/base/rounded_down.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace kvloupe {
namespace {

TEST(UnitsTest, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(12897484), "12.3 MiB");
  EXPECT_EQ(format_bytes((1ull << 30) - 1), "1.0 GiB");
  EXPECT_EQ(format_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
}

TEST(UnitsTest, Durations) {
  EXPECT_EQ(format_duration(80), "1 min 20 s");
  EXPECT_EQ(format_duration(3.4), "3.4 s");
  EXPECT_EQ(format_duration(0.012), "12 ms");
  EXPECT_EQ(format_duration(0.00012), "120 \u00b5s");
  EXPECT_EQ(format_duration(59.97), "1 min 0 s");
  EXPECT_EQ(format_duration(3900), "1 h 5 min");
}

TEST(UnitsTest, Counts) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(32768), "32,768");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
}

TEST(UnitsTest, ShortestTextReadsBackEqual) {
  EXPECT_EQ(format_shortest(0.5), "0.5");
  EXPECT_EQ(format_shortest(16), "16");
  EXPECT_EQ(format_shortest(1e-05), "1e-05");
  EXPECT_EQ(format_shortest(0.0005), "0.0005");
  for (const double value : {0.1, 1.0 / 3.0, 6.02e23, 1e5, -2.5e-9}) {
    EXPECT_EQ(parse_double(format_shortest(value)), value);
  }
}

TEST(UnitsTest, SizesDecimalAndBinary) {
  EXPECT_EQ(parse_size("8GB"), 8'000'000'000u);
  EXPECT_EQ(parse_size("512MiB"), 512u << 20);
  EXPECT_EQ(parse_size("1.5g"), 1'500'000'000u);
  EXPECT_EQ(parse_size("1048576"), 1u << 20);
  EXPECT_EQ(parse_size(" 2 KiB "), 2048u);
  for (const char* text : {"", "GB", "-1", "1XB", "1e300", "99999999TB", "1.2.3", "nan"}) {
    EXPECT_FALSE(parse_size(text).has_value()) << text;
  }
}

TEST(UnitsTest, NumbersAreParsedWhole) {
  EXPECT_EQ(parse_int("-12"), -12);
  EXPECT_EQ(parse_double("2.5e-3"), 2.5e-3);
  for (const char* text : {"", "1 ", "1x", "99999999999999999999"}) {
    EXPECT_FALSE(parse_int(text).has_value()) << text;
  }
  for (const char* text : {"", "inf", "nan", "1,5", "0x10"}) {
    EXPECT_FALSE(parse_double(text).has_value()) << text;
  }
}

TEST(RoundedDown, AProductThatFallsShortOfAWholeNumberIsThatNumber) {
  EXPECT_EQ(rounded_down(0.29 * 100), 29);  // 28.999999999999996
  EXPECT_EQ(rounded_down(28.9999), 28);
  EXPECT_EQ(rounded_down(0), 0);
}

TEST(Quantile, LiesBetweenNeighbours) {
  const std::vector<double> sorted{1, 2, 4, 8};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 0.5), 3);
  EXPECT_EQ(quantile(sorted, 0.75), 5);
  EXPECT_EQ(quantile(sorted, 1), 8);
  EXPECT_EQ(quantile({7}, 0.99), 7);
}

}  // namespace
}  // namespace kvloupe
