#include "core/base/output_file.h"

#include "core/base/error.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

bool same_inode(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// One place on the disk, whether or not there is a file yet.
bool same_place(const fs::path& a, const fs::path& b) {
  struct stat left {
  }, right{};
  const bool exists = ::stat(a.c_str(), &left) == 0;
  if (exists != (::stat(b.c_str(), &right) == 0)) return false;
  if (exists) return same_inode(left, right);
  return a.filename() == b.filename() && ::stat(folder_of(a).c_str(), &left) == 0 &&
         ::stat(folder_of(b).c_str(), &right) == 0 && same_inode(left, right);
}

bool is_one_of(const fs::path& path, const InputFiles& inputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](const fs::path& input) {
    if (input.empty() || input == "-") return false;
    std::error_code code;
    if (!fs::is_directory(input, code)) return same_place(path, output_target(input));
    for (fs::directory_iterator entry(input, code), end; !code && entry != end;
         entry.increment(code))
      if (same_place(path, entry->path())) return true;
    return false;
  });
}

std::string bytes_at(std::ifstream& file, std::uint64_t offset, std::size_t count) {
  std::string bytes(count, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

// HDF5 may follow a block of the user's: its signature stands at 0, 512, 1024, 2048 and so on.
bool is_hdf5(std::ifstream& file, std::uint64_t size) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  for (std::uint64_t at = 0; at + kSignature.size() <= size; at = at == 0 ? 512 : 2 * at)
    if (bytes_at(file, at, kSignature.size()) == kSignature) return true;
  return false;
}

// It begins with the length of a header in JSON.
bool is_safetensors(std::ifstream& file, std::uint64_t size) {
  const std::string head = bytes_at(file, 0, 9);
  std::uint64_t length = 0;
  if (head.size() < 9 || head.back() != '{') return false;
  std::memcpy(&length, head.data(), sizeof length);
  return length >= 2 && length <= size - sizeof length;
}

// What a file is that nobody wants to lose to a picture; nothing for any other.
std::optional<std::string> kind_of_data(const fs::path& path) {
  std::error_code code;
  const std::uint64_t size = fs::file_size(path, code);
  std::ifstream file(path, std::ios::binary);
  if (code || !file) return "a file whose kind cannot be told, for it cannot be read";
  if (is_hdf5(file, size)) return "an HDF5 file, such as a trace";
  if (bytes_at(file, 0, 4) == "GGUF") return "a GGUF file, a model";
  if (is_safetensors(file, size)) return "a safetensors file, such as a model's weights";
  return std::nullopt;
}

void refuse_input(const fs::path& path, const InputFiles& inputs) {
  if (is_one_of(output_target(path), inputs))
    throw input_error("cannot write " + path.string(),
                      "it is a file that this command reads, or belongs to one",
                      "give another name");
}

void refuse_folder(const fs::path& path, const std::string& what) {
  std::error_code code;
  if (fs::is_directory(path, code))
    throw input_error(path.string() + " is a folder", what + " is a file", "add a file name");
}

void refuse_protected_place(const fs::path& path) {
  std::error_code code;
  const fs::path target = output_target(path), folder = folder_of(target);
  if (!fs::is_directory(folder, code) || ::access(folder.c_str(), W_OK) != 0)
    throw input_error("cannot write " + path.string(),
                      folder.string() + " is not a folder that you may write to",
                      "create it or give another name");
  if (fs::exists(target, code) && ::access(target.c_str(), W_OK) != 0)
    throw input_error("cannot write " + path.string(), "the file is protected against writing",
                      "give another name");
}

}  // namespace

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

fs::path output_target(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  fs::path target = path;
  std::error_code code;
  for (int links = 0; fs::is_symlink(target, code); ++links) {
    if (links == kMostLinks)
      throw input_error("cannot write " + path.string(), "it is a link that leads to no file",
                        "give another name");
    const fs::path next = fs::read_symlink(target, code);
    target = next.is_absolute() ? next : folder_of(target) / next;
  }
  return target;
}

bool is_standard_output(const fs::path& path) {
  struct stat output {
  }, other{};
  return path == "-" || (::fstat(STDOUT_FILENO, &output) == 0 &&
                         ::stat(path.c_str(), &other) == 0 && same_inode(output, other));
}

void check_result_file(const fs::path& path, const InputFiles& inputs, bool force,
                       const std::string& remedy) {
  if (path == "-") return;
  refuse_input(path, inputs);
  refuse_folder(path, "a result");
  std::error_code code;
  if (fs::is_other(path, code) || is_standard_output(path)) return;
  refuse_protected_place(path);
  if (force || !fs::exists(path, code)) return;
  if (const auto kind = kind_of_data(path))
    throw input_error(path.string() + " exists", "it is " + *kind, remedy);
}

void check_output_file(const fs::path& path, const std::string& what, const std::string& writer,
                       const InputFiles& inputs, bool force) {
  if (path == "-")
    throw usage_error("cannot write to standard output", what + " needs a file",
                      "give a name by -o");
  refuse_input(path, inputs);
  refuse_folder(path, what);
  std::error_code code;
  if (fs::is_other(path, code))
    throw input_error("cannot write " + path.string(), what + " needs a regular file",
                      "give another name by -o");
  if (!force && fs::exists(path, code))
    throw input_error(path.string() + " exists", writer + " does not overwrite a file unasked",
                      "give --force or another name by -o");
  refuse_protected_place(path);
}

void check_calibration_file(const fs::path& path, const std::string& what, const InputFiles& inputs,
                            bool force) {
  if (path.string().find(',') != std::string::npos)
    throw usage_error("cannot write " + path.string(),
                      "a method SPEC cannot name a file with a comma in its path",
                      "give another name by -o");
  check_output_file(path, what, "a calibration", inputs, force);
}

}  // namespace kvloupe
