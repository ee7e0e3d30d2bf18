// Text that is cut to a width.
#include "app/figure/headless.h"
#include "app/widgets/figure.h"

#include <gtest/gtest.h>
#include <imgui.h>

namespace kvloupe::figure {
namespace {

// The longest beginning that fits with an ellipsis, found by trying each.
std::string plainly_elided(const std::string& text, float width) {
  const auto fits = [&](const std::string& words) {
    return ImGui::CalcTextSize(words.c_str()).x <= width;
  };
  if (fits(text)) return text;
  for (std::size_t keep = text.size(); keep-- > 0;) {
    if ((static_cast<unsigned char>(text[keep]) & 0xC0U) == 0x80U) continue;
    if (const std::string cut = text.substr(0, keep) + "\u2026"; fits(cut)) return cut;
  }
  return "\u2026";
}

TEST(Elided, IsTheLongestBeginningThatFits) {
  HeadlessRenderer renderer(200, 100, 1);
  renderer.frame([] {
    for (const std::string text :
         {"", "i", "WWWWWWWWWW", "a needle in a haystack", "Größe über Maß \u2013 naïve café",
          "quoka:budget_tokens=256,num_queries=16", "two\nlines of text, the second longer"})
      for (float width = 0; width < 260; width += 0.5F)
        EXPECT_EQ(widgets::elided(text, width), plainly_elided(text, width)) << width;
  });
}

TEST(Elided, OfALongTextOnlyTheBeginningCounts) {
  HeadlessRenderer renderer(200, 100, 1);
  renderer.frame([] {
    std::string words;
    while (words.size() < 400) words += "words and more ";
    std::string text = words;
    while (text.size() < 1000000) text += words;
    EXPECT_EQ(widgets::elided(text, 150), widgets::elided(words, 150));
  });
}

}  // namespace
}  // namespace kvloupe::figure
