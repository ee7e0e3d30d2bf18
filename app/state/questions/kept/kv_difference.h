// What A and B keep of the keys of one row: who kept which, chunk by chunk, and which of them true
// attention would have kept.
#pragma once

#include "app/state/questions/kept/kv_map.h"
#include "core/analysis/kv_difference.h"

#include <cstdint>
#include <vector>

namespace kvloupe::state {

struct KvDifferenceQuestion : OfTwoMethods<At::Head> {
  static constexpr const char* kName = "kv difference";
  struct Answer {
    analysis::KvDifference map;
    analysis::KvDifferenceGrid grid;  // of very large maps only, else empty
    MethodFacts facts_a, facts_b;

    const MethodFacts& facts(Slot slot) const { return slot == Slot::A ? facts_a : facts_b; }
  };

  Lane lane() const;
  std::string title() const { return "Comparing what A and B keep"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return bytes_in(answer.map.cells, answer.map.counts, answer.grid.counts);
  }
};

// The keys of largest true mass, of each chunk as many as the smaller of the two sets holds: both
// methods had room for them. None where both keep everything.
struct TrueKeysQuestion : OfTwoMethods<At::Head> {
  static constexpr const char* kName = "true keys";
  static constexpr Pace kPace = Pace::Patient;
  using Answer = std::vector<std::vector<std::int32_t>>;  // [num_chunks], positions in order

  std::string title() const { return "Ranking the keys of every chunk by true attention mass"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return bytes_in(answer); }
};

// Of the place and the methods A and B.
class Workspace;
KvDifferenceQuestion kv_difference_question(const Workspace& workspace);

}  // namespace kvloupe::state
