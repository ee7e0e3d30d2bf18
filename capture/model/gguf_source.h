#pragma once

#include "capture/model/gguf.h"
#include "capture/model/model_source.h"

namespace kvloupe::capture {

class GgufSource final : public ModelSource {
 public:
  explicit GgufSource(const std::filesystem::path& path) : file_(path) {}

  const GgufFile& file() const { return file_; }
  Format format() const override { return Format::Gguf; }
  const std::filesystem::path& path() const override { return file_.path(); }
  std::string name() const override;
  std::string architecture() const override;
  std::optional<std::int64_t> integer(const Key& key) const override;
  std::optional<double> real(const Key& key) const override;
  std::optional<std::string> text(const Key& key) const override;
  std::optional<std::vector<std::int64_t>> integers(const Key& key) const override;
  std::optional<std::vector<std::string>> texts(const Key& key) const override;
  std::string spelt(const Key& key) const override;
  const StoredTensor* find_tensor(std::string_view name) const override {
    return file_.find_tensor(name);
  }
  std::vector<const StoredTensor*> tensors() const override;
  std::string hash() const override;
  void require_whole() const override { file_.require_whole(); }
  void release_pages() const override { file_.release_pages(); }

 private:
  std::string full(const Key& key) const;

  GgufFile file_;
};

}  // namespace kvloupe::capture
