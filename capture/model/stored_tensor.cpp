#include "capture/model/stored_tensor.h"

namespace kvloupe::capture {

ElementBlock block_of(ElementType type) {
  switch (type) {
    case ElementType::Bytes:
      return {1, 1};
    case ElementType::F32:
      return {1, 4};
    case ElementType::F16:
    case ElementType::BF16:
      return {1, 2};
    case ElementType::Q4_0:
      return {32, 2 + 16};
    case ElementType::Q4_1:
      return {32, 2 + 2 + 16};
    case ElementType::Q8_0:
      return {32, 2 + 32};
  }
  return {};
}

std::string_view name_of(ElementType type) {
  switch (type) {
    case ElementType::Bytes:
      return "U8";
    case ElementType::F32:
      return "F32";
    case ElementType::F16:
      return "F16";
    case ElementType::BF16:
      return "BF16";
    case ElementType::Q4_0:
      return "Q4_0";
    case ElementType::Q4_1:
      return "Q4_1";
    case ElementType::Q8_0:
      return "Q8_0";
  }
  return "?";
}

}  // namespace kvloupe::capture
