// A model on disk, whatever its format: what it says of itself by key, and its tensors by name. Checked
// as it is opened; nothing of it is believed before that.
#pragma once

#include "capture/model/stored_tensor.h"
#include "core/base/error.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::capture {

// What a fact is called in either format; "" where the format has none. GGUF keys without the
// architecture before them; of Hugging Face's config.json, "a.b" is b of the object a.
struct Key {
  std::string_view gguf, hugging_face;
};

class ModelSource {
 public:
  enum class Format { Gguf, HuggingFace };

  virtual ~ModelSource() = default;
  virtual Format format() const = 0;
  virtual const std::filesystem::path& path() const = 0;  // file or folder
  virtual std::string name() const = 0;                   // of the model
  // general.architecture, or model_type. Throws Error{Input} where there is none.
  virtual std::string architecture() const = 0;

  // nullopt where the key is absent or null; throws Error{Input} where it is of another type.
  virtual std::optional<std::int64_t> integer(const Key& key) const = 0;
  virtual std::optional<double> real(const Key& key) const = 0;
  virtual std::optional<std::string> text(const Key& key) const = 0;
  // Booleans are 0 and 1.
  virtual std::optional<std::vector<std::int64_t>> integers(const Key& key) const = 0;
  virtual std::optional<std::vector<std::string>> texts(const Key& key) const = 0;
  // As messages call it.
  virtual std::string spelt(const Key& key) const = 0;

  virtual const StoredTensor* find_tensor(std::string_view name) const = 0;
  virtual std::vector<const StoredTensor*> tensors() const = 0;
  // SHA-256 of the files of weights, one after the other in the order of their names.
  virtual std::string hash() const = 0;
  // Throws Error{Input} when a file became shorter meanwhile: what was read is not to be believed.
  virtual void require_whole() const = 0;
  // Of what was read, nothing need stay in memory.
  virtual void release_pages() const = 0;
};

// A GGUF file or a Hugging Face folder (config.json and safetensors). Throws Error{Input}.
std::unique_ptr<ModelSource> open_model(const std::filesystem::path& path);

// Sentences for what a model holds: nothing that the decoder knows; nothing that makes sense.
Error unsupported(const ModelSource& source, std::string why);
Error damaged(const ModelSource& source, std::string why);

}  // namespace kvloupe::capture
