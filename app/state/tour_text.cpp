#include "app/state/tour_text.h"

#include "app/state/view_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

namespace kvloupe::state {
namespace {

constexpr std::string_view kFence = "```";

// What the file would read as the begin of a page or of a block is escaped, and so are code blocks
// where the last one has no end.
std::string body_of(const std::string& body) {
  std::vector<std::string> lines;
  std::istringstream stream(body);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const auto fences = std::count_if(
      lines.begin(), lines.end(), [](const std::string& line) { return line.starts_with(kFence); });
  bool in_code = false;
  std::string text;
  for (const std::string& line : lines) {
    const bool fence = line.starts_with(kFence);
    const bool begins_block = !in_code && line.starts_with("```tour");
    if (fence && (fences % 2 != 0 || begins_block))
      text += "\\`\\`\\`" + line.substr(kFence.size()) + "\n";
    else
      text += (!in_code && line.starts_with("# ") ? "\\" : "") + line + "\n";
    if (fence && fences % 2 == 0 && !begins_block) in_code = !in_code;
  }
  return text;
}

// On one line.
std::string flat(std::string text) {
  for (char& c : text)
    if (c == '\n' || c == '\r') c = ' ';
  return text;
}

std::string from_folder_of(const std::filesystem::path& tour, const std::filesystem::path& trace) {
  return trace.lexically_proximate(tour.parent_path()).string();
}

std::string block_of(const TourPage& page, const Tour& tour) {
  std::string text = "```tour\n";
  if (page.at.trace != tour.trace)
    text += fmt::format("trace: {}\n", from_folder_of(tour.file, page.at.trace));
  for (const ViewField& field : view_fields()) {
    if (!field.in(kLink) && field.name != "workspace") continue;
    for (const std::string& value : field.write(page.at)) {
      const bool named = field.shape == ViewField::Shape::Named;
      const std::size_t equals = value.find('=');
      text += named ? fmt::format("{}: {}\n", value.substr(0, equals), value.substr(equals + 1))
                    : fmt::format("{}: {}\n", field.word(), flat(value));
    }
  }
  if (!page.to_try.empty()) text += "try: " + flat(page.to_try) + "\n";
  if (!page.to_see.empty()) text += "see: " + flat(page.to_see) + "\n";
  return text + "```\n";
}

}  // namespace

std::string text_of(const Tour& tour) {
  std::string text = fmt::format("---\ntitle: {}\ntrace: {}\n---\n", flat(tour.title),
                                 from_folder_of(tour.file, tour.trace));
  for (const TourPage& page : tour.pages) {
    text += fmt::format("\n# {}\n\n{}\n", flat(page.title), block_of(page, tour));
    text += body_of(page.body);
  }
  return text;
}

TourPage page_of_note(const std::string& note, const ViewState& at, std::size_t number) {
  TourPage page;
  page.at = at;
  const std::size_t end = std::min(note.find('\n'), note.size());
  page.title = note.substr(0, end);
  if (page.title.find_first_not_of(" \t\r") == std::string::npos)
    page.title = fmt::format("Page {}", number);
  page.body = note.substr(std::min(end + 1, note.size()));
  return page;
}

}  // namespace kvloupe::state
