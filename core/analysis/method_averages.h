// What a method is worth on a trace, averaged as `kvloupe compare` does: over its own cells, or over
// those that it shares with other methods.
#pragma once

#include "core/device/default_device.h"
#include "core/replay/compare.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::analysis {

// The numbers of all cells that were measured.
class MethodAverages {
 public:
  explicit MethodAverages(replay::MethodCells measured) : measured_(std::move(measured)) {}

  // Means of scope "all" over the cells of `among` (null: all) in which the method is not dense.
  replay::CompareRow means(trace::Phase phase, const replay::CellSet* among = nullptr) const {
    return measured_.averager.overall(measured_.result, phase, {.among = among});
  }
  // Where the method is not dense; empty: it chooses nowhere.
  std::optional<replay::CellSet> cells(trace::Phase phase) const {
    return measured_.averager.cells(phase);
  }
  std::int64_t all_cells(trace::Phase phase) const { return measured_.averager.all_cells(phase); }
  const std::vector<int>& layers() const { return measured_.result.layers; }
  bool leaks() const { return measured_.result.basis && measured_.result.basis->leakage; }
  std::uint64_t bytes() const { return sizeof(*this) + measured_.averager.bytes(); }

 private:
  replay::MethodCells measured_;
};

// On `layers`, in the cells that count. Throws what replay() throws.
MethodAverages average(const session::TraceSession& session, const replay::MethodChoice& method,
                       const std::vector<int>& layers, const replay::Counted& counted,
                       const WorkContext& context, const std::string& device = device::kDefault);

}  // namespace kvloupe::analysis
