#include "app/state/questions/latency.h"

#include "app/state/questions/run.h"
#include "capture/run/calibrate.h"

#include <fmt/format.h>

namespace kvloupe::state {

// A recorded run and the same method selected anew do the same work.
std::string LatencyQuestion::key() const {
  return fmt::format("{}|c{}|{}", place.layer_key(), place.chunk, method.text);
}

std::string LatencyQuestion::title() const {
  return fmt::format("Timing {} in layer {}, chunk {}", method.id(), place.layer, place.chunk);
}

std::string LatencyQuestion::obstacle() const {
  const std::string obstacle = RunQuestion{place, method}.obstacle();
  if (!obstacle.empty() || method.known()) return obstacle;
  return fmt::format("This version does not know the method {}: it cannot be timed", method.id());
}

LatencyQuestion::Answer LatencyQuestion::work(Steps& steps) const {
  capture::ensure_basis(*method.spec, place.info().model, steps.context);
  return measure::measure_latency(*place.trace->session, *method.spec, place.layer, place.chunk,
                                  measure::LatencyOptions{}, steps.context,
                                  [&](const Answer& report) { steps.show(report); });
}

}  // namespace kvloupe::state
