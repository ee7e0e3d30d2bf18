// What the comparison of pictures sees, and what it forgives.
#include "tests/figure/picture_difference.h"

#include "app/widgets/fonts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>

namespace kvloupe::figure::testing {
namespace {

// A plot in small: text, a line, a bar and marks.
struct Scene {
  std::string text = "recall 0.93";
  float line_y = 120, bar_x = 300;
  int marks = 5;
  ImU32 bar_color = IM_COL32(0, 114, 178, 255);
  widgets::ThemeKind theme = widgets::ThemeKind::Light;
};

class PictureDifferenceTest : public ::testing::Test {
 protected:
  Image draw(const Scene& scene) {
    renderer_.gui().apply_style(scene.theme, 1.2F);
    const widgets::Palette& palette = renderer_.gui().palette();
    for (int frame = 0; frame < 3; ++frame)  // glyphs come with the second
      renderer_.frame([&] {
        ImDrawList* list = ImGui::GetBackgroundDrawList();
        list->AddText(widgets::fonts().body, kSmallestText, {20, 20}, palette.text,
                      scene.text.c_str());
        list->AddLine({40, scene.line_y}, {700, scene.line_y - 60}, palette.accent, 1.5F);
        list->AddRectFilled({scene.bar_x, 300}, {scene.bar_x + 40, 420}, scene.bar_color);
        for (int i = 0; i < scene.marks; ++i)
          list->AddCircleFilled({500.0F + 20 * static_cast<float>(i), 350}, 2, palette.miss);
      });
    return renderer_.read();
  }
  // As a reference keeps it.
  Image kept(const Scene& scene) {
    write_reference("scene.png", draw(scene));
    return read_png("scene.png");
  }
  PictureDifference after(const std::function<void(Scene&)>& change) {
    Scene changed;
    change(changed);
    return difference(draw(changed), kept({}));
  }

  static constexpr float kSmallestText = 15.0F;  // the small text of a figure
  HeadlessRenderer renderer_{800, 500, 1.0F};
};

TEST_F(PictureDifferenceTest, AnEqualPictureHasNone) {
  const PictureDifference none = after([](Scene&) {});
  EXPECT_EQ(none.changed, 0);
  EXPECT_TRUE(none.tolerable());
}

TEST_F(PictureDifferenceTest, SeesAnotherDigit) {
  const std::string digits = "0123456789";
  for (const char a : digits)
    for (const char b : digits) {
      if (b <= a) continue;
      const PictureDifference found = difference(draw({.text = std::string("recall 0.9") + a}),
                                                 kept({.text = std::string("recall 0.9") + b}));
      EXPECT_FALSE(found.tolerable()) << a << " for " << b << ": " << found.text();
    }
}

TEST_F(PictureDifferenceTest, SeesWhatMovedVanishedOrHasAnotherColour) {
  const auto sees = [&](const char* what, const std::function<void(Scene&)>& change) {
    const PictureDifference found = after(change);
    EXPECT_FALSE(found.tolerable()) << what << ": " << found.text();
  };
  sees("a line two pixels lower", [](Scene& s) { s.line_y += 2; });
  sees("a line one pixel lower", [](Scene& s) { s.line_y += 1; });
  sees("a bar two pixels aside", [](Scene& s) { s.bar_x += 2; });
  sees("a mark less", [](Scene& s) { --s.marks; });
  sees("another blue", [](Scene& s) { s.bar_color = IM_COL32(40, 114, 178, 255); });
  sees("no sign", [](Scene& s) { s.text = "recall 093"; });
  sees("the other theme", [](Scene& s) { s.theme = widgets::ThemeKind::Dark; });
}

TEST_F(PictureDifferenceTest, ForgivesEdgesThatAreShadedOtherwise) {
  const PictureDifference aside = after([](Scene& s) { s.bar_x += 1; });
  EXPECT_GT(aside.changed, 200);
  EXPECT_TRUE(aside.tolerable()) << "an edge one pixel aside: " << aside.text();
  const Image drawn = draw({}), reference = kept({});
  // Some of the neighbours, as another rule for the edges of shapes gives.
  Image soft = drawn;
  for (std::size_t i = 4; i + 4 < soft.rgba.size(); ++i)
    soft.rgba[i] = static_cast<std::uint8_t>(
        (46 * drawn.rgba[i] + drawn.rgba[i - 4] + drawn.rgba[i + 4] + 24) / 48);
  EXPECT_FALSE(soft.rgba == drawn.rgba);
  EXPECT_TRUE(difference(soft, reference).tolerable()) << difference(soft, reference).text();
  std::mt19937 random(1);
  Image noisy = drawn;
  for (std::uint8_t& level : noisy.rgba)
    level =
        static_cast<std::uint8_t>(std::clamp(level + static_cast<int>(random() % 25) - 12, 0, 255));
  EXPECT_TRUE(difference(noisy, reference).tolerable()) << difference(noisy, reference).text();
}

TEST_F(PictureDifferenceTest, SeesAnotherSize) {
  HeadlessRenderer other(801, 500, 1.0F);
  EXPECT_FALSE(difference(other.read(), draw({})).tolerable());
}

TEST_F(PictureDifferenceTest, AReferenceHasThePicturesColoursRounded) {
  Image image = draw({});
  for (const bool gradient : {false, true}) {
    if (gradient)  // more colours than a palette holds
      for (std::size_t i = 0; i < image.rgba.size(); ++i)
        if (i % 4 != 3) image.rgba[i] = static_cast<std::uint8_t>(i * (1 + i % 4) / 400);
    write_reference("kept.png", image);
    const Image kept = read_png("kept.png");
    ASSERT_EQ(kept.rgba.size(), image.rgba.size());
    int farthest = 0;
    for (std::size_t i = 0; i < image.rgba.size(); ++i)
      farthest = std::max(farthest, std::abs(kept.rgba[i] - image.rgba[i]));
    EXPECT_LE(farthest, 8);
    EXPECT_EQ(difference(image, kept).changed, 0);
  }
  EXPECT_THROW(read_png("absent.png"), std::runtime_error);
}

}  // namespace
}  // namespace kvloupe::figure::testing
