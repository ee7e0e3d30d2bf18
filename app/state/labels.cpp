#include "app/state/labels.h"

namespace kvloupe::state {

const char* label_of(replay::BlockState state) {
  using replay::BlockState;
  switch (state) {
    case BlockState::Future:
      return "in the future";
    case BlockState::Dropped:
      return "not kept";
    case BlockState::Kept:
      return "kept by score";
    case BlockState::Forced:
      return "kept by rule";
    case BlockState::Straddling:
      return "straddles the chunk's begin";
    case BlockState::Current:
      return "of the chunk";
  }
  return "";
}

const char* label_of(analysis::KeyKind kind) {
  using analysis::KeyKind;
  switch (kind) {
    case KeyKind::Other:
      return "other";
    case KeyKind::Global:
      return "global: high by mean";
    case KeyKind::QuerySpecific:
      return "query-specific: high by maximum only";
    case KeyKind::Broken:
      return "not a number";
  }
  return "";
}

const char* label_of(analysis::KeyState state) {
  using analysis::KeyState;
  switch (state) {
    case KeyState::Future:
      return "not yet seen";
    case KeyState::Dropped:
      return "not selected";
    case KeyState::Evicted:
      return "evicted";
    case KeyState::Kept:
      return "kept";
    case KeyState::Sink:
      return "sink";
    case KeyState::Recent:
      return "recent";
    case KeyState::Current:
      return "current chunk";
    case KeyState::Dense:
      return "all kept (dense)";
  }
  return "";
}

const char* label_of(analysis::KeyVerdict verdict) {
  using analysis::KeyVerdict;
  switch (verdict) {
    case KeyVerdict::Hit:
      return "hit";
    case KeyVerdict::Miss:
      return "miss";
    case KeyVerdict::Waste:
      return "waste";
    case KeyVerdict::Neither:
      return "neither";
  }
  return "";
}

}  // namespace kvloupe::state
