// The drop-down in which a method is found by a few letters of its name, its authors or its paper.
#pragma once

#include "app/widgets/palette.h"
#include "core/selection/spec/method_spec.h"

#include <functional>
#include <string>

namespace kvloupe::shell {

class MethodFinder {
 public:
  // As wide as there is room. `id` is the method now; `reason_of` says why one cannot be used here,
  // `unfit` says so in three words. Returns the method that was taken in this frame, or null.
  const selection::MethodInfo* draw(
      const widgets::Palette& palette, const std::string& id, const char* unfit,
      const std::function<std::string(const std::string&)>& reason_of);

 private:
  std::string query_;
};

}  // namespace kvloupe::shell
