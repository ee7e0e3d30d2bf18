// What a trace says of the model's rotary embedding, without Torch.
#pragma once

#include "core/selection/spec/method_spec.h"

#include <optional>
#include <string>

namespace kvloupe::selection {

// Whether queries and keys of the layer carry positions at all.
bool has_rotary(const ModelShape& shape, int layer);

// Why queries and keys from before the embedding cannot be had, as parts of a sentence; nothing where
// they can.
struct RotaryUnknown {
  std::string why, what_to_do;
  bool operator==(const RotaryUnknown&) const = default;
};
std::optional<RotaryUnknown> rotary_unknown(const ModelShape& shape);

}  // namespace kvloupe::selection
