// What the tests of the command line share: the program's answers, JSON, and gmock's words for texts.
#pragma once

#include "tests/cli/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kvloupe {

using nlohmann::json;
using test::answer_of;
using test::ProgramResult;
using test::run_program;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

}  // namespace kvloupe
