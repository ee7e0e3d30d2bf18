#include "app/widgets/markdown.h"

#include "app/widgets/fonts.h"
#include "app/widgets/formula.h"

#include <fmt/format.h>
#include <imgui.h>
#include <md4c.h>

#include <algorithm>
#include <string_view>

namespace kvloupe::widgets {
namespace {

using Kind = MarkdownBlock::Kind;
using Style = MarkdownSpan::Style;

class Builder {
 public:
  std::vector<MarkdownBlock> blocks;

  void enter(MD_BLOCKTYPE type, const void* detail) {
    switch (type) {
      case MD_BLOCK_UL: lists_.push_back(-1); break;
      case MD_BLOCK_OL:
        lists_.push_back(static_cast<int>(static_cast<const MD_BLOCK_OL_DETAIL*>(detail)->start));
        break;
      case MD_BLOCK_LI: begin(Kind::Item); break;
      case MD_BLOCK_H: begin(Kind::Heading); break;
      case MD_BLOCK_CODE: begin(Kind::Code); break;
      case MD_BLOCK_P:
        // The first paragraph of an item is the item.
        if (blocks.empty() || blocks.back().kind != Kind::Item || !blocks.back().spans.empty())
          begin(Kind::Paragraph);
        break;
      default: break;
    }
  }
  void leave(MD_BLOCKTYPE type) {
    if (type == MD_BLOCK_UL || type == MD_BLOCK_OL) lists_.pop_back();
  }
  void enter(MD_SPANTYPE type) { styles_.push_back(style_of(type)); }
  void leave() { styles_.pop_back(); }
  void text(MD_TEXTTYPE type, std::string_view text) {
    if (blocks.empty()) begin(Kind::Paragraph);
    const bool breaks = type == MD_TEXT_SOFTBR || type == MD_TEXT_BR;
    const Style style = styles_.empty() ? Style::Text : styles_.back();
    auto& spans = blocks.back().spans;
    if (spans.empty() || spans.back().style != style) spans.push_back({style, ""});
    spans.back().text += breaks ? " " : text;
  }
  // A formula that is alone in its paragraph stands alone.
  void finish() {
    for (MarkdownBlock& block : blocks)
      if (block.kind == Kind::Paragraph && block.spans.size() == 1 &&
          block.spans.front().style == Style::Formula)
        block.kind = Kind::Formula;
  }

 private:
  static Style style_of(MD_SPANTYPE type) {
    switch (type) {
      case MD_SPAN_STRONG: return Style::Strong;
      case MD_SPAN_EM: return Style::Emphasis;
      case MD_SPAN_CODE: return Style::Code;
      case MD_SPAN_LATEXMATH:
      case MD_SPAN_LATEXMATH_DISPLAY: return Style::Formula;
      default: return Style::Text;
    }
  }
  void begin(Kind kind) {
    MarkdownBlock block;
    block.kind = kind;
    if (kind == Kind::Item && !lists_.empty()) {
      block.depth = static_cast<int>(lists_.size());
      block.marker = lists_.back() < 0 ? "\u2022" : fmt::format("{}.", lists_.back()++);
    }
    blocks.push_back(std::move(block));
  }

  std::vector<int> lists_;  // the next number; below 0: bullets
  std::vector<Style> styles_;
};

ImFont* font_of(Style style) {
  const Fonts& all = fonts();
  if (style == Style::Strong) return all.strong;
  return style == Style::Code ? all.mono : all.body;
}

// Words beside each other, and below where the line is full.
class Lines {
 public:
  Lines(const Palette& palette, float left, float right)
      : palette_(palette), left_(left), right_(right), x_(left) {}

  void add(const MarkdownSpan& span) {
    if (span.style == Style::Formula) return formula(span.text);
    const FontScope font(font_of(span.style));
    const float space = ImGui::CalcTextSize(" ").x;
    std::string_view rest = span.text;
    while (!rest.empty()) {
      if (rest.front() == ' ' || rest.front() == '\n') {
        if (x_ > left_) x_ += space;
        rest.remove_prefix(1);
        continue;
      }
      const std::size_t end = std::min(rest.find_first_of(" \n"), rest.size());
      word(rest.substr(0, end), span.style);
      rest.remove_prefix(end);
    }
  }
  void end() { ImGui::Dummy({right_ - left_, y_ + ImGui::GetTextLineHeight()}); }

