// What the window shows while nothing is open.
#pragma once

#include "app/widgets/palette.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::shell {

void welcome_ui(const widgets::Palette& palette, const std::vector<std::string>& recent,
                const std::function<void()>& ask, const std::function<void()>& capture,
                const std::function<void(const std::string& path)>& open);

}  // namespace kvloupe::shell
