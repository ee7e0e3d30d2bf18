#include "capture/model/model_source.h"

#include "capture/model/gguf_source.h"
#include "capture/model/hf_folder.h"

#include <fmt/format.h>

#include <system_error>

namespace kvloupe::capture {

std::unique_ptr<ModelSource> open_model(const std::filesystem::path& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  if (code && code != std::errc::no_such_file_or_directory)
    throw input_error(fmt::format("cannot load the model {}", path.string()), code.message(),
                      "check the path");
  if (std::filesystem::is_directory(status)) return std::make_unique<HfFolder>(path);
  if (!std::filesystem::exists(status))
    throw input_error(fmt::format("cannot load the model {}", path.string()),
                      "there is no such file or folder",
                      "give smollm2, a .gguf file or a Hugging Face folder");
  return std::make_unique<GgufSource>(path);
}

Error unsupported(const ModelSource& source, std::string why) {
  return input_error(fmt::format("cannot use the model {}", source.path().string()), std::move(why),
                     "choose a model without it");
}

Error damaged(const ModelSource& source, std::string why) {
  return input_error(fmt::format("cannot read the model {}", source.path().string()),
                     std::move(why), "download it again or choose another one");
}

}  // namespace kvloupe::capture
