#include "capture/model/hf_folder.h"

#include "capture/text/parse_json.h"
#include "core/base/safetensors.h"
#include "core/base/sha256.h"

#include <fmt/format.h>

#include <set>
#include <system_error>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMaxJsonBytes = 64 << 20;  // an index names some 100 bytes a tensor
constexpr const char* kRemedy = "download the folder again or choose another model";

json read_json(const fs::path& path) {
  const auto refuse = [&](const std::string& why) {
    throw input_error(fmt::format("cannot read {}", path.string()), why, kRemedy);
  };
  const MappedFile file(path, "the model's file");
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > kMaxJsonBytes)
    refuse(fmt::format("it has {} bytes, more than such a file can need", bytes.size()));
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  json parsed = parse_json({text, bytes.size()});
  file.require_whole();
  if (!parsed.is_object()) refuse("it is not a JSON object, or nests without end");
  return parsed;
}

// A tensor's name in a model of text alone; nothing for the parts that see.
std::optional<std::string> text_name(const std::string& name, bool of_several) {
  if (name.ends_with("rotary_emb.inv_freq")) return std::nullopt;  // follows from the configuration
  if (!of_several) return name;
  for (const auto& [prefix, own] :
       {std::pair{"language_model.model.", "model."}, std::pair{"model.language_model.", "model."},
        std::pair{"language_model.lm_head.", "lm_head."}})
    if (name.starts_with(prefix)) return own + name.substr(std::string_view(prefix).size());
  return name.starts_with("lm_head.") ? std::optional(name) : std::nullopt;
}

std::optional<ElementType> type_of(const std::string& dtype) {
  if (dtype == "F32") return ElementType::F32;
  if (dtype == "F16") return ElementType::F16;
  if (dtype == "BF16") return ElementType::BF16;
  if (dtype == "U8") return ElementType::Bytes;
  return std::nullopt;
}

// A boolean counts as 1 or 0.
std::optional<std::int64_t> whole_number(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (!value.is_number_integer()) return std::nullopt;
  return value.get<std::int64_t>();
}

std::optional<std::string> text_in(const json& value) {
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

}  // namespace

HfFolder::HfFolder(const fs::path& folder) : folder_(folder) {
  config_ = read_json(folder_ / "config.json");
  refuse_packed_weights();
  open_weights();
  if (config_.contains("text_config") && config_["text_config"].is_object()) {
    json text = config_["text_config"];
    config_ = std::move(text);
  }
}

// Before the tensors, which have types and shapes of the method's own.
void HfFolder::refuse_packed_weights() const {
  for (const char* name : {"quantization_config", "compression_config",
                           "text_config.quantization_config", "text_config.compression_config"}) {
    const json* packing = find({"", name});
    if (packing == nullptr || !packing->is_object()) continue;
    // Of before it had a name.
    const bool bitsandbytes =
        packing->contains("load_in_4bit") || packing->contains("load_in_8bit");
    std::string method = bitsandbytes ? "bitsandbytes" : "a method that is not named";
    if (const auto named = packing->find("quant_method");
        named != packing->end() && named->is_string())
      method = named->get<std::string>();
    if (method == "mxfp4") continue;  // weight_reader.h reads it
    throw input_error(
        fmt::format("cannot use the model {}", folder_.string()),
        fmt::format("its weights are quantised by {}, which is not implemented", method),
        "take a GGUF file of it, or its folder before it was quantised");
  }
}

std::map<std::string, std::string> HfFolder::read_index() const {
  std::error_code ignored;
  const fs::path path = folder_ / "model.safetensors.index.json";
  if (!fs::exists(path, ignored)) return {};
  const json index = read_json(path);
  const auto refuse = [&](const std::string& why) {
    throw input_error(fmt::format("cannot read {}", path.string()), why, kRemedy);
  };
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) refuse("it has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) refuse(fmt::format("of {} it names no file", tensor));
    const auto name = file.get<std::string>();
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
      refuse(fmt::format("of {} it names {}, which is no file of the folder", tensor, name));
    files[tensor] = name;
  }
  return files;
}

void HfFolder::open_weights() {
  const auto index = read_index();
  std::set<std::string> names;
  for (const auto& [tensor, file] : index) names.insert(file);
  if (names.empty()) names = {"model.safetensors"};
  for (const std::string& name : names) add_file(name, index);
  const bool of_several = config_.contains("text_config");
  for (const auto& [tensor, file] : index) {
    const auto own = text_name(tensor, of_several);
    if (own && tensors_.count(*own) == 0)
      throw damaged(
          *this, fmt::format("the tensor {} is not in {}, where the index has it", tensor, file));
  }
}

