// The view latency: the parts of a method against dense attention, timed on this machine for one
// cell.
#pragma once

#include "app/state/question_at.h"
#include "core/measure/latency.h"

#include <string>
#include <vector>

namespace kvloupe::state {

// Begun and stopped by hand (Answers::start, stop); a report of the rounds so far is there while it
// runs, and stays when it is stopped.
struct LatencyQuestion : OfMethodAnew<At::Layer | At::Chunk> {
  static constexpr const char* kName = "latency";
  static constexpr Lane kLane = Lane::Timing;
  static constexpr Pace kPace = Pace::OnRequest;
  using Answer = measure::LatencyReport;

  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
};

// What was timed, by name: the three parts of the method, all of it, and dense attention.
struct LatencyPart {
  std::string name;
  measure::LatencyStats stats;
};
std::vector<LatencyPart> parts_of(const measure::LatencyReport& report);
// How fast the method is against dense attention, or why the times do not show it.
std::string verdict_of(const measure::LatencyReport& report);

}  // namespace kvloupe::state
