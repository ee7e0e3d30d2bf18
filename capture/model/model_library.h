// Models that are on this machine already, where other programs keep them: without network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct FoundModel {
  std::string name;            // as --model takes it
  std::string place;           // "set-up", "Hugging Face", "llama.cpp" or "Ollama"
  std::filesystem::path path;  // file or folder
  std::uint64_t bytes = 0;     // of its weights
  std::string title;           // as its traces call it; "" where the files do not tell
  std::string family;          // likewise
  std::string refusal;         // why it cannot be run; "": it can
  int num_layers = 0, num_q_heads = 0, num_kv_heads = 0;  // of one that can
};

// The folders, in the order in which a name is looked up. From the environment as those programs take
// it: HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME; LLAMA_CACHE; OLLAMA_MODELS. The last holds what the set-up
// fetched by name (optional_model.h).
struct ModelFolders {
  std::filesystem::path hugging_face, llama_cpp, ollama, fetched;
};
ModelFolders model_folders();

// All of them, by place and name. Only headers are read; what is damaged is there with its refusal.
std::vector<FoundModel> find_models(const ModelFolders& folders);
// The file or folder of org/name, name:tag or the name of a GGUF file.
std::optional<std::filesystem::path> find_model(const ModelFolders& folders,
                                                const std::string& name);

}  // namespace kvloupe::capture