 private:
  void wrap(float width) {
    if (x_ <= left_ || x_ + width <= right_) return;
    x_ = left_;
    y_ += ImGui::GetTextLineHeight() + grid(0.25F);
  }
  void word(std::string_view text, Style style) {
    const ImVec2 size = ImGui::CalcTextSize(text.data(), text.data() + text.size());
    wrap(size.x);
    const ImVec2 at(x_, ImGui::GetCursorScreenPos().y + y_);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    if (style == Style::Code)
      draw->AddRectFilled({at.x - grid(0.2F), at.y}, {at.x + size.x + grid(0.2F), at.y + size.y},
                          palette_.raised, grid(0.25F));
    draw->AddText(at, style == Style::Emphasis ? palette_.muted : palette_.text, text.data(),
                  text.data() + text.size());
    x_ += size.x;
  }
  void formula(const std::string& latex) {
    const Formula set(latex);
    wrap(set.size().x);
    // Its letters stand on the line of the words.
    set.draw(ImGui::GetWindowDrawList(),
             {x_, ImGui::GetCursorScreenPos().y + y_ + ImGui::GetFontBaked()->Ascent},
             palette_.text);
    x_ += set.size().x;
  }

  const Palette& palette_;
  float left_, right_, x_, y_ = 0;
};

void block_ui(const Palette& palette, const MarkdownBlock& block) {
  const float left = ImGui::GetCursorScreenPos().x;
  const float right = left + ImGui::GetContentRegionAvail().x;
  if (block.kind == Kind::Formula) {
    const FontScope larger(Type::Text, 1.15F);
    const Formula set(block.spans.front().text);
    const ImVec2 at = ImGui::GetCursorScreenPos();
    set.draw(ImGui::GetWindowDrawList(),
             {left + std::max(0.0F, (right - left - set.size().x) / 2), at.y + set.ascent()},
             palette.text);
    ImGui::Dummy({right - left, set.size().y});
    return;
  }
  const float indent = block.kind == Kind::Item ? em(1.4F) * static_cast<float>(block.depth) : 0;
  if (!block.marker.empty())
    ImGui::GetWindowDrawList()->AddText({left + indent - em(1.2F), ImGui::GetCursorScreenPos().y},
                                        palette.muted, block.marker.c_str());
  Lines lines(palette, left + indent, right);
  for (MarkdownSpan span : block.spans) {
    if (block.kind == Kind::Heading && span.style == Style::Text) span.style = Style::Strong;
    if (block.kind == Kind::Code) span.style = Style::Code;
    lines.add(span);
  }
  lines.end();
}

}  // namespace

std::vector<MarkdownBlock> parse_markdown(const std::string& text) {
  Builder builder;
  MD_PARSER parser = {};
  parser.flags = MD_FLAG_LATEXMATHSPANS | MD_FLAG_NOHTML | MD_FLAG_COLLAPSEWHITESPACE;
  parser.enter_block = [](MD_BLOCKTYPE type, void* detail, void* to) {
    static_cast<Builder*>(to)->enter(type, detail);
    return 0;
  };
  parser.leave_block = [](MD_BLOCKTYPE type, void*, void* to) {
    static_cast<Builder*>(to)->leave(type);
    return 0;
  };
  parser.enter_span = [](MD_SPANTYPE type, void*, void* to) {
    static_cast<Builder*>(to)->enter(type);
    return 0;
  };
  parser.leave_span = [](MD_SPANTYPE, void*, void* to) {
    static_cast<Builder*>(to)->leave();
    return 0;
  };
  parser.text = [](MD_TEXTTYPE type, const MD_CHAR* letters, MD_SIZE size, void* to) {
    static_cast<Builder*>(to)->text(type, {letters, size});
    return 0;
  };
  md_parse(text.data(), static_cast<MD_SIZE>(text.size()), &parser, &builder);
  builder.finish();
  return std::move(builder.blocks);
}

std::string problem_in_markdown(const std::string& text) {
  for (const MarkdownBlock& block : parse_markdown(text))
    for (const MarkdownSpan& span : block.spans)
      if (span.style == Style::Formula)
        if (const std::string problem = problem_of_formula(span.text); !problem.empty())
          return fmt::format("the formula {}: {}", span.text, problem);
  return {};
}

void markdown_ui(const Palette& palette, const std::vector<MarkdownBlock>& blocks) {
  for (const MarkdownBlock& block : blocks) {
    block_ui(palette, block);
    ImGui::Dummy({0, grid(0.5F)});
  }
}

}  // namespace kvloupe::widgets
