#include "app/shell/saved/state_files.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>

namespace kvloupe::shell {
namespace {

using nlohmann::ordered_json;

// Hundreds of times what the program writes.
constexpr std::size_t kMostBytes = 4 << 20;

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& why) {
  throw input_error(fmt::format("{} is not used", path.string()), why,
                    "it will be replaced; keep a copy if you want to look into it");
}

std::string read_at_most(int file, const std::filesystem::path& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    refuse(path, "it is no regular file");
  std::string text;
  char buffer[16384];
  for (ssize_t got = 0; (got = ::read(file, buffer, sizeof buffer)) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(path, std::strerror(errno));
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kMostBytes) refuse(path, "it is larger than the program ever writes it");
  }
  return text;
}

}  // namespace

std::string read_small_file(const std::filesystem::path& path) {
  // A FIFO without a writer would hold up the start for ever.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0 && errno == ENOENT) return {};
  if (file < 0) refuse(path, std::strerror(errno));
  try {
    std::string text = read_at_most(file, path);
    ::close(file);
    return text;
  } catch (...) {
    ::close(file);
    throw;
  }
}

ordered_json read_small_json(const std::filesystem::path& path) {
  const std::string text = read_small_file(path);
  if (text.empty()) return nullptr;
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) refuse(path, "it is damaged");
  return json;
}

void write_small_file_or_throw(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  // It would be written through, and a FIFO without a reader waits for ever.
  if (std::filesystem::is_other(path)) std::filesystem::remove(path);
  write_whole_file(path.string(), text);
}

void write_small_file(const std::filesystem::path& path, const std::string& text) {
  try {
    write_small_file_or_throw(path, text);
  } catch (const std::exception& error) {
    // Tried again every few seconds: it is said once.
    static std::mutex mutex;
    static std::set<std::string> told;
    const std::lock_guard lock(mutex);
    if (told.insert(error.what()).second)
      log::warning("what the window remembers was not saved: {}", error.what());
  }
}

std::string small_text_of(const ordered_json& json) {
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void write_small_json(const std::filesystem::path& path, const ordered_json& json) {
  write_small_file(path, small_text_of(json));
}

ordered_json json_of_bytes(const std::string& bytes) {
  try {
    ordered_json text(bytes);
    static_cast<void>(text.dump());
    return text;
  } catch (const nlohmann::json::type_error&) {
    ordered_json numbers = ordered_json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
    return numbers;
  }
}

std::optional<std::string> bytes_of_json(const ordered_json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return std::nullopt;
  std::string bytes;
  for (const ordered_json& number : json) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > 255) return std::nullopt;
    bytes += static_cast<char>(number.get<std::uint64_t>());
  }
  return bytes;
}

}  // namespace kvloupe::shell
