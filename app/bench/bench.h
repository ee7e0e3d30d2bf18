// The rows of `kvloupe bench`, and the suite of the contract.
#pragma once

#include "core/analysis/latency.h"
#include "core/base/cancel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::bench {

enum class Goal { AtLeast, AtMost };
const char* name_of(Goal goal);  // "at_least", "at_most"

struct Row {
  std::string id = {};
  std::string meaning = {};  // one line for the table
  std::string unit = "x";
  double threshold = 0;
  Goal goal = Goal::AtLeast;
  std::optional<double> value = {};  // nothing: not measured, `reason` says why
  std::string reason = {};
  analysis::LatencyStats time = {};  // of the side that is ours
  std::vector<std::pair<std::string, std::string>> details =
      {};  // what else was seen: names and texts

  std::optional<bool> holds() const;
};

struct Machine {
  std::string device;  // "cpu, 2 threads (...)"
  std::string name;    // of the processor
  int threads = 0;
  double read_bandwidth = 0;  // bytes a second
  std::string version;        // of kvloupe
};

struct Report {
  Machine machine;
  std::vector<Row> rows;
};

// All rows that this version has. With `peers` the Python peer is installed
// when it is missing, and run.
Report run_contract_suite(bool peers, const WorkContext& context);

// The row capture_vs_peer (peer_bench.cpp).
Row capture_vs_peer(bool peers, const WorkContext& context);

}  // namespace kvloupe::bench
