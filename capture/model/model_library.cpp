#include "capture/model/model_library.h"

#include "capture/model/family.h"
#include "capture/model/gguf_part.h"
#include "capture/model/model_config.h"
#include "capture/model/model_file.h"
#include "capture/model/optional_model.h"
#include "capture/text/parse_json.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostModels = 1000;
constexpr const char* kSetUp = "set-up";
constexpr std::uintmax_t kMaxManifestBytes = 1 << 20;

using paths::environment;

fs::path home() { return environment("HOME"); }

fs::path cache_home() {
  const fs::path named = environment("XDG_CACHE_HOME");
  return named.empty() ? home() / ".cache" : named;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code))
    if (paths.size() < kMostModels) paths.push_back(at->path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

std::string first_line(const fs::path& file) {
  std::error_code code;
  if (!fs::is_regular_file(file, code)) return {};
  std::ifstream stream(file);
  std::string line(100, '\0');
  stream.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(stream.gcount()));
  return line.substr(0, line.find_first_of("\r\n"));
}

// models--org--name/snapshots/<commit>, the commit of refs/main where that is there.
std::optional<fs::path> snapshot_of(const fs::path& repository) {
  std::error_code code;
  const std::string commit = first_line(repository / "refs" / "main");
  const fs::path main = repository / "snapshots" / commit;
  if (!commit.empty() && commit.find('/') == std::string::npos && fs::is_directory(main, code))
    return main;
  for (const fs::path& path : entries_of(repository / "snapshots"))
    if (fs::is_directory(path, code)) return path;
  return std::nullopt;
}

std::string name_of_repository(const fs::path& repository) {
  std::string name = repository.filename().string().substr(std::string("models--").size());
  for (std::size_t at = name.find("--"); at != std::string::npos; at = name.find("--", at + 1))
    name.replace(at, 2, "/");
  return name;
}

// Of a model in several files the first one stands for all.
bool begins_model(const fs::path& file) {
  if (file.extension() != ".gguf") return false;
  const auto part = gguf_part(file);
  return !part || part->number == 1;
}

// name -> file or folder, of one place.
using Found = std::vector<std::pair<std::string, fs::path>>;

Found in_hugging_face(const fs::path& cache) {
  Found found;
  std::error_code code;
  for (const fs::path& repository : entries_of(cache)) {
    if (!repository.filename().string().starts_with("models--")) continue;
    const auto snapshot = snapshot_of(repository);
    if (!snapshot) continue;
    const std::string name = name_of_repository(repository);
    if (fs::exists(*snapshot / "config.json", code)) found.emplace_back(name, *snapshot);
    for (const fs::path& file : entries_of(*snapshot))
      if (begins_model(file)) found.emplace_back(name + "/" + file.filename().string(), file);
  }
  return found;
}

Found in_llama_cpp(const fs::path& cache) {
  Found found;
  for (const fs::path& file : entries_of(cache))
    if (begins_model(file)) found.emplace_back(file.filename().string(), file);
  return found;
}

// The blob of the layer that is the model; manifests are small JSON files.
std::optional<fs::path> blob_of(const fs::path& models, const fs::path& manifest) {
  std::error_code code;
  if (!fs::is_regular_file(manifest, code) || fs::file_size(manifest, code) > kMaxManifestBytes)
    return std::nullopt;
  std::ifstream stream(manifest, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const auto json = parse_json(text);
  if (!json.is_object() || !json.contains("layers") || !json["layers"].is_array())
    return std::nullopt;
  for (const auto& layer : json["layers"]) {
    if (!layer.is_object() ||
        layer.value("mediaType", nlohmann::json()) != "application/vnd.ollama.image.model")
      continue;
    const auto digest = layer.value("digest", nlohmann::json());
    if (!digest.is_string()) continue;
    std::string file = digest.get<std::string>();
    if (file.find('/') != std::string::npos) continue;
    std::replace(file.begin(), file.end(), ':', '-');
    return models / "blobs" / file;
  }
  return std::nullopt;
}

// manifests/<registry>/<namespace>/<name>/<tag>; the namespace "library" goes without saying.
Found in_ollama(const fs::path& models) {
  Found found;
  for (const fs::path& registry : entries_of(models / "manifests"))
    for (const fs::path& space : entries_of(registry))
      for (const fs::path& model : entries_of(space))
        for (const fs::path& tag : entries_of(model)) {
          const auto blob = blob_of(models, tag);
          if (!blob) continue;
          const std::string owner =
              space.filename() == "library" ? "" : space.filename().string() + "/";
          found.emplace_back(
              fmt::format("{}{}:{}", owner, model.filename().string(), tag.filename().string()),
              *blob);
        }
  return found;
}

Found in_fetched(const fs::path& folder) {
  Found found;
  std::error_code code;
  for (const OptionalModel& model : optional_models())
    if (fs::exists(folder / model.file, code)) found.emplace_back(model.name, folder / model.file);
  return found;
}

struct Place {
  const char* name;
  Found models;
};

std::vector<Place> places(const ModelFolders& folders) {
  return {{"Hugging Face", in_hugging_face(folders.hugging_face)},
          {"llama.cpp", in_llama_cpp(folders.llama_cpp)},
          {"Ollama", in_ollama(folders.ollama)},
          {kSetUp, in_fetched(folders.fetched)}};
}

FoundModel look_at(const std::string& name, const char* place, const fs::path& path) {
  FoundModel model{name, place, path, 0, "", "", ""};
  try {
    const auto source = open_model(path);
    model.title = name == kBundledModel ? std::string(kBundledTitle) : source->name();
    for (const StoredTensor* tensor : source->tensors()) model.bytes += tensor->data.size();
    model.family = source->architecture();
    model.family = family_of(*source).id;
    const trace::ModelInfo info = read_config(*source).info;
    model.num_layers = info.num_layers;
    model.num_q_heads = info.num_q_heads;
    model.num_kv_heads = info.num_kv_heads;
  } catch (const Error& error) {
    model.refusal = fmt::format("{}; {}", error.what_failed(), error.why());
  }
  return model;
}

}  // namespace

ModelFolders model_folders() {
  ModelFolders folders;
  folders.hugging_face = environment("HF_HUB_CACHE");
  if (folders.hugging_face.empty()) {
    const fs::path hub = environment("HF_HOME");
    folders.hugging_face = (hub.empty() ? cache_home() / "huggingface" : hub) / "hub";
  }
  folders.llama_cpp = environment("LLAMA_CACHE");
  if (folders.llama_cpp.empty()) folders.llama_cpp = cache_home() / "llama.cpp";
  folders.ollama = environment("OLLAMA_MODELS");
  if (folders.ollama.empty()) folders.ollama = home() / ".ollama" / "models";
  folders.fetched = folder_of_fetched_models();
  return folders;
}

std::vector<FoundModel> find_models(const ModelFolders& folders) {
  std::vector<FoundModel> all;
  std::error_code code;
  if (fs::exists(bundled_file(), code))
    all.push_back(look_at(std::string(kBundledModel), kSetUp, bundled_file()));
  for (const Place& place : places(folders))
    for (const auto& [name, path] : place.models) all.push_back(look_at(name, place.name, path));
  return all;
}

std::optional<fs::path> find_model(const ModelFolders& folders, const std::string& name) {
  for (const Place& place : places(folders))
    for (const auto& [own, path] : place.models)
      if (own == name || own == name + ":latest") return path;
  return std::nullopt;
}

}  // namespace kvloupe::capture
