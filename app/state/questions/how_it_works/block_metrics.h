// The table of block_tables: the masks of the heads that are shown, executed as they are and after
// each union (core/replay/block_metrics.h): what is read, what it is worth, how long attention takes.
#pragma once

#include "app/state/questions/how_it_ran/run.h"
#include "core/measure/block_execution_times.h"

#include <string>

namespace kvloupe::state {

// Query heads of one KV head whose masks a view sets side by side.
struct HeadRange {
  int first = 0, count = 0;
};
// Those of the row that speaks for the place's query head; of a row of one head, which unites
// nothing over heads, all that share its KV head.
HeadRange united_heads(const Place& place, const replay::ReplayResult& run);

// Of a cell that has masks.
struct BlockMetricsQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "block ways";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = replay::MetricsByExecution;

  std::string title() const;
  Answer work(Steps& steps) const;
};

// Begun by hand (Answers::start), as every measurement.
struct BlockTimesQuestion : OfMethod<At::Cell> {
  static constexpr const char* kName = "block times";
  static constexpr Lane kLane = Lane::Timing;
  static constexpr Pace kPace = Pace::OnRequest;
  using Answer = measure::BlockExecutionTimes;

  std::string title() const;
  Answer work(Steps& steps) const;
};

}  // namespace kvloupe::state
