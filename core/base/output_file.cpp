#include "core/base/output_file.h"

#include "core/base/error.h"

#include <unistd.h>

#include <system_error>

namespace kvloupe {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void check_output_file(const fs::path& path, const std::string& what, const std::string& writer,
                       bool force) {
  std::error_code code;
  if (fs::is_directory(path, code))
    throw input_error(path.string() + " is a folder", what + " is a file", "add a file name");
  if (!force && fs::exists(path, code))
    throw input_error(path.string() + " exists", writer + " does not overwrite a file unasked",
                      "give --force or another name by -o");
  const fs::path folder = folder_of(path);
  if (!fs::is_directory(folder, code) || ::access(folder.c_str(), W_OK) != 0)
    throw input_error("cannot write " + path.string(),
                      folder.string() + " is not a folder that you may write to",
                      "create it or give another name");
}

void check_calibration_file(const fs::path& path, const std::string& what, bool force) {
  if (path.string().find(',') != std::string::npos)
    throw usage_error("cannot write " + path.string(),
                      "a method SPEC cannot name a file with a comma in its path",
                      "give another name by -o");
  check_output_file(path, what, "a calibration", force);
}

}  // namespace kvloupe
