// Which files a model's name means.
#pragma once

#include "core/base/output_file.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace kvloupe::capture {

inline constexpr std::string_view kBundledModel = "smollm2";
inline constexpr std::string_view kBundledTitle = "SmolLM2-135M-Instruct";  // its traces call it so

// What the set-up fetches; it may not be there.
std::filesystem::path bundled_file();

// kBundledModel, a file or folder that exists, or the name of a model that is on this machine
// (model_library.h). Throws Error{Input} where there is none.
std::filesystem::path path_of_model(const std::string& name_or_path);
// What of it a capture reads, where it is there.
InputFiles files_of_model(const std::string& name_or_path);

}  // namespace kvloupe::capture
