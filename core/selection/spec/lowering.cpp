#include "core/selection/spec/lowering.h"

namespace kvloupe::selection {

std::optional<trace::Lowering> lowering_of(const MethodSpec& spec) {
  if (spec.traits().granularity != trace::Granularity::Block) return std::nullopt;
  if (spec.native_lowering()) return trace::Lowering::Native;
  return spec.has_budget() ? trace::Lowering::Budget : trace::Lowering::Union;
}

}  // namespace kvloupe::selection
