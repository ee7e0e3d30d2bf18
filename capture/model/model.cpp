// Loads llama-architecture GGUF files: configuration and tokenizer from the metadata, weights
// dequantised once into the fused matrices that the decoder multiplies by.
#include "capture/model/model.h"

#include "capture/model/model_file.h"

#include "capture/model/dequantise.h"
#include "capture/model/gguf.h"
#include "capture/model/linear.h"
#include "capture/model/model_config.h"
#include "capture/text/gguf_tokenizer.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/sha256.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <future>
#include <set>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBundledTitle = "SmolLM2-135M-Instruct";
constexpr std::string_view kBundledFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

// Hands out the file's tensors by name and shape and dequantises them all at once.
class WeightReader {
 public:
  explicit WeightReader(const GgufFile& file) : file_(&file) {}

  bool has(std::string_view name) const { return file_->find_tensor(name) != nullptr; }

  // Plans to fill `out` (contiguous, of the tensor's size) with the named tensor.
  void read_into(const std::string& name, std::vector<std::int64_t> shape, const at::Tensor& out) {
    const GgufTensor& tensor = check(name, shape);
    KVLOUPE_CHECK(out.is_contiguous() && out.numel() == tensor.num_elements);
    for (std::int64_t begin = 0; begin < tensor.num_elements; begin += kPiece) {
      const auto count = std::min(kPiece, tensor.num_elements - begin);
      pieces_.push_back(
          {&tensor, begin, {out.data_ptr<float>() + begin, static_cast<std::size_t>(count)}});
    }
  }

  at::Tensor read(const std::string& name, const std::vector<std::int64_t>& shape) {
    check(name, shape);  // before anything of this shape is allocated
    at::Tensor out = at::empty(shape, at::kFloat);
    read_into(name, shape, out);
    return out;
  }

  // Several tensors with the same row length, one below the other.
  struct Part {
    std::string name;
    std::int64_t rows = 0;
  };
  at::Tensor read_stacked(const std::vector<Part>& parts, std::int64_t columns) {
    std::int64_t rows = 0;
    for (const Part& part : parts) {
      check(part.name, {part.rows, columns});
      rows += part.rows;
    }
    at::Tensor out = at::empty({rows, columns}, at::kFloat);
    std::int64_t begin = 0;
    for (const Part& part : parts) {
      read_into(part.name, {part.rows, columns}, out.narrow(0, begin, part.rows));
      begin += part.rows;
    }
    return out;
  }

  void refuse_unread() const {
    for (const GgufTensor& tensor : file_->tensors()) {
      if (names_.count(tensor.name) == 0) {
        throw unsupported(*file_, fmt::format("its tensor {} has no place in the architecture "
                                              "implemented",
                                              tensor.name));
      }
    }
  }

  void run() const {
    at::parallel_for(0, static_cast<std::int64_t>(pieces_.size()), 1,
                     [&](std::int64_t begin, std::int64_t end) {
                       for (std::int64_t i = begin; i < end; ++i) {
                         const Piece& piece = pieces_[i];
                         dequantise(piece.tensor->type, piece.tensor->data, piece.begin, piece.out);
                       }
                     });
  }

 private:
  // A multiple of every block size; small enough to share the work evenly among threads.
  static constexpr std::int64_t kPiece = 1 << 18;
  struct Piece {
    const GgufTensor* tensor;
    std::int64_t begin;
    std::span<float> out;
  };

  const GgufTensor& check(const std::string& name, const std::vector<std::int64_t>& shape) {
    const GgufTensor* tensor = file_->find_tensor(name);
    if (tensor == nullptr) throw damaged(*file_, fmt::format("the tensor {} is missing", name));
    if (tensor->shape != shape) {
      throw damaged(*file_, fmt::format("the tensor {} has the shape [{}], not [{}]", name,
                                        fmt::join(tensor->shape, ", "), fmt::join(shape, ", ")));
    }
    names_.insert(name);
    return *tensor;
  }

  const GgufFile* file_;
  std::set<std::string, std::less<>> names_;
  std::vector<Piece> pieces_;
};

