// What became of one key in a chunk, in one row of one method.
#pragma once

#include "app/state/labels.h"
#include "core/analysis/kv_map.h"

namespace kvloupe::state {

struct KeyFate {
  analysis::KeyState state = analysis::KeyState::Future;
  bool lost = false;  // not kept, though attention weighs it among the most

  bool operator==(const KeyFate&) const = default;
};

inline const char* label_of(KeyFate fate) { return fate.lost ? "lost" : label_of(fate.state); }

}  // namespace kvloupe::state
