// What the window shows while nothing is open.
#pragma once

#include "app/widgets/palette.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

struct WelcomeActions {
  std::function<void()> ask, capture, tour;
  std::function<void(const std::string& path)> open;
};

void welcome_ui(const widgets::Palette& palette, const std::vector<std::string>& recent,
                const WelcomeActions& actions);

}  // namespace kvloupe::shell
