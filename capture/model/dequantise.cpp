#include "capture/model/dequantise.h"

#include "core/base/error.h"

#include <ggml.h>

#include <cstring>

namespace kvloupe::capture {

void dequantise(ElementType type, std::span<const std::byte> data, std::int64_t begin,
                std::span<float> out) {
  KVLOUPE_CHECK(type != ElementType::Bytes);
  const ElementBlock block = block_of(type);
  const auto count = static_cast<std::int64_t>(out.size());
  KVLOUPE_CHECK(begin >= 0 && begin % block.elements == 0 && count % block.elements == 0);
  const auto data_blocks = static_cast<std::int64_t>(data.size()) / block.bytes;
  KVLOUPE_CHECK((begin + count) / block.elements <= data_blocks);
  const std::byte* in = data.data() + begin / block.elements * block.bytes;
  if (type == ElementType::F32)
    std::memcpy(out.data(), in, out.size_bytes());
  else
    ggml_get_type_traits(static_cast<ggml_type>(type))->to_float(in, out.data(), count);
}

}  // namespace kvloupe::capture
