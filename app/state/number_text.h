// How a number of a method is written wherever the window shows it.
#pragma once

#include "core/replay/numbers.h"

#include <string>

namespace kvloupe::state {

// "0.9124", "256", "187.5", "1.2 MiB": by the number's unit.
std::string number_text(const replay::NumberInfo& info, double value);

}  // namespace kvloupe::state
