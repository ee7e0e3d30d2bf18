// GGUF files as model sources.
#include "capture/model/gguf_source.h"

#include "core/base/sha256.h"

#include <fmt/format.h>

namespace kvloupe::capture {

std::string GgufSource::architecture() const {
  const auto architecture = file_.text("general.architecture");
  if (!architecture) throw damaged(*this, "the metadata key general.architecture is missing");
  return *architecture;
}

std::string GgufSource::name() const {
  return file_.text("general.name").value_or(file_.path().stem().string());
}

std::string GgufSource::full(const Key& key) const {
  return key.gguf.empty() ? std::string() : fmt::format("{}.{}", architecture(), key.gguf);
}

std::string GgufSource::spelt(const Key& key) const {
  return fmt::format("the metadata key {}", key.gguf.empty() ? key.hugging_face : full(key));
}

std::optional<std::int64_t> GgufSource::integer(const Key& key) const {
  return file_.integer(full(key));
}
std::optional<double> GgufSource::real(const Key& key) const { return file_.real(full(key)); }
std::optional<std::string> GgufSource::text(const Key& key) const { return file_.text(full(key)); }
std::optional<std::vector<std::int64_t>> GgufSource::integers(const Key& key) const {
  return file_.integers(full(key));
}
std::optional<std::vector<std::string>> GgufSource::texts(const Key& key) const {
  return file_.texts(full(key));
}

std::vector<const StoredTensor*> GgufSource::tensors() const {
  std::vector<const StoredTensor*> all;
  for (const StoredTensor& tensor : file_.tensors()) all.push_back(&tensor);
  return all;
}

std::string GgufSource::hash() const {
  Sha256 sum;
  file_.add_to(sum);
  return sum.hex_digest();
}

}  // namespace kvloupe::capture
