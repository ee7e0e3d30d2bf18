// Run by skipping_test.sh alone.
#include <gtest/gtest.h>

TEST(Skipping, Passes) {}
TEST(Skipping, LacksItsOracle) { GTEST_SKIP() << "no oracle on this machine"; }
TEST(Skipping, DISABLED_Fails) { FAIL(); }
