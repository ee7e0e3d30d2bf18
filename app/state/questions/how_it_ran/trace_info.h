// The view trace_info: what the open trace holds.
#pragma once

#include "app/state/answers.h"
#include "app/state/place.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct TraceInfoQuestion {
  static constexpr const char* kName = "trace info";
  static constexpr Lane kLane = Lane::TraceIo;
  Place place;  // trace
  struct Fact {
    std::string name, value;
    std::optional<trace::TokenSpan> span{};  // that it tells of
    std::optional<int> run{};                // the same, its id
  };
  using Answer = std::vector<Fact>;

  std::string key() const { return place.trace_key(); }
  std::string title() const { return "Listing what the trace holds"; }
  std::string obstacle() const { return place.empty() ? "Open a trace" : ""; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

}  // namespace kvloupe::state
