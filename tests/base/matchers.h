// GoogleTest, with gmock's words for what a test expects under their own names.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvloupe {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

}  // namespace kvloupe