LayerWeights plan_layer(WeightReader& reader, const LoadedModel& model, int layer) {
  const std::int64_t hidden = model.info.hidden_size;
  const std::int64_t q_size = std::int64_t{model.info.num_q_heads} * model.info.head_dim;
  const std::int64_t kv_size = std::int64_t{model.info.num_kv_heads} * model.info.head_dim;
  const auto name = [&](std::string_view part) {
    return fmt::format("blk.{}.{}.weight", layer, part);
  };
  LayerWeights weights;
  weights.attn_norm = reader.read(name("attn_norm"), {hidden});
  weights.qkv_proj = reader.read_stacked(
      {{name("attn_q"), q_size}, {name("attn_k"), kv_size}, {name("attn_v"), kv_size}}, hidden);
  weights.o_proj = reader.read(name("attn_output"), {hidden, q_size});
  weights.ffn_norm = reader.read(name("ffn_norm"), {hidden});
  weights.gate_up_proj = reader.read_stacked(
      {{name("ffn_gate"), model.ffn_size}, {name("ffn_up"), model.ffn_size}}, hidden);
  weights.down_proj = reader.read(name("ffn_down"), {hidden, model.ffn_size});
  return weights;
}

void check_memory(const GgufFile& file) {
  double needed = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    needed += static_cast<double>(tensor.num_elements) * sizeof(float);
  }
  const double present =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed > present) {
    throw input_error(fmt::format("cannot load the model file {}", file.path().string()),
                      fmt::format("its weights take {:.1f} GB in fp32, this machine has {:.1f} GB",
                                  needed / 1e9, present / 1e9),
                      "choose a smaller model");
  }
}

void read_weights(const GgufFile& file, LoadedModel& model) {
  check_memory(file);
  WeightReader reader(file);
  const std::int64_t hidden = model.info.hidden_size;
  model.token_embedding = reader.read("token_embd.weight", {model.vocab_size, hidden});
  model.output_norm = reader.read("output_norm.weight", {hidden});
  model.output = reader.has("output.weight")
                     ? reader.read("output.weight", {model.vocab_size, hidden})
                     : model.token_embedding;
  for (int layer = 0; layer < model.info.num_layers; ++layer) {
    model.layers.push_back(plan_layer(reader, model, layer));
  }
  reader.refuse_unread();
  reader.run();
  for (LayerWeights& layer : model.layers) {
    for (at::Tensor* weight :
         {&layer.qkv_proj, &layer.o_proj, &layer.gate_up_proj, &layer.down_proj}) {
      *weight = pack_projection(*weight);
    }
  }
}

fs::path bundled_file() { return paths::data_dir() / "models" / kBundledFile; }

fs::path bundled_path() {
  fs::path path = bundled_file();
  if (!fs::exists(path)) {
    throw input_error("cannot load the model smollm2",
                      fmt::format("the set-up has not put {} in place", path.string()),
                      "run ./kvloupe.sh once, which fetches it");
  }
  return path;
}

fs::path model_path(const std::string& name_or_path) {
  if (name_or_path == kBundledModel) return bundled_path();
  const fs::path path = name_or_path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw input_error(fmt::format("cannot load the model folder {}", name_or_path),
                      "Hugging Face folders are not implemented",
                      "give smollm2 or a .gguf file of the same model");
  }
  if (!fs::exists(path, ignored)) {
    throw input_error(fmt::format("cannot load the model {}", name_or_path),
                      "there is no such file", "give smollm2 or the path of a .gguf file");
  }
  return path;
}

std::string hash_of(const GgufFile& file) {
  return Sha256().update(file.bytes().data(), file.bytes().size()).hex_digest();
}

}  // namespace

fs::path file_of_model(const std::string& name_or_path) {
  return name_or_path == kBundledModel ? bundled_file() : fs::path(name_or_path);
}

std::string bundled_model_hash() {
  const fs::path path = bundled_file();
  std::error_code ignored;
  return fs::exists(path, ignored) ? hash_of(GgufFile(path)) : std::string();
}

std::shared_ptr<const LoadedModel> load_model(const std::string& name_or_path) {
  const c10::InferenceMode no_gradients;
  const GgufFile file(model_path(name_or_path));
  auto hash = std::async(std::launch::async, [&file] { return hash_of(file); });
  auto model = std::make_shared<LoadedModel>();
  static_cast<ModelConfig&>(*model) = read_config(file);
  if (name_or_path == kBundledModel) model->info.name = kBundledTitle;
  model->tokenizer = read_tokenizer(file);
  model->vocab_size = model->tokenizer.vocab_size();
  read_weights(file, *model);
  model->info.layer_types.assign(model->info.num_layers, trace::LayerType::Full);
  model->info.file_hash = hash.get();
  file.require_whole();
  return model;
}

}  // namespace kvloupe::capture
