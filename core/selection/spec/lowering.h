// How a block method's masks, one for each query block, become what is attended to.
#pragma once

#include "core/selection/spec/method_spec.h"

#include <optional>

namespace kvloupe::selection {

// Nothing where the method has no blocks.
std::optional<trace::Lowering> lowering_of(const MethodSpec& spec);

}  // namespace kvloupe::selection
