#include "app/widgets/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

namespace kvloupe::widgets {
namespace {

using Box = Formula::Box;

// Shares of the size of type: how far scripts are raised and lowered, the height of a minus, of a capital.
constexpr float kScript = 0.78F, kRaised = 0.4F, kLowered = 0.2F, kAxis = 0.27F, kCapital = 0.74F;
constexpr int kDeepest = 32;

const std::map<std::string_view, std::string_view>& symbols() {
  static const std::map<std::string_view, std::string_view> all = {
      // Greek, with the forms that LaTeX gives the letters; small omicron and capitals that look
      // like Latin ones have no names there.
      {"alpha", "α"},      {"beta", "β"},     {"gamma", "γ"},   {"delta", "δ"},  {"epsilon", "ε"},
      {"varepsilon", "ε"}, {"zeta", "ζ"},     {"eta", "η"},     {"theta", "θ"},  {"iota", "ι"},
      {"kappa", "κ"},      {"lambda", "λ"},   {"mu", "μ"},      {"nu", "ν"},     {"xi", "ξ"},
      {"pi", "π"},         {"rho", "ρ"},      {"sigma", "σ"},   {"tau", "τ"},    {"upsilon", "υ"},
      {"phi", "φ"},        {"varphi", "φ"},   {"chi", "χ"},     {"psi", "ψ"},    {"omega", "ω"},
      {"Gamma", "Γ"},      {"Delta", "Δ"},    {"Theta", "Θ"},   {"Lambda", "Λ"}, {"Xi", "Ξ"},
      {"Pi", "Π"},         {"Sigma", "Σ"},    {"Upsilon", "Υ"}, {"Phi", "Φ"},    {"Psi", "Ψ"},
      {"Omega", "Ω"},      {"cdot", " · "},   {"times", " × "}, {"le", " ≤ "},   {"ge", " ≥ "},
      {"ne", " ≠ "},       {"approx", " ≈ "}, {"in", " ∈ "},    {"to", " → "},   {"infty", "∞"},
      {"pm", " ± "},       {"ldots", "…"},    {"sum", "∑"},     {"prod", "∏"},   {"top", "⊤"},
      {"lVert", "‖"},      {"rVert", "‖"},    {"|", "‖"},       {"{", "{"},      {"}", "}"},
      {",", " "},          {";", " "},        {"quad", "   "},  {"left", ""},    {"right", ""},
      {"cup", " ∪ "}};
  return all;
}

bool is_function(std::string_view name) {
  for (const std::string_view one :
       {"cos", "exp", "log", "max", "min", "softmax", "argmax", "argmin", "mean", "topk"})
    if (name == one) return true;
  return false;
}

float width_of(const std::string& text, float size) {
  return ImGui::GetFont()->CalcTextSizeA(size, 1e9F, 0, text.c_str()).x;
}

// Lays out what it reads; without a size it only reads.
class Setter {
 public:
  Setter(std::string_view text, bool measures) : rest_(text), measures_(measures) {}

  Box all(float size) {
    Box box;
    while (!rest_.empty()) {
      if (rest_.front() == '}') {
        note("a } has no {");
        rest_.remove_prefix(1);
      }
      box.append(row(size));
    }
    return box;
  }
  const std::string& problem() const { return problem_; }

