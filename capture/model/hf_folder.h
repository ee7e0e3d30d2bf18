// Hugging Face folders as model sources: config.json, one or many safetensors files with an index.
#pragma once

#include "capture/model/model_source.h"
#include "core/base/mapped_file.h"

#include <nlohmann/json.hpp>

#include <map>

namespace kvloupe::capture {

class HfFolder final : public ModelSource {
 public:
  // Throws Error{Input}: a file that is missing, damaged, far too large or leads elsewhere.
  explicit HfFolder(const std::filesystem::path& folder);

  Format format() const override { return Format::HuggingFace; }
  const std::filesystem::path& path() const override { return folder_; }
  std::string name() const override;
  std::string architecture() const override;
  std::optional<std::int64_t> integer(const Key& key) const override;
  std::optional<double> real(const Key& key) const override;
  std::optional<std::string> text(const Key& key) const override;
  std::optional<std::vector<std::int64_t>> integers(const Key& key) const override;
  std::optional<std::vector<std::string>> texts(const Key& key) const override;
  std::string spelt(const Key& key) const override;
  const StoredTensor* find_tensor(std::string_view name) const override;
  std::vector<const StoredTensor*> tensors() const override;
  std::string hash() const override;
  void require_whole() const override;
  void release_pages() const override;

 private:
  void refuse_packed_weights() const;
  // Where each tensor is to be, by the index; empty without one.
  std::map<std::string, std::string> read_index() const;
  void open_weights();
  void add_file(const std::string& name, const std::map<std::string, std::string>& index);
  // Null where the key is missing, or its value is null.
  const nlohmann::json* find(const Key& key) const;
  // `read` gives nothing for what is no entry of a list of what is `wanted`.
  template <typename Entry>
  std::optional<std::vector<Entry>> list(
      const Key& key, const char* wanted,
      std::optional<Entry> (*read)(const nlohmann::json& entry)) const;
  [[noreturn]] void refuse_type(const Key& key, const char* wanted) const;

  std::filesystem::path folder_;
  nlohmann::json config_;  // of the text part, where there are several
  std::map<std::string, std::unique_ptr<MappedFile>> files_;  // by name
  std::map<std::string, StoredTensor, std::less<>> tensors_;  // by name, as of a text model
};

}  // namespace kvloupe::capture
