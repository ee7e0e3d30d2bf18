// What A and B keep of the keys of one row: who kept which, chunk by chunk, and which of them true
// attention would have kept.
#pragma once

#include "app/state/questions/kept/kv_map.h"
#include "core/analysis/kv_difference.h"

#include <cstdint>
#include <vector>

namespace kvloupe::state {

struct KvDifferenceQuestion {
  static constexpr const char* kName = "kv difference";
  Place place;  // trace, layer, head
  MethodChoice a, b;
  struct Answer {
    analysis::KvDifference map;
    analysis::KvDifferenceGrid grid;  // of very large maps only, else empty
    MethodFacts facts_a, facts_b;

    const MethodFacts& facts(Slot slot) const { return slot == Slot::A ? facts_a : facts_b; }
  };

  std::string key() const { return place.head_key() + "|" + a.key() + "|" + b.key(); }
  Lane lane() const;
  std::string title() const { return "Comparing what A and B keep"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The keys of largest true mass, of each chunk as many as the smaller of the two sets holds: both
// methods had room for them. None where both keep everything.
struct TrueKeysQuestion {
  static constexpr const char* kName = "true keys";
  static constexpr Pace kPace = Pace::Patient;
  Place place;
  MethodChoice a, b;
  using Answer = std::vector<std::vector<std::int32_t>>;  // [num_chunks], positions in order

  std::string key() const { return KvDifferenceQuestion{place, a, b}.key(); }
  std::string title() const { return "Ranking the keys of every chunk by true attention mass"; }
  std::string obstacle() const { return KvDifferenceQuestion{place, a, b}.obstacle(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Of the place and the methods A and B.
class Workspace;
KvDifferenceQuestion kv_difference_question(const Workspace& workspace);

}  // namespace kvloupe::state
