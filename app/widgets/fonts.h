// The program's fonts: Inter for the interface, JetBrains Mono for tokens, numbers and SPECs, Noto
// merged in for scripts that a trace needs.
#pragma once

#include <imgui.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::widgets {

struct Fonts {
  ImFont* body = nullptr;
  ImFont* strong = nullptr;
  ImFont* mono = nullptr;
  std::set<std::string> merged;  // Noto files already merged
};

// Loads the fonts into the current ImGui context, with a family of this machine in place of Inter where
// one is named. Missing files fall back, with a message. Throws Error{Input} for a family that is not
// there.
void load_fonts(Fonts& fonts, const std::string& family = {});
// The file of the family and its face's number in it; 400 is regular, 600 semibold. Throws Error{Input}.
std::pair<std::string, int> font_file(const std::string& family, int weight);
// Merges the Noto fonts that hold these code points. Call between frames.
void ensure_glyphs(Fonts& fonts, const std::vector<char32_t>& code_points);
// Of the current ImGui context.
Fonts& fonts();

// The sizes of type that there are. Numbers that stand below each other have figures of one width, so
// they, tokens and SPECs are set in the mono face.
enum class Type { Title, Strong, Text, Number, Caption };

// Text of a type, for a scope.
class FontScope {
 public:
  explicit FontScope(Type type, float times = 1.0F);
  // The size stays as it is.
  explicit FontScope(ImFont* font) { ImGui::PushFont(font, 0); }
  ~FontScope() { ImGui::PopFont(); }
  FontScope(const FontScope&) = delete;
  FontScope& operator=(const FontScope&) = delete;
};

// One em in pixels: what belongs to a text is a multiple of it, so that all scales look alike.
inline float em(float times = 1.0F) { return ImGui::GetFontSize() * times; }
// Steps of 8 pixels at normal size, whatever the type around: what separates things is a multiple of a
// half.
float grid(float steps = 1.0F);

}  // namespace kvloupe::widgets
