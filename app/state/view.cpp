#include "app/state/view.h"

#include "app/state/place.h"
#include "core/base/error.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace kvloupe::state {

const char* name_of(Format format) {
  switch (format) {
    case Format::Png: return "png";
    case Format::Svg: return "svg";
    case Format::Pdf: return "pdf";
    case Format::Gif: return "gif";
    case Format::Apng: return "apng";
    case Format::Csv: return "csv";
    case Format::Npy: return "npy";
    case Format::Markdown: return "markdown";
    case Format::Latex: return "latex";
  }
  return "";
}

const char* ending_of(Format format) {
  if (format == Format::Markdown) return "md";
  return format == Format::Latex ? "tex" : name_of(format);
}

bool is_picture(Format format) {
  return format == Format::Png || format == Format::Svg || format == Format::Pdf ||
         is_animated(format);
}

bool is_animated(Format format) { return format == Format::Gif || format == Format::Apng; }

bool is_of_tables(Format format) {
  return format == Format::Csv || format == Format::Markdown || format == Format::Latex;
}

std::string text_of(const Table& table, Format format) {
  KVLOUPE_CHECK(is_of_tables(format));
  if (format == Format::Markdown) return table::markdown_text(table);
  return format == Format::Latex ? table::latex_text(table) : table::csv_text(table);
}

void append_rows(Table& all, Table more) {
  const std::size_t known_columns = all.columns.size();
  std::vector<std::size_t> places;
  for (table::Column& column : more.columns) {
    const auto same =
        std::find_if(all.columns.begin(), all.columns.end(),
                     [&](const table::Column& known) { return known.id == column.id; });
    places.push_back(static_cast<std::size_t>(same - all.columns.begin()));
    if (same == all.columns.end()) all.columns.push_back(std::move(column));
  }
  if (all.columns.size() > known_columns)
    for (std::vector<Cell>& row : all.rows) row.resize(all.columns.size());
  for (std::vector<Cell>& row : more.rows) {
    std::vector<Cell> cells(all.columns.size());
    for (std::size_t i = 0; i < row.size(); ++i) cells[places[i]] = std::move(row[i]);
    all.rows.push_back(std::move(cells));
  }
}

const std::string& ViewOption::words_of(const std::string& choice) const {
  const auto at = std::find(choices.begin(), choices.end(), choice) - choices.begin();
  return static_cast<std::size_t>(at) < words.size() ? words[static_cast<std::size_t>(at)] : choice;
}

const std::string* ViewOption::choice(const std::string& text) const {
  const auto named = std::find(choices.begin(), choices.end(), text);
  if (named != choices.end()) return &*named;
  const std::string* found = nullptr;
  for (const std::string& one : choices) {
    // A whole word of it.
    const std::string padded = "_" + one + "_";
    if (text.empty() || padded.find("_" + text + "_") == std::string::npos) continue;
    if (found != nullptr) return nullptr;
    found = &one;
  }
  return found;
}

ViewInfo& ViewInfo::follow(unsigned parts) {
  coordinates = coordinates_of(parts);
  return *this;
}

ViewInfo& ViewInfo::take(int methods_at_most, std::vector<MethodChoice> (*more)(const Workspace&)) {
  num_methods = methods_at_most;
  more_methods = more;
  return *this;
}

ViewInfo& ViewInfo::take_both() {
  shows_both = true;
  return take(2, more_methods);
}

ViewInfo& ViewInfo::with(std::vector<ViewOption> its_options) {
  options = std::move(its_options);
  return *this;
}

ViewInfo& ViewInfo::count_chunks() {
  over_chunks = true;
  return *this;
}

ViewInfo& ViewInfo::of_results() {
  shows_results = true;
  return *this;
}

ViewInfo& ViewInfo::tabulate_all_chunks() {
  tabulates_all_chunks = true;
  return *this;
}

ViewInfo& ViewInfo::on_paper(float height) {
  paper_height = height;
  return *this;
}

ViewInfo& ViewInfo::draw(std::string (*why_not)(Workspace&), Table (*as_table)(Workspace&),
                         Array (*as_array)(Workspace&)) {
  problem = why_not;
  table = as_table;
  array = as_array;
  return *this;
}

// As GitHub makes an anchor of a heading.
std::string ViewInfo::metrics_link() const {
  if (metrics.empty()) return "";
  std::string anchor;
  for (const char c : metrics) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == ' ' || c == '-')
      anchor += '-';
  }
  return std::string(kMetricsFile) + "#" + anchor;
}

std::vector<Format> ViewInfo::formats() const {
  std::vector<Format> all{Format::Png, Format::Svg, Format::Pdf};
  // Its frames are the chunks.
  if (std::find(coordinates.begin(), coordinates.end(), "chunk") != coordinates.end())
    all.insert(all.end(), {Format::Gif, Format::Apng});
  if (table != nullptr) all.push_back(Format::Csv);
  if (array != nullptr) all.push_back(Format::Npy);
  if (table != nullptr) all.insert(all.end(), {Format::Markdown, Format::Latex});
  return all;
}

bool ViewInfo::has(Format format) const {
  const auto all = formats();
  return std::find(all.begin(), all.end(), format) != all.end();
}

}  // namespace kvloupe::state
