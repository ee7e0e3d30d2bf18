#include "capture/model/model_file.h"

#include "capture/model/gguf_part.h"
#include "capture/model/model_library.h"
#include "capture/model/optional_model.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <fmt/format.h>

#include <system_error>

namespace kvloupe::capture {

namespace fs = std::filesystem;

fs::path bundled_file() { return paths::data_dir() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"; }

fs::path path_of_model(const std::string& name_or_path) {
  std::error_code code;
  if (name_or_path == kBundledModel) {
    const fs::path path = bundled_file();
    if (fs::exists(path, code)) return path;
    throw input_error("cannot load the model smollm2",
                      fmt::format("the set-up has not put {} in place", path.string()),
                      "run ./kvloupe.sh once, which fetches it");
  }
  if (const OptionalModel* model = find_optional_model(name_or_path)) {
    fetch(*model, false);  // says what to do where it is not there
    return file_of(*model);
  }
  const auto status = fs::symlink_status(name_or_path, code);
  if (fs::exists(status)) return name_or_path;
  if (const auto found = find_model(model_folders(), name_or_path)) return *found;
  throw input_error(fmt::format("cannot load the model {}", name_or_path),
                    "there is no such file or folder, and no model of that name on this machine",
                    "give smollm2, a .gguf file, a Hugging Face folder or a name that `kvloupe "
                    "models` lists");
}

InputFiles files_of_model(const std::string& name_or_path) {
  try {
    const fs::path path = path_of_model(name_or_path);
    const auto part = gguf_part(path);
    if (!part) return {path};
    InputFiles parts;
    for (int number = 1; number <= part->count; ++number) parts.push_back(part->file(number));
    return parts;
  } catch (const Error&) {
    return {};  // told when it is loaded
  }
}

}  // namespace kvloupe::capture
