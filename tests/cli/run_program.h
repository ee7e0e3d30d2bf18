// Runs the built program as a user would and keeps what it printed.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace kvloupe::test {

struct ProgramResult {
  int exit_code = -1;  // 128 + signal number when a signal ended it
  std::string standard_output;
  std::string standard_error;
  // The last line of standard error, without its newline.
  std::string last_error_line() const;
};

// `environment`: NAME=value entries added to the inherited ones.
ProgramResult run_program(const std::vector<std::string>& arguments,
                          const std::string& standard_input = {},
                          const std::vector<std::string>& environment = {});

// What it printed, as JSON. Throws std::runtime_error where it failed.
nlohmann::json answer_of(const std::vector<std::string>& arguments);

// The same by way of bash: in `script`, "$kvloupe" is the program. For redirections, pipes and limits.
ProgramResult run_script(const std::string& script);

}  // namespace kvloupe::test
