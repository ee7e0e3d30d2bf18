#include "app/cli/request_lines.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/results.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace kvloupe::cli {
namespace {

// Beyond any prompt; what follows in such a line is dropped.
constexpr std::size_t kMostOfLine = std::size_t{256} << 20;

Error not_opened(const std::string& name, const char* what) {
  return input_error(fmt::format("cannot {} {}", what, name), std::strerror(errno),
                     "check the name and your rights");
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : name_(path == "-" ? "standard input" : path.string()) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code))
    throw input_error("cannot read the requests", name_ + " is a folder", "name a file");
  descriptor_ = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw not_opened(name_, "read");
}

LineReader::~LineReader() { ::close(descriptor_); }

// A read that waits would start again after Ctrl+C; poll() does not.
bool LineReader::fill(const CancelToken& cancel) {
  pollfd waiting{descriptor_, POLLIN, 0};
  constexpr int kLookAgain = 100;  // ms
  for (int ready = 0; ready == 0;) {
    if (cancel.cancelled()) return false;
    ready = ::poll(&waiting, 1, kLookAgain);
    if (ready < 0 && errno == EINTR) ready = 0;
  }
  std::array<char, 1 << 16> piece{};
  const ssize_t count = ::read(descriptor_, piece.data(), piece.size());
  if (count < 0) throw not_opened(name_, "read");
  buffer_.erase(0, std::exchange(at_, 0));
  if (buffer_.size() < kMostOfLine ||
      std::memchr(piece.data(), '\n', static_cast<std::size_t>(count)) != nullptr)
    buffer_.append(piece.data(), static_cast<std::size_t>(count));
  else
    is_cut_ = true;
  ended_ = count == 0;
  return true;
}

std::optional<std::string> LineReader::next(const CancelToken& cancel) {
  std::size_t searched = at_;
  while (true) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos || (ended_ && at_ < buffer_.size())) {
      std::string line = buffer_.substr(at_, end == std::string::npos ? end : end - at_);
      at_ = end == std::string::npos ? buffer_.size() : end + 1;
      // The rest of it alone may be JSON, of another meaning.
      return std::exchange(is_cut_, false) ? "a line longer than any prompt" : line;
    }
    if (ended_) return std::nullopt;
    searched = buffer_.size() - at_;  // fill() moves what is left to the front
    if (!fill(cancel)) return std::nullopt;
  }
}

AnswerFile::AnswerFile(std::filesystem::path path, bool resume)
    : path_(std::move(path)), is_standard_output_(is_standard_output(path_)), resume_(resume) {
  if (resume_) read_answers();
}

AnswerFile::~AnswerFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void AnswerFile::read_answers() {
  std::error_code code;
  if (!std::filesystem::exists(path_, code)) return;
  std::ifstream file(path_, std::ios::binary);
  if (!file) throw not_opened(path_.string(), "read");
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto id = json.is_object() ? json.find("id") : json.end();
    if (id == json.end() || id->is_structured())
      throw input_error("cannot resume " + path_.string(),
                        fmt::format("its line {} is no answer with an id", answered_.size() + 1),
                        "name the file that this command wrote, or leave --resume out");
    answered_.push_back(id->dump());
    whole_bytes_ += line.size() + 1;
  }
}

void AnswerFile::open() {
  if (is_standard_output_ || descriptor_ >= 0) return;
  descriptor_ =
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (resume_ ? O_APPEND : O_TRUNC), 0666);
  if (descriptor_ < 0) throw not_opened(path_.string(), "write");
  if (resume_ && ::ftruncate(descriptor_, static_cast<off_t>(whole_bytes_)) != 0)
    throw not_opened(path_.string(), "write");
}

void AnswerFile::write(std::string_view line) {
  const std::string bytes = std::string(line) + "\n";
  if (is_standard_output_) {
    results::add_data(bytes);
    results::deliver();
    return;
  }
  open();
  std::string_view left = bytes;
  if (const int reason = write_all(descriptor_, left); reason != 0)
    throw input_error("cannot write " + path_.string(), std::strerror(reason),
                      "make room and go on with --resume");
}

}  // namespace kvloupe::cli
