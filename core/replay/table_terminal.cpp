// Aligned columns for people, in lines that a terminal, a mail and a review show without wrapping.
#include "core/replay/table.h"

#include "core/base/display_width.h"

#include <algorithm>
#include <numeric>

namespace kvloupe::table {
namespace {

constexpr std::size_t kGap = 2;         // between columns
constexpr std::size_t kNarrowest = 16;  // that text is broken to
constexpr std::size_t kWidestPart =
    40;                                // of a method, which is not broken where that can be helped
constexpr const char* kIndent = "  ";  // of what follows the first line of a method

using Lines = std::vector<std::string>;

// Behind the last of `breaks` that is near enough, else where the width ends. A blank there is not written.
Lines broken(const std::string& text, std::size_t width, const std::string& breaks,
             const std::string& indent) {
  Lines lines;
  std::string rest = text;
  while (display_width(rest) > width) {
    const std::size_t fits = std::max<std::size_t>(1, bytes_that_fit(rest, width));
    const std::size_t last = rest.substr(0, fits).find_last_of(breaks);
    const bool at_blank = rest[fits] == ' ' && breaks.find(' ') != std::string::npos;
    const std::size_t end =
        at_blank || last == std::string::npos || last <= indent.size() ? fits : last + 1;
    lines.push_back(rest.substr(0, end));
    rest = indent + rest.substr(end + (rest[end] == ' ' ? 1 : 0));
    lines.back().erase(lines.back().find_last_not_of(' ') + 1);
  }
  lines.push_back(rest);
  return lines;
}

// One column, as it is written.
struct Strip {
  std::string head;
  Lines cells;
  bool right = false;      // numbers
  bool breakable = false;  // text
  bool first = false;      // of those that are broken: methods
  std::size_t width = 0;
};

std::string heading_of(const Column& column) {
  if (!column.heading.empty()) return column.heading;
  return column.unit.empty() ? column.title : column.title + " " + column.unit;
}

std::size_t longest_word(const std::string& text, char between = ' ') {
  std::size_t longest = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(between, begin), text.size());
    longest = std::max(longest, display_width(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return longest;
}

std::size_t widest(const Lines& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines) width = std::max(width, display_width(line));
  return width;
}

// That text can be broken to. With each part of a method goes its comma, and the indent.
std::size_t narrowest(const Strip& strip) {
  std::size_t least = kNarrowest;
  if (strip.first)
    for (const std::string& cell : strip.cells)
      least = std::max(least, longest_word(cell, ',') + 1 + display_width(kIndent));
  return std::min(least, kWidestPart);
}

std::vector<Strip> strips_of(const Table& table) {
  std::vector<Strip> strips;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].title.empty()) continue;
    Strip strip;
    strip.head = heading_of(table.columns[i]);
    strip.right = !table.rows.empty();
    for (const auto& row : table.rows) {
      const Cell& cell = row[i];
      strip.cells.push_back(words_of(cell, table.columns[i]));
      const bool number = cell.is_number() || cell.is_empty() || strip.cells.back().empty();
      strip.right = strip.right && number;
      strip.breakable = strip.breakable || !number;
      strip.first = strip.first || std::holds_alternative<MethodText>(cell.value());
    }
    strip.width = std::max(display_width(strip.head), widest(strip.cells));
    strips.push_back(std::move(strip));
  }
  return strips;
}

std::size_t whole_width(const std::vector<Strip>& strips) {
  return std::accumulate(
      strips.begin(), strips.end(), std::size_t{0},
      [](std::size_t sum, const Strip& strip) { return sum + strip.width + (sum > 0 ? kGap : 0); });
}

// Methods give way first, then the other text, the widest first; at last the heads.
void fit(std::vector<Strip>& strips, std::size_t width) {
  const auto shrink = [&](Strip& strip, std::size_t least) {
    const std::size_t whole = whole_width(strips);
    if (whole <= width || strip.width <= least) return;
    strip.width -= std::min(whole - width, strip.width - least);
  };
  std::vector<Strip*> order;
  for (Strip& strip : strips) order.push_back(&strip);
  std::stable_sort(order.begin(), order.end(), [](const Strip* a, const Strip* b) {
    return a->first != b->first ? a->first : a->width > b->width;
  });
  for (Strip* strip : order)
    if (strip->breakable) shrink(*strip, std::max(narrowest(*strip), longest_word(strip->head)));
  for (Strip* strip : order)
    if (!strip->breakable)
      shrink(*strip, std::max(widest(strip->cells), longest_word(strip->head)));
}

void append_row(const std::vector<const Strip*>& strips, const std::vector<Lines>& cells,
                std::string& text) {
  std::size_t height = 1;
  for (const Lines& lines : cells) height = std::max(height, lines.size());
  for (std::size_t i = 0; i < height; ++i) {
    std::string line;
    for (std::size_t column = 0; column < strips.size(); ++column) {
      const std::string cell = i < cells[column].size() ? cells[column][i] : std::string();
      const std::size_t used = display_width(cell), room = strips[column]->width;
      const std::string blanks(room > used ? room - used : 0, ' ');
      line += strips[column]->right ? blanks + cell : cell + blanks;
      line += std::string(kGap, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
}

std::string block_text(const std::vector<const Strip*>& strips, std::size_t num_rows) {
  std::string text;
  std::vector<Lines> cells;
  for (const Strip* strip : strips) cells.push_back(broken(strip->head, strip->width, " ", ""));
  append_row(strips, cells, text);
  for (std::size_t row = 0; row < num_rows; ++row) {
    cells.clear();
    for (const Strip* strip : strips)
      cells.push_back(broken(strip->cells[row], strip->width, strip->first ? "," : ", ",
                             strip->first ? kIndent : ""));
    append_row(strips, cells, text);
  }
  return text;
}

}  // namespace

std::string terminal_text(const Table& table, std::size_t width) {
  std::vector<Strip> strips = strips_of(table);
  if (strips.empty()) return "";
  fit(strips, width);
  std::string text;
  // Each block begins with the first column.
  for (std::size_t next = 1; next <= strips.size();) {
    std::vector<const Strip*> block{&strips.front()};
    std::size_t used = strips.front().width;
    while (next < strips.size() &&
           (block.size() == 1 || used + kGap + strips[next].width <= width)) {
      used += kGap + strips[next].width;
      block.push_back(&strips[next++]);
    }
    text += (text.empty() ? "" : "\n") + block_text(block, table.rows.size());
    if (next >= strips.size()) break;
  }
  return text;
}

}  // namespace kvloupe::table
