// The keys that a method lost in a whole trace, with the mass that they receive and the cause
// (docs/explain.md), and those that it dropped and that were wanted later. Free of Torch.
#pragma once

#include "core/device/default_device.h"
#include "core/replay/explain.h"
#include "core/replay/method_choice.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

inline constexpr std::size_t kListedKeys = 200;

struct LostKeysRequest {
  // A run of a known method is selected anew by its SPEC. Of an unknown one what it recorded is searched,
  // and no cause is known but evictions.
  MethodChoice method;
  std::vector<int> layers;  // empty: all captured
  std::vector<int> chunks;  // empty: all
  // For regrets keys are followed through all chunks up to the last of `chunks`, and those wanted in `chunks`
  // are listed. Else a key counts as dropped in the first of `chunks` that left it out,
  // unless the queries of the chunk before it are not stored: then nobody knows where it was dropped.
  bool regrets_from_all_chunks = false;
  std::optional<trace::NamedKeys> span;  // keys of this alone
  std::size_t count =
      kListedKeys;  // of each layer, row and cause, and of regrets of each layer and row
  std::string device = device::kDefault;
};

struct LostKey {
  int layer = 0, chunk = 0, row = 0;
  std::int64_t key = 0;
  double mass = 0;   // M
  double share = 0;  // of what the row's candidates receive in this cell
  std::optional<Stage> cause;
};

// A key that was left out from chunk `dropped` on (eviction: evicted after the chunk before) and that a
// later one of the chunks asked about wanted, before it came back if it did.
struct Regret {
  int layer = 0, row = 0;
  std::int64_t key = 0;
  int dropped = 0, wanted = 0;  // chunks; wanted is that one, which gave it most
  double mass_when_dropped = 0, mass_when_wanted = 0;  // M
  double lost_mass = 0;                                // M of all chunks followed that left it out
};

// M of candidates, over cells in which keys were chosen.
struct LostMass {
  double whole = 0, lost = 0;
  std::array<double, kNumStages> by_cause{};  // the rest has no cause that is known
  std::int64_t cells = 0;                     // (layer, row, chunk)

  double share_of(Stage cause) const {
    return lost > 0 ? by_cause[static_cast<std::size_t>(cause)] / lost : 0;
  }
  // Those that lost any mass, most first.
  std::vector<Stage> causes() const { return causes_of(by_cause); }
  void add(const LostMass& other);
};

struct LostKeys {
  MethodChoice method;
  std::optional<trace::NamedKeys> span;  // whose keys were looked for; none: all candidates
  selection::RowLayout layout;
  std::vector<int> layers;
  std::vector<LostMass> by_layer;
  LostMass all;
  // Most mass first.
  std::vector<LostKey> keys;
  std::vector<Regret> regrets;  // most mass_when_wanted first
};

// Throws as replay().
LostKeys lost_keys(const session::TraceSession& session, const LostKeysRequest& request,
                   const WorkContext& context);

inline void LostMass::add(const LostMass& other) {
  whole += other.whole;
  lost += other.lost;
  cells += other.cells;
  for (std::size_t i = 0; i < by_cause.size(); ++i) by_cause[i] += other.by_cause[i];
}

}  // namespace kvloupe::replay