 private:
  void note(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  Box text(const std::string& text, float size) const {
    Box box;
    if (!measures_ || text.empty()) return box;
    box.width = width_of(text, size);
    box.ascent = kCapital * size;
    box.descent = 0.22F * size;
    box.glyphs.push_back({{0, 0}, size, text});
    return box;
  }

  // Until the end of the group.
  Box row(float size) {
    Box box;
    while (!rest_.empty() && rest_.front() != '}') {
      Box base = atom(size);
      scripts(base, size);
      box.append(base);
    }
    return box;
  }

  void scripts(Box& base, float size) {
    const float end = base.width;
    for (int count = 0;
         count < 2 && !rest_.empty() && (rest_.front() == '^' || rest_.front() == '_'); ++count) {
      const bool up = rest_.front() == '^';
      rest_.remove_prefix(1);
      const Box script = atom(kScript * size);
      base.place(script, end, up ? -kRaised * size : kLowered * size);
    }
  }

  Box group(float size) {
    if (!rest_.starts_with('{')) return atom(size);
    if (++depth_ > kDeepest) {
      note("it is nested too deeply");
      rest_ = {};
      return {};
    }
    rest_.remove_prefix(1);
    Box box = row(size);
    if (rest_.empty())
      note("a { has no }");
    else
      rest_.remove_prefix(1);
    --depth_;
    return box;
  }

  // The text in braces as it stands.
  std::string plain() {
    if (!rest_.starts_with('{')) return {};
    const std::size_t end = std::min(rest_.find('}'), rest_.size());
    std::string text(rest_.substr(1, end - 1));
    if (end == rest_.size()) note("a { has no }");
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return text;
  }

  Box atom(float size) {
    if (rest_.empty()) {
      note("something is missing at its end");
      return {};
    }
    const char first = rest_.front();
    if (first == '{') return group(size);
    if (first == '\\') return command(size);
    if (first == '}' || first == '^' || first == '_') {
      note(fmt::format("nothing stands before {}", first));
      rest_.remove_prefix(1);
      return {};
    }
    // One code point.
    std::size_t bytes = 1;
    while (bytes < rest_.size() && (static_cast<unsigned char>(rest_[bytes]) & 0xC0U) == 0x80U)
      ++bytes;
    std::string one(rest_.substr(0, bytes));
    rest_.remove_prefix(bytes);
    if (one == " ") return {};
    if (one == "-") one = " − ";
    if (one == "=" || one == "+" || one == "<" || one == ">") one = " " + one + " ";
    if (one == ",") one = ", ";
    return text(one, size);
  }

  Box command(float size) {
    rest_.remove_prefix(1);
    std::size_t length = 0;
    while (length < rest_.size() && std::isalpha(static_cast<unsigned char>(rest_[length])) != 0)
      ++length;
    length = std::max<std::size_t>(length, rest_.empty() ? 0 : 1);
    const std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    if (name == "frac") return fraction(size);
    if (name == "sqrt") return root(size);
    if (name == "bar" || name == "hat") return accent(size, name == "hat");
    if (name == "text" || name == "mathrm" || name == "operatorname") return text(plain(), size);
    if (is_function(name)) return text(name + " ", size);
    if (const auto found = symbols().find(name); found != symbols().end())
      return text(std::string(found->second), size);
    note(fmt::format("\\{} is not known", name));
    return text("\\" + name, size);
  }

  Box fraction(float size) {
    const Box above = group(0.85F * size), below = group(0.85F * size);
    Box box;
    const float gap = 0.12F * size, width = std::max(above.width, below.width) + 2 * gap;
    box.place(above, (width - above.width) / 2, -(kAxis * size + gap + above.descent));
    box.place(below, (width - below.width) / 2, -kAxis * size + gap + below.ascent);
    box.width = width + gap;
    box.lines.push_back(
        {{{0, -kAxis * size}, {width, -kAxis * size}}, std::max(1.0F, 0.06F * size)});
    return box;
  }

  Box root(float size) {
    const Box inner = group(size);
    Box box;
    const float sign = 0.55F * size, top = -(inner.ascent + 0.12F * size);
    box.place(inner, sign, 0);
    box.ascent = std::max(box.ascent, -top);
    box.lines.push_back({{{0, -0.3F * size},
                          {0.15F * size, -0.38F * size},
                          {0.3F * size, inner.descent * 0.5F},
                          {sign, top},
                          {box.width, top}},
                         std::max(1.0F, 0.06F * size)});
    return box;
  }

  Box accent(float size, bool hat) {
    const Box inner = group(size);
    Box box;
    box.place(inner, 0, 0);
    const float top = -(inner.ascent * 0.85F + 0.12F * size), middle = inner.width / 2;
    Formula::Line line{{{0.05F * size, top}, {inner.width - 0.05F * size, top}},
                       std::max(1.0F, 0.06F * size)};
    if (hat)
      line.points = {{middle - 0.2F * size, top + 0.1F * size},
                     {middle, top - 0.05F * size},
                     {middle + 0.2F * size, top + 0.1F * size}};
    box.lines.push_back(line);
    box.ascent = std::max(box.ascent, -top + 0.05F * size);
    return box;
  }

  std::string_view rest_;
  bool measures_;
  int depth_ = 0;
  std::string problem_;
};

}  // namespace

void Box::place(const Box& other, float x, float down) {
  for (Glyphs part : other.glyphs) {
    part.at = {part.at.x + x, part.at.y + down};
    glyphs.push_back(std::move(part));
  }
  for (Line line : other.lines) {
    for (ImVec2& point : line.points) point = {point.x + x, point.y + down};
    lines.push_back(std::move(line));
  }
  width = std::max(width, x + other.width);
  ascent = std::max(ascent, other.ascent - down);
  descent = std::max(descent, other.descent + down);
}

void Box::append(const Box& other, float down) { place(other, width, down); }

Formula::Formula(const std::string& latex) : box_(Setter(latex, true).all(ImGui::GetFontSize())) {}

void Formula::draw(ImDrawList* draw, ImVec2 baseline, ImU32 color) const {
  ImFont* font = ImGui::GetFont();
  for (const Glyphs& part : box_.glyphs) {
    const float ascent = font->GetFontBaked(part.size)->Ascent;
    draw->AddText(font, part.size, {baseline.x + part.at.x, baseline.y + part.at.y - ascent}, color,
                  part.text.c_str());
  }
  for (Line line : box_.lines) {
    for (ImVec2& point : line.points) point = {point.x + baseline.x, point.y + baseline.y};
    draw->AddPolyline(line.points.data(), static_cast<int>(line.points.size()), color,
                      ImDrawFlags_None, line.thickness);
  }
}

std::string problem_of_formula(const std::string& latex) {
  Setter reader(latex, false);
  reader.all(1);
  return reader.problem();
}

}  // namespace kvloupe::widgets
