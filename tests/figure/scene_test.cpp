// What ImGui drew, found again as shapes: one of each kind, drawn by hand.
#include "app/figure/scene.h"
#include "app/figure/headless.h"
#include "core/base/error.h"

#include <gtest/gtest.h>
#include <imgui.h>

#include <cmath>

namespace kvloupe::figure {
namespace {

constexpr ImU32 kRed = IM_COL32(255, 0, 0, 255), kBlue = IM_COL32(0, 0, 255, 255);
constexpr ImU32 kThin = IM_COL32(255, 0, 0, 128);

class SceneOfAFrame : public ::testing::Test {
 protected:
  SceneOfAFrame() { renderer_.gui().draw_hard_edges(); }

  template <typename Draw>
  Scene scene(const Draw& draw) {
    // Glyphs are made in the first frame and stand in the second.
    for (int frame = 0; frame < 2; ++frame)
      renderer_.frame([&] { draw(*ImGui::GetBackgroundDrawList()); });
    return scene_of(*ImGui::GetDrawData(), [&](ImTextureID id) { return renderer_.texture(id); });
  }
  // The only item, which is of this kind.
  template <typename Shape>
  static Shape only(const Scene& scene) {
    EXPECT_EQ(scene.items.size(), 1U);
    return std::get<Shape>(scene.items.at(0).shape);
  }
  static float area_of(const Outline& outline) {
    float twice = 0;
    for (std::size_t i = 0; i < outline.size(); ++i) {
      const ImVec2 a = outline[i], b = outline[(i + 1) % outline.size()];
      twice += a.x * b.y - b.x * a.y;
    }
    return twice / 2;
  }

  HeadlessRenderer renderer_{200, 100, 1};
};

TEST_F(SceneOfAFrame, ABoxIsOneOutline) {
  const Scene drawn = scene([](ImDrawList& list) { list.AddRectFilled({10, 20}, {40, 30}, kRed); });
  EXPECT_EQ(drawn.width, 200);
  EXPECT_EQ(drawn.height, 100);
  const auto area = only<Area>(drawn);
  EXPECT_EQ(area.color, kRed);
  ASSERT_EQ(area.outlines.size(), 1U);
  EXPECT_EQ(area.outlines[0].size(), 4U);
  EXPECT_FLOAT_EQ(area_of(area.outlines[0]), 300);
}

TEST_F(SceneOfAFrame, ADiscIsOneOutlineAndALineAnother) {
  const Scene drawn = scene([](ImDrawList& list) {
    list.AddCircleFilled({50, 50}, 20, kRed, 64);
    list.AddLine({100, 10}, {100, 90}, kRed, 4);
  });
  const auto area = only<Area>(drawn);
  ASSERT_EQ(area.outlines.size(), 2U);
  EXPECT_EQ(area.outlines[0].size(), 64U);
  EXPECT_NEAR(area_of(area.outlines[0]), 3.14159 * 400, 5);
  EXPECT_FLOAT_EQ(area_of(area.outlines[1]), 320);
}

TEST_F(SceneOfAFrame, WhatIsSeenThroughStaysApart) {
  const auto two = [](ImU32 color) {
    return [color](ImDrawList& list) {
      list.AddRectFilled({10, 10}, {30, 30}, color);
      list.AddRectFilled({20, 20}, {40, 40}, color);
    };
  };
  EXPECT_EQ(scene(two(kRed)).items.size(), 1U);
  EXPECT_EQ(scene(two(kThin)).items.size(), 2U);
}

TEST_F(SceneOfAFrame, AFoldedStripIsNotCutAway) {
  // The second triangle lies over the first: joined at their side it would take away from it.
  const auto area = only<Area>(scene([](ImDrawList& list) {
    list.AddTriangleFilled({10, 10}, {50, 10}, {10, 50}, kRed);
    list.AddTriangleFilled({10, 10}, {50, 10}, {50, 50}, kRed);
  }));
  ASSERT_EQ(area.outlines.size(), 2U);
  for (const Outline& outline : area.outlines) EXPECT_FLOAT_EQ(area_of(outline), 800);
}

TEST_F(SceneOfAFrame, AreasAreCutAtTheirClip) {
  const auto area = only<Area>(scene([](ImDrawList& list) {
    list.PushClipRect({0, 0}, {20, 100});
    list.AddTriangleFilled({0, 0}, {40, 0}, {0, 40}, kRed);
    list.AddRectFilled({50, 50}, {60, 60}, kRed);  // outside
    list.PopClipRect();
  }));
  ASSERT_EQ(area.outlines.size(), 1U);
  EXPECT_FLOAT_EQ(area_of(area.outlines[0]), 800 - 200);
}

TEST_F(SceneOfAFrame, ABoxFades) {
  const auto area = only<Area>(scene([](ImDrawList& list) {
    list.AddRectFilledMultiColor({10, 10}, {30, 30}, kRed, kBlue, kBlue, kRed);
  }));
  EXPECT_EQ(area.color, kRed);
  EXPECT_EQ(area.right_color, kBlue);
  EXPECT_FALSE(area.bottom_color);
  EXPECT_THROW(scene([](ImDrawList& list) {
                 list.AddRectFilledMultiColor({10, 10}, {30, 30}, kRed, kBlue, kRed, kRed);
               }),
               Error);
}

TEST_F(SceneOfAFrame, WordsAreReadAgainWithTheirSpaces) {
  const Scene drawn = scene([](ImDrawList& list) {
    list.AddText({10, 20}, kRed, "mass recall  0.97 \u2192 \u201C\u00E4\u201D");
    list.AddText({10, 60}, kBlue, "below");
  });
  ASSERT_EQ(drawn.items.size(), 2U);
  const auto& words = std::get<Words>(drawn.items[0].shape);
  EXPECT_EQ(utf8_of(words.text), "mass recall  0.97 \u2192 \u201C\u00E4\u201D");
  EXPECT_EQ(words.color, kRed);
  EXPECT_EQ(words.at.size(), words.text.size());
  EXPECT_FLOAT_EQ(words.origin.x, 10);
  EXPECT_GT(words.origin.y, 20);
  EXPECT_LT(words.origin.y, 20 + ImGui::GetFontSize());
  EXPECT_NEAR(words.length, ImGui::CalcTextSize("mass recall  0.97 \u2192 \u201C\u00E4\u201D").x,
              1);
  EXPECT_EQ(drawn.fonts.size(), 1U);
}

TEST_F(SceneOfAFrame, TextsApartAreNotJoined) {
  const Scene drawn = scene([](ImDrawList& list) {
    list.AddText({10, 20}, kRed, "left");
    list.AddText({120, 20}, kRed, "right");
  });
  EXPECT_EQ(drawn.items.size(), 2U);
}

TEST_F(SceneOfAFrame, CutTextHasAClip) {
  const Scene drawn = scene([](ImDrawList& list) {
    list.PushClipRect({0, 0}, {22, 100});
    list.AddText({10, 20}, kRed, "cut in the middle");
    list.PopClipRect();
  });
  ASSERT_EQ(drawn.items.size(), 1U);
  ASSERT_TRUE(drawn.items[0].clip);
  EXPECT_FLOAT_EQ(drawn.items[0].clip->right, 22);
}

}  // namespace
}  // namespace kvloupe::figure