void HfFolder::add_file(const std::string& name, const std::map<std::string, std::string>& index) {
  const fs::path path = folder_ / name;
  const SafetensorsFile header(path, kRemedy);
  auto mapped = std::make_unique<MappedFile>(path, "the model's file");
  const bool of_several = config_.contains("text_config");
  for (const auto& [stored, entry] : header.entries()) {
    const auto own = text_name(stored, of_several);
    if (!own) continue;
    const auto placed = index.find(stored);
    if (!index.empty() && (placed == index.end() || placed->second != name)) continue;
    const auto type = type_of(entry.dtype);
    if (!type)
      throw unsupported(*this, fmt::format("the tensor {} has the element type {}; known are F32, "
                                           "F16 and BF16",
                                           stored, entry.dtype));
    StoredTensor tensor{*own, *type, entry.shape, entry.count(), {}};
    // The file may have changed between the two readings of it.
    const std::span<const std::byte> bytes = mapped->bytes();
    if (header.data_begin() + entry.end > bytes.size())
      throw damaged(*this, fmt::format("{} became shorter while it was read", name));
    tensor.data = bytes.subspan(header.data_begin() + entry.begin, entry.end - entry.begin);
    tensors_.emplace(*own, std::move(tensor));
  }
  files_.emplace(name, std::move(mapped));
}

std::string HfFolder::name() const {
  const fs::path folder = fs::absolute(folder_).lexically_normal();
  const std::string name =
      folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  // The cache keeps models--org--name/snapshots/<commit>.
  for (fs::path up = folder; up.has_relative_path(); up = up.parent_path()) {
    const std::string part = up.filename().string();
    if (!part.starts_with("models--")) continue;
    const std::size_t last = part.rfind("--");
    return part.substr(last + 2);
  }
  return name;
}

std::string HfFolder::architecture() const {
  const auto type = text({"", "model_type"});
  if (!type) throw damaged(*this, "its config.json has no model_type");
  return *type;
}

const json* HfFolder::find(const Key& key) const {
  if (key.hugging_face.empty()) return nullptr;
  const json* at = &config_;
  std::string_view rest = key.hugging_face;
  while (true) {
    const std::size_t dot = rest.find('.');
    if (!at->is_object()) return nullptr;
    const auto found = at->find(std::string(rest.substr(0, dot)));
    if (found == at->end() || found->is_null()) return nullptr;
    at = &*found;
    if (dot == std::string_view::npos) return at;
    rest.remove_prefix(dot + 1);
  }
}

void HfFolder::refuse_type(const Key& key, const char* wanted) const {
  throw damaged(*this, fmt::format("{} is not {}", spelt(key), wanted));
}

std::string HfFolder::spelt(const Key& key) const {
  return fmt::format("{} of config.json", key.hugging_face.empty() ? key.gguf : key.hugging_face);
}

std::optional<std::int64_t> HfFolder::integer(const Key& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto number = whole_number(*value);
  if (!number) refuse_type(key, "a whole number");
  return number;
}

std::optional<double> HfFolder::real(const Key& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number()) refuse_type(key, "a number");
  return value->get<double>();
}

std::optional<std::string> HfFolder::text(const Key& key) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto text = text_in(*value);
  if (!text) refuse_type(key, "a text");
  return text;
}

template <typename Entry>
std::optional<std::vector<Entry>> HfFolder::list(
    const Key& key, const char* wanted, std::optional<Entry> (*read)(const json& entry)) const {
  const json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) refuse_type(key, "a list");
  std::vector<Entry> entries;
  for (const json& each : *value) {
    std::optional<Entry> entry = read(each);
    if (!entry) refuse_type(key, wanted);
    entries.push_back(*std::move(entry));
  }
  return entries;
}

std::optional<std::vector<std::int64_t>> HfFolder::integers(const Key& key) const {
  return list(key, "a list of whole numbers", whole_number);
}

std::optional<std::vector<std::string>> HfFolder::texts(const Key& key) const {
  return list(key, "a list of texts", text_in);
}

const StoredTensor* HfFolder::find_tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<const StoredTensor*> HfFolder::tensors() const {
  std::vector<const StoredTensor*> all;
  for (const auto& [name, tensor] : tensors_) all.push_back(&tensor);
  return all;
}

std::string HfFolder::hash() const {
  Sha256 sum;
  for (const auto& [name, file] : files_) file->add_to(sum);
  return sum.hex_digest();
}

void HfFolder::require_whole() const {
  for (const auto& [name, file] : files_) file->require_whole();
}

void HfFolder::release_pages() const {
  for (const auto& [name, file] : files_) file->release_pages();
}

}  // namespace kvloupe::capture
