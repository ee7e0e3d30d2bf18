#include "capture/model/stored_tensor.h"

#include <ggml.h>

namespace kvloupe::capture {
namespace {

const ggml_type_traits* traits_of(ElementType type) {
  const auto number = static_cast<std::uint32_t>(type);
  return number < GGML_TYPE_COUNT ? ggml_get_type_traits(static_cast<ggml_type>(number)) : nullptr;
}

}  // namespace

std::optional<ElementType> known_type(std::uint32_t number) {
  const auto type = static_cast<ElementType>(number);
  const ggml_type_traits* traits = traits_of(type);
  const bool known = type == ElementType::F32 ||
                     (traits != nullptr && traits->to_float != nullptr && traits->blck_size > 0);
  return known ? std::optional(type) : std::nullopt;
}

ElementBlock block_of(ElementType type) {
  if (type == ElementType::Bytes) return {1, 1};
  const ggml_type_traits* traits = traits_of(type);
  return {traits->blck_size, static_cast<std::int64_t>(traits->type_size)};
}

std::string_view name_of(ElementType type) {
  return type == ElementType::Bytes ? "U8" : traits_of(type)->type_name;
}

}  // namespace kvloupe::capture
