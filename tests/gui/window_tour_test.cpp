// The first tour, page by page: each opens undone, what it asks for is done, and it counts.
#include "app/figure/image.h"
#include "app/state/questions/kept/kv_map.h"
#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

namespace kvloupe {
namespace {

using state::first_tour;
using state::Slot;

std::string text_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

class WindowTour : public test::WindowTest {
 protected:
  void TearDown() override {
    explorer().tour().close();
    WindowTest::TearDown();
  }
  static shell::TourColumn& tour() { return explorer().tour(); }
  static const state::TourPage& page() { return tour().tour()->pages[tour().page()]; }
  static void wait() {
    settle();
    frames(8);
    settle();
  }
  // A slider of the page, to a share of its length.
  static void drag(const std::string& param, float share) {
    drive("drag",
          [&](ImGuiTestContext* ctx) { drag_slider(ctx, "//###tour/**/##" + param, share); });
    wait();
  }
  // Of the list below a slider of the page; the engine knows no list by its name.
  static void choose_below(const std::string& slider, const std::string& word) {
    drive("choose", [&](ImGuiTestContext* ctx) {
      const ImRect rect = ctx->ItemInfo(("//###tour/**/##" + slider).c_str()).RectFull;
      ctx->MouseMoveToPos(
          {rect.GetCenter().x, rect.GetCenter().y + ImGui::GetFrameHeightWithSpacing()});
      ctx->MouseClick(0);
      ctx->Yield(3);
      ctx->ItemClick(("//$FOCUSED/" + word).c_str());
    });
    wait();
  }
  static void click(const std::string& item) {
    // When its script ends the engine focuses what had the focus before, and brings its tab to the front.
    ImGui::SetWindowFocus("###tour");
    frames(1);
    drive("click",
          [item](ImGuiTestContext* ctx) { ctx->ItemClick(("//###tour/" + item).c_str()); });
    wait();
  }
  // What the page asks for, as the user would bring it about.
  static void do_what_it_says(const std::string& title) {
    state::Cursor& cursor = workspace().cursor;
    const auto layer = [&](int to) { return [&cursor, to] { cursor.set_layer(to); }; };
    const auto chunk = [&](int to) { return [&cursor, to] { cursor.set_chunk(to); }; };
    const auto method = [&](const char* spec) {
      return [&cursor, spec] { cursor.set_method(Slot::A, spec); };
    };
    const auto dragged = [&](const char* param, float share) {
      return [param, share] { drag(param, share); };
    };
    const std::map<std::string, std::function<void()>> steps = {
        {"One question, two thousand tokens", chunk(15)},
        {"What attention is, on this text", layer(2)},
        {"Chunked prefill", chunk(9)},
        {"KV heads are shared",
         [&] {
           cursor.set_layer(17);
           cursor.set_q_head(0);
         }},
        {"Sinks and a heavy tail", layer(21)},
        {"The oracle, and what recall hides", method("quoka:budget_tokens=256")},
        {"Which method keeps the digits?", method("quoka:budget_tokens=256")},
        {"QuoKA: the mean query", dragged("num_queries", 0)},
        {"QuoKA takes the farthest queries", dragged("num_queries", 0.2F)},
        {"QuoKA takes the maximum",
         [] {
           drag("num_queries", 1);
           choose_below("num_queries", "mean");
         }},
        {"The budget cuts the ranking", dragged("budget_tokens", 0.4F)},
        {"Quest reads bounds of pages", [&] { cursor.set_q_head(3); }},
        {"AQUA leaves out lanes", layer(2)},
        {"SnapKV forgets before it is asked", [] { explorer().run_command("go.lost"); }},
        {"CompactAttention keeps blocks", chunk(12)},
        {"Open and closed loop", chunk(19)},
        {"What a budget costs", [&] { cursor.set_option("budget_sweep.metric", "span_kept"); }}};
    if (const auto found = steps.find(title); found != steps.end()) found->second();
  }
};

TEST_F(WindowTour, EveryPageOpensUndoneAndCanBeDone) {
  tour().open(first_tour());
  ASSERT_TRUE(tour().is_open());
  wait();
  const std::size_t count = tour().tour()->pages.size();
  EXPECT_GE(count, 18U);
  for (std::size_t i = 0; i < count; ++i) {
    SCOPED_TRACE(page().title);
    ASSERT_EQ(tour().page(), i);
    ASSERT_TRUE(workspace().has_trace());
    EXPECT_EQ(workspace().traces.ready()->path, page().at.trace);
    EXPECT_TRUE(page().at.view.empty() || explorer().panels().visible(page().at.view));
    EXPECT_EQ(tour().is_done(i), page().goals.empty());
    do_what_it_says(page().title);
    wait();
    EXPECT_TRUE(tour().is_done(i));
    if (i + 1 < count) click("Next");
  }
}

// What the box holds is on screen soon: the view of the first page, and not an empty one.
TEST_F(WindowTour, TheFirstPageHasItsPicture) {
  tour().open(first_tour());
  wait();
  ASSERT_TRUE(explorer().panels().visible("token_strip"));
  const auto strip = workspace().ask(state::KvMapQuestion{place(), workspace().method()});
  ASSERT_TRUE(strip) << strip.error;
  const ImGuiWindow* window = ImGui::FindWindowByName(in("token_strip").c_str() + 2);
  ASSERT_NE(window, nullptr);
  const ImRect rect = window->InnerRect;
  figure::Image pixels;
  app->after_render = [&] { pixels = app->read_pixels(); };
  frames(1);
  app->after_render = nullptr;
  std::map<std::uint32_t, int> colors;
  for (int y = static_cast<int>(rect.Min.y); y < static_cast<int>(rect.Max.y); ++y)
    for (int x = static_cast<int>(rect.Min.x); x < static_cast<int>(rect.Max.x); ++x) {
      const unsigned char* at = &pixels.rgba[4 * (static_cast<std::size_t>(y) * pixels.width + x)];
      ++colors[at[0] + 256U * at[1] + 65536U * at[2]];
    }
  int most = 0, all = 0;
  for (const auto& [color, count] : colors) {
    most = std::max(most, count);
    all += count;
  }
  EXPECT_LT(most, 0.9 * all) << "a tenth of the view is more than its background";
}

TEST_F(WindowTour, BeginsOnTheStartScreenAndTurnsByKeys) {
  close_all();
  frames(3);
  drive("begin", [](ImGuiTestContext* ctx) { ctx->ItemClick("//Welcome/Guided tour"); });
  wait();
  ASSERT_TRUE(tour().is_open());
  ASSERT_TRUE(workspace().has_trace());
  const auto press = [](ImGuiKeyChord keys) {
    drive("keys", [keys](ImGuiTestContext* ctx) { ctx->KeyPress(keys); });
    wait();
  };
  press(ImGuiMod_Shift | ImGuiKey_PageDown);
  press(ImGuiMod_Shift | ImGuiKey_PageDown);
  EXPECT_EQ(tour().page(), 2U);
  for (int i = 0; i < 3; ++i) press(ImGuiMod_Shift | ImGuiKey_PageUp);
  EXPECT_EQ(tour().page(), 0U);
}

TEST_F(WindowTour, AMethodThatLosesTheDigitsDoesNotCount) {
  tour().open(first_tour());
  while (page().title != "Which method keeps the digits?") tour().step(1);
  wait();
  for (const char* loses : {"snapkv:budget_tokens=256", "uniform_queries:budget_tokens=256",
                            "oracle:budget_tokens=256"}) {
    workspace().cursor.set_method(Slot::A, loses);
    wait();
    EXPECT_FALSE(tour().is_done(tour().page())) << loses;
  }
}

TEST_F(WindowTour, IsReadAnewWhenItsFileIsSaved) {
  const auto copy = std::filesystem::absolute("copy.md");
  std::string text = text_of(first_tour());
  const std::string from = "../traces/";
  const std::string to = (first_tour().parent_path().parent_path() / "traces").string() + "/";
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  std::ofstream(copy) << text;
  tour().open(copy);
  wait();
  click("Next");
  const auto save = [&](const std::string& what) {
    std::ofstream(copy) << what;
    std::filesystem::last_write_time(
        copy, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    frames(3);
    wait();
  };
  std::string changed = text;
  changed.replace(changed.find("# What attention is"), 19, "# What it attends to");
  save(changed);
  EXPECT_THAT(page().title, StartsWith("What it attends to"));
  EXPECT_EQ(tour().page(), 1U);
  // What is not understood leaves what was there.
  save("no tour");
  EXPECT_THAT(page().title, StartsWith("What it attends to"));
  // A page that asks for what is not there cannot be done; one of controls alone shows them.
  const std::string front = text.substr(0, text.find("\n# ") + 1);
  save(front + "# One\n\n```tour\nmethod: run:99\n```\nText.\n");
  EXPECT_EQ(page().title, "One");
  EXPECT_FALSE(tour().is_done(0));
  save(front + "# Two\n\n```tour\nmethod: quoka:budget_tokens=64\nknob: num_queries\n```\nText.\n");
  EXPECT_TRUE(tour().is_done(0));
  drive("the knob", [](ImGuiTestContext* ctx) {
    EXPECT_NE(ctx->ItemInfo("//###tour/**/##num_queries", ImGuiTestOpFlags_NoError).ID, 0U);
  });
  click("\u00D7##close tour");
  EXPECT_FALSE(tour().is_open());
}

}  // namespace
}  // namespace kvloupe
