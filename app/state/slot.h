// The two methods that a window compares.
#pragma once

#include <array>

namespace kvloupe::state {

enum class Slot { A = 0, B = 1 };
inline constexpr std::array<Slot, 2> kSlots{Slot::A, Slot::B};
inline constexpr char letter_of(Slot slot) { return slot == Slot::A ? 'A' : 'B'; }
inline constexpr Slot other_than(Slot slot) { return slot == Slot::A ? Slot::B : Slot::A; }

}  // namespace kvloupe::state
