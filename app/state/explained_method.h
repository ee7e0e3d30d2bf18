// The method that a view shows in place of the one chosen, for what explains methods beside it.
#pragma once

#include "app/state/method_choice.h"

#include <optional>
#include <utility>

namespace kvloupe::state {

class ExplainedMethod {
 public:
  // Once a frame, before the views.
  void begin_frame() { last_ = std::exchange(now_, std::nullopt); }
  void set(MethodChoice method) { now_ = std::move(method); }
  // In this frame, or in the one before where no view has said so yet.
  const std::optional<MethodChoice>& method() const { return now_ ? now_ : last_; }

 private:
  std::optional<MethodChoice> now_, last_;
};

}  // namespace kvloupe::state
