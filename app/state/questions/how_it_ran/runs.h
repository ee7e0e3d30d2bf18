// What lists of methods say of a trace: what each run is worth, and what the trace cannot serve.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/questions/how_it_ran/run.h"
#include "core/replay/compare.h"

#include <map>
#include <string>

namespace kvloupe::state {

// The averages of a method in one layer over chunks of one phase and all rows, as `compare` has them.
struct RunSummaryQuestion : OfMethod<At::Layer> {
  static constexpr const char* kName = "run summary";
  static constexpr Pace kPace = Pace::Patient;
  NumberChunks chunks = {};
  using Answer = replay::CompareRow;

  std::string key() const { return OfMethod::key(chunks); }
  std::string title() const;
  Answer work(Steps& steps) const;
};

// Why methods of the catalogue cannot be shown on a trace, by their id; those that can are absent.
struct UnavailableQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "unavailable";
  using Answer = std::map<std::string, std::string>;

  std::string title() const { return "Asking which methods the trace can serve"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer); }
};

}  // namespace kvloupe::state
