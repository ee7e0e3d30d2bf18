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

// A line that the file would read as the begin of a page is escaped. So are all code blocks where one of
// them would be read as the page's own, or has no end.
std::string body_of(const std::string& body) {
  std::vector<std::string> lines;
  std::istringstream stream(body);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  int fences = 0;
  bool plain = true;
  for (const std::string& line : lines) {
    fences += line.starts_with(kFence) ? 1 : 0;
    plain = plain && !line.starts_with("```tour");
  }
  const bool keeps_code = plain && fences % 2 == 0;
  bool in_code = false;
  std::string text;
  for (const std::string& line : lines) {
    const bool fence = line.starts_with(kFence);
    if (fence && !keeps_code)
      text += "\\`\\`\\`" + line.substr(kFence.size()) + "\n";
    else
      text += (!in_code && line.starts_with("# ") ? "\\" : "") + line + "\n";
    in_code = in_code != (fence && keeps_code);
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
  for (const std::string& knob : page.knobs) text += "knob: " + knob + "\n";
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
