// The program's fonts: Inter for the interface, JetBrains Mono for tokens, numbers and SPECs, Noto
// merged in for scripts that a trace needs.
#pragma once

#include <imgui.h>

#include <set>
#include <string>
#include <vector>

namespace kvloupe::widgets {

struct Fonts {
  ImFont* body = nullptr;
  ImFont* strong = nullptr;
  ImFont* mono = nullptr;
  std::set<std::string> merged;  // Noto files already merged
};

// Loads the fonts into the current ImGui context. Missing files fall back, with a message.
void load_fonts(Fonts& fonts);
// Merges the Noto fonts that hold these code points. Call between frames.
void ensure_glyphs(Fonts& fonts, const std::vector<char32_t>& code_points);
// Of the current ImGui context.
Fonts& fonts();

// Text in another font and relative size, for a scope.
class FontScope {
 public:
  FontScope(ImFont* font, float relative_size) {
    ImGui::PushFont(font, ImGui::GetStyle().FontSizeBase * relative_size);
  }
  ~FontScope() { ImGui::PopFont(); }
  FontScope(const FontScope&) = delete;
  FontScope& operator=(const FontScope&) = delete;
};

// One em in pixels: every distance is a multiple of it, so that all scales look alike.
inline float em(float times = 1.0F) { return ImGui::GetFontSize() * times; }

}  // namespace kvloupe::widgets
