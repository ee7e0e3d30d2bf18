// The files that a method SPEC names.
#pragma once

#include "core/selection/spec/method_spec.h"

#include <filesystem>
#include <vector>

namespace kvloupe::selection {

std::vector<std::filesystem::path> files_of(const MethodSpec& spec);

}  // namespace kvloupe::selection
