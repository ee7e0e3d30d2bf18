#include "app/shell/windows/dropped_files.h"

#include "app/shell/new_trace/capture_request.h"
#include "app/shell/saved/layout_file.h"
#include "core/base/error.h"
#include "core/base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using Kind = DroppedKind;

constexpr std::size_t kBytesLookedAt = 4096;
constexpr std::string_view kHdf5 = "\x89HDF\r\n\x1a\n";

std::string first_bytes(const fs::path& path) {
  std::string bytes(kBytesLookedAt, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

bool is_text(const std::string& bytes) {
  return !bytes.empty() && bytes.find('\0') == std::string::npos;
}

// A text in Markdown that begins as a tour does; any other one is a prompt.
bool is_tour(const std::string& bytes) {
  return bytes.starts_with("---") && bytes.find("\ntrace:") != std::string::npos;
}

std::string name_of(const std::string& path) {
  return printable(fs::path(path).filename().string());
}

}  // namespace

DroppedFile dropped_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {path, Kind::Missing};
  if (!model_of_path(path).empty()) return {path, Kind::Model};
  if (!fs::is_regular_file(path, ignored)) return {path, Kind::Unknown};
  const auto ends = [&](const char* ending) { return path.ends_with(ending); };
  if (ends(".session.json")) return {path, Kind::Notes};
  if (ends(".h5") || ends(".hdf5") || ends(".part")) return {path, Kind::Trace};
  const std::string bytes = first_bytes(path);
  if (bytes.starts_with(kHdf5)) return {path, Kind::Trace};
  if (!is_text(bytes)) return {path, Kind::Unknown};
  if (ends(".md") && is_tour(bytes)) return {path, Kind::Tour};
  if (!ends(".json")) return {path, Kind::Prompt};
  return {path, bytes.find(kLayoutFormat) != std::string::npos ? Kind::Layout : Kind::Chat};
}

void DroppedFiles::drop(std::vector<std::string> paths) {
  if (paths.empty()) return;
  using Files = std::vector<DroppedFile>;
  workspace_.answers.jobs().submit<Files>(
      Lane::TraceIo, fmt::format("dropped {}", fmt::join(paths, "\n")),
      "Looking at what was dropped",
      [paths](const WorkContext&) {
        auto files = std::make_shared<Files>();
        for (const std::string& path : paths) files->push_back(dropped_file(path));
        return std::shared_ptr<const Files>(std::move(files));
      },
      [this](std::shared_ptr<const Files> files) { use(*files); },
      [this](const Error& error) { messages_.say(error.what(), true); });
}

void DroppedFiles::refuse(const std::string& path, const std::string& why) {
  refused_.push_back(name_of(path) + ": " + why);
}

void DroppedFiles::use(const std::vector<DroppedFile>& files) {
  num_dropped_ += files.size();
  std::string model, prompt, tour;
  const auto once = [&](std::string& used, const std::string& path, const char* what,
                        const std::function<bool(const std::string&)>& take) {
    if (!used.empty())
      refuse(path, fmt::format("a capture has one {}, and {} is it", what, name_of(used)));
    else if (take(path))
      used = path;
    else
      refuse(path, "a capture runs: wait for its end");
  };
  for (const auto& [path, kind] : files) {
    std::error_code ignored;
    switch (kind) {
      case Kind::Trace:
        opening_.insert(fs::absolute(path, ignored).string());
        workspace_.traces.open(path);
        break;
      case Kind::Model: once(model, path, "model", takers_.take_model); break;
      case Kind::Prompt:
      case Kind::Chat: once(prompt, path, "prompt", takers_.take_prompt); break;
      case Kind::Tour:
        if (tour.empty())
          takers_.take_tour(tour = path);
        else
          refuse(path, "the window leads through one tour at a time");
        break;
      case Kind::Layout: takers_.take_layout(path); break;
      case Kind::Notes:
        refuse(path, "notes open with the trace that they lie beside; drop that one");
        break;
      case Kind::Missing: refuse(path, "there is no such file"); break;
      case Kind::Unknown:
        refuse(path, fs::is_directory(path, ignored)
                         ? "the folder holds no model (config.json)"
                         : "it is no trace, model, prompt, tour or layout");
        break;
    }
  }
}

bool DroppedFiles::take_message(const std::string& text, bool is_error) {
  if (!is_error) return false;
  const auto of = std::find_if(opening_.begin(), opening_.end(), [&](const std::string& path) {
    return text.find(name_of(path)) != std::string::npos;
  });
  if (of == opening_.end()) return false;
  refused_.push_back(text);
  opening_.erase(of);
  return true;
}

void DroppedFiles::tick() {
  std::erase_if(opening_, [&](const std::string& path) {
    const auto& tabs = workspace_.traces.tabs();
    return std::none_of(tabs.begin(), tabs.end(), [&](const auto& tab) {
      return tab->path == path && tab->state == state::ResultState::Loading;
    });
  });
  if (!opening_.empty() || num_dropped_ == 0) return;
  const std::size_t dropped = std::exchange(num_dropped_, 0);
  const std::vector<std::string> refused = std::exchange(refused_, {});
  if (refused.empty()) return;
  messages_.say(dropped == 1 ? refused.front()
                             : fmt::format("{} of {} files could not be used:\n{}", refused.size(),
                                           dropped, fmt::join(refused, "\n")),
                true);
}

}  // namespace kvloupe::shell
