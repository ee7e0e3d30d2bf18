// Markdown in a window: paragraphs, lists, headings, strong and code, formulas. What is parsed by md4c is
// laid out here by words.
#pragma once

#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::widgets {

struct MarkdownSpan {
  enum class Style { Text, Strong, Emphasis, Code, Formula };
  Style style = Style::Text;
  std::string text;  // of a formula: its LaTeX
};

struct MarkdownBlock {
  enum class Kind { Paragraph, Heading, Item, Code, Formula };
  Kind kind = Kind::Paragraph;
  int depth = 0;       // of an item, from 1
  std::string marker;  // of an item: its number with a dot, or a bullet
  std::vector<MarkdownSpan> spans;
};

std::vector<MarkdownBlock> parse_markdown(const std::string& text);
// What of its formulas is not understood, the first; empty: nothing.
std::string problem_in_markdown(const std::string& text);
// As wide as the room that is left.
void markdown_ui(const Palette& palette, const std::vector<MarkdownBlock>& blocks);

}  // namespace kvloupe::widgets
