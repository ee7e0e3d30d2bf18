// The results of an evaluation, which `python -m kvloupe eval` writes: FORMAT.md, section 13. Read whole, for they hold
// texts and scores alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::trace {

// A question that one method was asked.
struct ResultSample {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  std::string task, method;
  std::string id;      // no two alike
  std::string sample;  // of what was asked: the same for all methods
  std::string answer, expected;
  std::string refused;                               // why it was not answered; empty: it was
  std::string trace;                                 // relative to the results; empty: none
  std::int64_t length = -1, seed = -1, budget = -1;  // -1: unknown
  std::int64_t doc = -1, prompt_tokens = -1;
  bool higher_is_better = true;
  double depth = kUnknown;  // of the needle, in percent of the text
  double score = kUnknown, seconds = kUnknown;
  double kept = kUnknown;  // keys that a row kept
};

struct Results {
  std::string path;
  std::string model;       // its name; empty: unknown
  bool complete = false;   // all samples of the run are here
  std::int64_t total = 0;  // that the run has
  std::vector<ResultSample> samples;
};

// Whether the file says that it is one. False for what cannot be read.
bool is_results_file(const std::filesystem::path& path);
// Throws Error{Input} for a file that is missing, damaged or of another version.
Results read_results(const std::filesystem::path& path);

}  // namespace kvloupe::trace
