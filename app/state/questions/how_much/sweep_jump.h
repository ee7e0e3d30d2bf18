// Which key makes a curve of the view budget_sweep jump: the one that the larger of two budgets keeps first.
#pragma once

#include "app/state/questions/how_much/budget_sweep.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kvloupe::state {

// The two budgets beside each other in a curve between which the mass recall rises most.
struct SweepJump {
  const analysis::SweepPoint* below = nullptr;
  const analysis::SweepPoint* above = nullptr;

  double gain() const;  // of mass recall
};
// Nothing where no step is a jump.
std::optional<SweepJump> largest_jump(const SweepCurve& curve);

// In the row of the place, of which it tells only where that row jumps as the curve does.
struct SweepJumpQuestion : OfPlace<At::Cell> {
  static constexpr const char* kName = "sweep jump";
  std::string below, above;  // SPECs
  double gain = 0;           // of the curve
  struct Answer {
    std::int32_t key =
        -1;  // that `above` keeps and `below` does not, with the most mass; -1: none makes the jump
    double share = 0;  // of the past's mass that it has
  };

  std::string key() const { return OfPlace::key(below, above); }
  std::string title() const { return "Looking for the key that makes a curve jump"; }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return sizeof(answer); }
};

// Of a sweep of one head in one chunk; nothing of another, or where the curve has no jump.
std::optional<SweepJumpQuestion> sweep_jump_question(const BudgetSweepQuestion& sweep,
                                                     const SweepCurve& curve);
// "snapkv jumps between 32 and 48 keys: it comes to keep key 0 (“<|im_start|>”), which has 77.9 % of the mass."
std::string words_of(const SweepJumpQuestion& question, const SweepJumpQuestion::Answer& answer,
                     const SweepCurve& curve);

}  // namespace kvloupe::state
