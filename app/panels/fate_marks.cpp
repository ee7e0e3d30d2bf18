#include "app/panels/fate_marks.h"

namespace kvloupe::panels {

using widgets::Meaning;

ImU32 color_of(const widgets::Palette& palette, state::KeyFate fate) {
  return fate.lost ? palette.miss : widgets::color_of(palette, fate.state);
}

Meaning meaning_of(state::KeyFate fate) {
  using analysis::KeyState;
  if (fate.lost) return Meaning::Lost;
  switch (fate.state) {
    case KeyState::Kept: return Meaning::Kept;
    case KeyState::Sink:
    case KeyState::Recent: return Meaning::ByRule;
    case KeyState::Dense: return Meaning::AllKept;
    case KeyState::Evicted: return Meaning::Evicted;
    case KeyState::Current: return Meaning::Current;
    case KeyState::Dropped:
    case KeyState::Hidden:
    case KeyState::Future: return Meaning::NotKept;
  }
  return Meaning::NotKept;
}

int prominence_of(state::KeyFate fate) {
  return fate.lost ? analysis::kNumKeyStates : widgets::prominence_of(fate.state);
}

}  // namespace kvloupe::panels
