// GGUF files as model sources: one file, or the parts that llama.cpp splits a model into.
#pragma once

#include "capture/model/gguf.h"
#include "capture/model/model_source.h"

#include <memory>

namespace kvloupe::capture {

class GgufSource final : public ModelSource {
 public:
  // `path`: the first part, where there are several. Throws Error{Input}, also where one is not beside it.
  explicit GgufSource(const std::filesystem::path& path);

  const GgufFile& file() const { return file_; }  // the only one, or the first: with all metadata
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
  const StoredTensor* find_tensor(std::string_view name) const override;
  std::vector<const StoredTensor*> tensors() const override;
  std::string hash() const override;
  void require_whole() const override;
  void release_pages() const override;

 private:
  void open_other_parts();
  void add_part(const std::filesystem::path& file, int number, std::int64_t count);
  std::string full(const Key& key) const;

  GgufFile file_;
  std::vector<std::unique_ptr<GgufFile>> more_;  // the parts after it
};

}  // namespace kvloupe::capture
