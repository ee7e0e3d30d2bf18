// Any safetensors file, every tensor of it.
#include "core/base/error.h"
#include "core/base/safetensors.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  const SafetensorsFile file(file_of(input), "choose another file");
  for (const auto& [name, entry] : file.entries()) {
    if (entry.dtype != "F32" && entry.dtype != "F16" && entry.dtype != "BF16") continue;
    require(static_cast<std::int64_t>(file.read(name).size()) == entry.count(),
            "a tensor has as many values as its shape says");
  }
}
