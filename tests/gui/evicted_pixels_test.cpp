// What is evicted is seen: in the KV map, in the token strip, in both themes.
#include "app/widgets/figure.h"
#include "tests/gui/view_fixture.h"

#include <string>
#include <utility>

namespace kvloupe {
namespace {

using state::Slot;

class EvictedPixels : public test::ViewTest {
 protected:
  // Of the ground and of its hatching.
  std::pair<int, int> count(const char* view) {
    const auto panel = panels::make_panel(view);
    draw(*panel, true);
    const figure::Image image = renderer.read();
    const widgets::Palette& palette = renderer.gui().palette();
    std::pair<int, int> found;
    for (std::size_t i = 0; i + 3 < image.rgba.size(); i += 4) {
      const ImU32 color = IM_COL32(image.rgba[i], image.rgba[i + 1], image.rgba[i + 2], 255);
      found.first += color == palette.evicted;
      found.second += color == palette.evicted_hatch;
    }
    return found;
  }
};

TEST_F(EvictedPixels, AreDarkRoseAndHatchedInTheMap) {
  open();
  in_both_themes([&] {
    workspace.cursor.set_method(Slot::A, "streaming_llm:budget_tokens=64");
    const auto [ground, hatching] = count("kv_map");
    EXPECT_GT(ground, 2000);
    EXPECT_GT(hatching, ground / 8);
    EXPECT_LT(hatching, ground);
    // A method that evicts nothing has none.
    workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=48");
    EXPECT_EQ(count("kv_map"), std::pair(0, 0));
  });
}

// Most of a text may be evicted: it is underlined, and only the legend has a hatching.
TEST_F(EvictedPixels, AreALineBelowTheText) {
  open();
  workspace.cursor.set_method(Slot::A, "streaming_llm:budget_tokens=64");
  workspace.cursor.go_to(state::parse_goto("chunk=4,key=40-44"));
  in_both_themes([&] {
    const auto [ground, hatching] = count("token_strip");
    EXPECT_GT(ground, 300);
    EXPECT_GT(hatching, 0);
    EXPECT_LT(hatching, 30);
  });
}

}  // namespace
}  // namespace kvloupe
