// What a calibration asks of the file that it is to write, before it begins.
#pragma once

#include "core/base/error.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace kvloupe {

// Throws Error: the path has a comma, is a folder, or exists and may not be overwritten. `what`:
// "a gate".
inline void check_output_file(const std::filesystem::path& path, const std::string& what,
                              bool force) {
  std::error_code code;
  if (path.string().find(',') != std::string::npos)
    throw usage_error("cannot write " + path.string(),
                      "a method SPEC cannot name a file with a comma in its path",
                      "give another name by -o");
  if (std::filesystem::is_directory(path, code))
    throw input_error(path.string() + " is a folder", what + " is a file", "add a file name");
  if (!force && std::filesystem::exists(path, code))
    throw input_error(path.string() + " exists", "a calibration does not overwrite a file unasked",
                      "give --force or another name by -o");
}

}  // namespace kvloupe
