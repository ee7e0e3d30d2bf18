#include "capture/model/gguf_source.h"

#include "capture/model/gguf_part.h"
#include "core/base/sha256.h"

#include <fmt/format.h>

#include <utility>

namespace kvloupe::capture {
namespace {

constexpr const char* kHowToJoin = "or join the parts by llama-gguf-split --merge";

Error unusable_part(const std::filesystem::path& path, std::string why, const std::string& remedy) {
  return input_error(fmt::format("cannot use the model file {}", path.string()), std::move(why),
                     fmt::format("{}, {}", remedy, kHowToJoin));
}

}  // namespace

GgufSource::GgufSource(const std::filesystem::path& path) : file_(path) { open_other_parts(); }

void GgufSource::open_other_parts() {
  const std::int64_t count = file_.integer("split.count").value_or(1);
  if (count <= 1) return;
  const std::int64_t before = file_.integer("split.no").value_or(0);
  if (before < 0 || before >= count)
    throw damaged(*this, fmt::format("split.no is {} of {} parts, counted from 0", before, count));
  const std::int64_t number = before + 1;
  const auto named = gguf_part(path());
  if (number != 1)
    throw unusable_part(path(), fmt::format("it is part {} of {}", number, count),
                        named ? fmt::format("give the first part, {}", named->file(1).string())
                              : std::string("give the first part"));
  if (!named || named->number != 1 || named->count != count)
    throw unusable_part(
        path(), fmt::format("it is part 1 of {}, and its name does not say so", count),
        fmt::format("name the parts as they were, NAME-00001-of-{:05}.gguf and so on", count));
  for (int other = 2; other <= named->count; ++other) add_part(named->file(other), other, count);
}

void GgufSource::add_part(const std::filesystem::path& file, int number, std::int64_t count) {
  std::error_code code;
  if (!std::filesystem::exists(file, code))
    throw unusable_part(
        path(), fmt::format("it is part 1 of {}, and {} is not there", count, file.string()),
        "put all parts into one folder");
  auto part = std::make_unique<GgufFile>(file);
  if (part->integer("split.count") != count || part->integer("split.no") != number - 1)
    throw damaged(*this, fmt::format("{} is not part {} of {}", file.string(), number, count));
  for (const StoredTensor& tensor : part->tensors())
    if (find_tensor(tensor.name) != nullptr)
      throw damaged(*this, fmt::format("the tensor {} is in two of its parts", tensor.name));
  more_.push_back(std::move(part));
}

std::string GgufSource::architecture() const {
  const auto architecture = file_.text("general.architecture");
  if (!architecture) throw damaged(*this, "the metadata key general.architecture is missing");
  return *architecture;
}

std::string GgufSource::name() const {
  if (auto name = file_.text("general.name")) return *std::move(name);
  const auto part = gguf_part(path());
  return part ? std::filesystem::path(part->stem).filename().string() : path().stem().string();
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
  for (const auto& part : more_)
    for (const StoredTensor& tensor : part->tensors()) all.push_back(&tensor);
  return all;
}

const StoredTensor* GgufSource::find_tensor(std::string_view name) const {
  const StoredTensor* tensor = file_.find_tensor(name);
  for (std::size_t i = 0; tensor == nullptr && i < more_.size(); ++i)
    tensor = more_[i]->find_tensor(name);
  return tensor;
}

std::string GgufSource::hash() const {
  Sha256 sum;
  file_.add_to(sum);
  for (const auto& part : more_) part->add_to(sum);
  return sum.hex_digest();
}

void GgufSource::require_whole() const {
  file_.require_whole();
  for (const auto& part : more_) part->require_whole();
}

void GgufSource::release_pages() const {
  file_.release_pages();
  for (const auto& part : more_) part->release_pages();
}

}  // namespace kvloupe::capture
