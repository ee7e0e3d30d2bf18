// What the tests of the command line share: the program's answers, and JSON.
#pragma once

#include "tests/base/matchers.h"
#include "tests/cli/run_program.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace kvloupe {

using nlohmann::json;
using test::answer_of;
using test::ProgramResult;
using test::run_program;
using Words = std::vector<std::string>;

// It failed with nothing printed and one sentence of three parts, in which `why` stands.
inline void expect_refused(const ProgramResult& result, int exit_code,
                           const std::string& why = {}) {
  EXPECT_EQ(result.exit_code, exit_code) << result.standard_error;
  EXPECT_EQ(result.standard_output, "");
  const std::string line = result.last_error_line();
  EXPECT_EQ(line.rfind("error: ", 0), 0U) << line;
  EXPECT_GE(std::count(line.begin(), line.end(), ';'), 2) << line;
  EXPECT_THAT(line, HasSubstr(why));
}

}  // namespace kvloupe
