#include "tests/selection/method_files.h"

#include "core/base/error.h"
#include "core/base/safetensors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

namespace kvloupe::selection::testing {
namespace {

namespace fs = std::filesystem;

// Removed when the tests end.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / fmt::format("kvloupe_method_files_{}", ::getpid())) {
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code code;
    fs::remove_all(path_, code);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

const fs::path& folder() {
  static const Folder own;
  return own.path();
}

NamedTensor equal_heads(std::int64_t heads, std::int64_t rows, std::int64_t columns,
                        unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.5F);
  std::vector<float> one(static_cast<std::size_t>(rows * columns));
  for (float& value : one) value = normal(random);
  NamedTensor tensor{{heads, rows, columns}, {}};
  for (std::int64_t head = 0; head < heads; ++head)
    tensor.values.insert(tensor.values.end(), one.begin(), one.end());
  return tensor;
}

std::string gate_file(const Sequence& sequence) {
  const SequenceShape& shape = sequence.shape;
  const fs::path path = folder() / fmt::format("gate_{}_{}_{}_{}", shape.num_q_heads,
                                               shape.num_kv_heads, shape.head_dim, shape.layer);
  if (fs::exists(path)) return path.string();
  constexpr std::int64_t kHidden = 12;
  const std::string layer =
      fmt::format("model.layers.{}.self_attn.attn_gate.mask_linear_", shape.layer);
  write_safetensors(
      path,
      {{layer + "q.weight", equal_heads(shape.num_q_heads, shape.head_dim, kHidden, 1)},
       {layer + "k.weight", equal_heads(shape.num_kv_heads, 3 * shape.head_dim, kHidden, 2)}},
      {});
  return path.string();
}

std::string pattern_file(const Sequence& sequence) {
  const fs::path path = folder() / fmt::format("patterns_{}", sequence.shape.num_q_heads);
  std::ofstream stream(path);
  stream << "[";
  for (int layer = 0; layer < sequence.model().num_layers; ++layer) {
    stream << (layer > 0 ? ", {" : "{");
    for (int head = 0; head < sequence.shape.num_q_heads; ++head)
      stream << (head > 0 ? ", " : "") << '"' << head << R"(": ["vertical_and_slash", 40, 110, 1])";
    stream << "}";
  }
  stream << "]";
  return path.string();
}

}  // namespace

std::string with_files(std::string spec, const Sequence& sequence) {
  const auto replace = [&](const std::string& name, const auto& make) {
    const std::size_t at = spec.find(name + "=FILE");
    if (at != std::string::npos) spec.replace(at + name.size() + 1, 4, make(sequence));
  };
  replace("gate", gate_file);
  replace("config", pattern_file);
  return spec;
}

}  // namespace kvloupe::selection::testing
