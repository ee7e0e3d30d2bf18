// A window that throws in the middle of whatever it had begun takes no other along: its own sentence
// stands in it, and it draws again when asked to.
#include "app/figure/headless.h"
#include "app/shell/explorer.h"
#include "app/shell/frame/frame_guard.h"
#include "core/base/error.h"
#include "core/base/whole_file.h"
#include "tests/base/matchers.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/workspace_steps.h"

#include <imgui_internal.h>
#include <implot/implot.h>
#include <implot/implot_internal.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <random>

namespace kvloupe {
namespace {

constexpr const char* kFaulty = "Faulty";

// What a view may have begun when something throws. Each calls `inside` before it ends itself.
struct Nest {
  const char* name;
  void (*around)(const std::function<void()>& inside);
};
using Inside = std::function<void()>;
const Nest kNests[] = {
    {"window",
     [](const Inside& inside) {
       if (ImGui::Begin("inner window")) inside();
       ImGui::End();
     }},
    {"child",
     [](const Inside& inside) {
       if (ImGui::BeginChild("child", {0, 200}, ImGuiChildFlags_Borders)) inside();
       ImGui::EndChild();
     }},
    {"table",
     [](const Inside& inside) {
       if (!ImGui::BeginTable("table", 3)) return;
       ImGui::TableNextColumn();
       ImGui::TableNextColumn();
       inside();
       ImGui::EndTable();
     }},
    {"scrolling table",
     [](const Inside& inside) {
       if (!ImGui::BeginTable("scrolling", 2, ImGuiTableFlags_ScrollY | ImGuiTableFlags_Resizable,
                              {0, 200}))
         return;
       ImGui::TableNextRow();
       ImGui::TableNextColumn();
       inside();
       ImGui::EndTable();
     }},
    {"plot",
     [](const Inside& inside) {
       if (!ImPlot::BeginPlot("plot", {-1, 150})) return;
       ImPlot::SetupAxes("x", "y");
       const float values[] = {1, 2, 3};
       ImPlot::PlotLine("line", values, 3);
       inside();
       ImPlot::EndPlot();
     }},
    {"clipped plot",
     [](const Inside& inside) {
       if (!ImPlot::BeginPlot("clipped", {-1, 150})) return;
       ImPlot::PushPlotClipRect();
       inside();
       ImPlot::PopPlotClipRect();
       ImPlot::EndPlot();
     }},
    {"aligned plots",
     [](const Inside& inside) {
       if (!ImPlot::BeginAlignedPlots("aligned")) return;
       inside();
       ImPlot::EndAlignedPlots();
     }},
    {"subplots",
     [](const Inside& inside) {
       if (!ImPlot::BeginSubplots("subplots", 1, 2, {-1, 150})) return;
       inside();
       ImPlot::EndSubplots();
     }},
    {"id",
     [](const Inside& inside) {
       ImGui::PushID("##id");
       inside();
       ImGui::PopID();
     }},
    {"styles",
     [](const Inside& inside) {
       ImGui::PushStyleColor(ImGuiCol_Text, 0xFF0000FF);
       ImGui::PushStyleVar(ImGuiStyleVar_Alpha, 0.5F);
       ImPlot::PushStyleVar(ImPlotStyleVar_PlotPadding, {1, 1});
       ImPlot::PushStyleColor(ImPlotCol_FrameBg, 0xFF00FF00);
       ImPlot::PushColormap(ImPlotColormap_Hot);
       inside();
       ImPlot::PopColormap();
       ImPlot::PopStyleColor();
       ImPlot::PopStyleVar();
       ImGui::PopStyleVar();
       ImGui::PopStyleColor();
     }},
    {"font and wrap",
     [](const Inside& inside) {
       ImGui::PushFont(nullptr, 20);
       ImGui::PushTextWrapPos(200);
       ImGui::PushItemWidth(50);
       inside();
       ImGui::PopItemWidth();
       ImGui::PopTextWrapPos();
       ImGui::PopFont();
     }},
    {"group and tree",
     [](const Inside& inside) {
       ImGui::BeginGroup();
       ImGui::SetNextItemOpen(true);
       if (ImGui::TreeNode("tree")) {
         inside();
         ImGui::TreePop();
       }
       ImGui::EndGroup();
     }},
    {"disabled",
     [](const Inside& inside) {
       ImGui::BeginDisabled();
       inside();
       ImGui::EndDisabled();
     }},
    {"clip",
     [](const Inside& inside) {
       ImDrawList* draw = ImGui::GetWindowDrawList();
       draw->PushClipRect({0, 0}, {10, 10}, true);
       inside();
       draw->PopClipRect();
     }},
    {"next item",
     [](const Inside& inside) {
       ImGui::SetNextItemWidth(3);
       ImGui::SetNextWindowSize({3, 3});
       inside();
     }},
    {"tooltip",
     [](const Inside& inside) {
       if (ImGui::BeginTooltip()) inside();
       ImGui::EndTooltip();
     }},
};

void begin_all(const std::vector<const Nest*>& nests, std::size_t from, const Inside& innermost) {
  if (from == nests.size())
    innermost();
  else
    nests[from]->around([&] { begin_all(nests, from + 1, innermost); });
}

class Guard : public ::testing::Test {
 protected:
  Guard() : renderer(1280, 900, 1.0F), explorer(workspace, renderer.gui(), without_places()) {
    explorer.panels().add_window(kFaulty, [this] {
      if (draw) draw();
    });
    workspace.traces.open(test::write_gui_trace("guard.h5", {.num_tokens = 640}));
    for (int i = 0; i < 6; ++i) {
      frames(2);
      test::settle(workspace);
      if (i == 1) explorer.panels().open_here(kFaulty);
    }
  }
  static shell::Settings without_places() {
    shell::Settings settings;
    settings.restore_places = false;
    return settings;
  }
  void frames(int count) {
    for (int i = 0; i < count; ++i) {
      explorer.before_frame();
      renderer.frame([&] { explorer.frame(); });
    }
  }
  // As it must be between two frames, whatever was thrown in the last one.
  static void expect_clean(const std::string& after) {
    const ImPlotContext& plots = *ImPlot::GetCurrentContext();
    EXPECT_EQ(plots.CurrentPlot, nullptr) << after;
    EXPECT_EQ(plots.CurrentSubplot, nullptr) << after;
    EXPECT_EQ(plots.ColorModifiers.Size + plots.StyleModifiers.Size + plots.ColormapModifiers.Size,
              0)
        << after;
    EXPECT_EQ(
        GImGui->ColorStack.Size + GImGui->StyleVarStack.Size + GImGui->CurrentTabBarStack.Size, 0)
        << after;
    EXPECT_EQ(GImGui->DisabledStackSize, 0) << after;
  }

  std::function<void()> draw;
  state::Workspace workspace;
  figure::HeadlessRenderer renderer;
  shell::Explorer explorer;
};

TEST_F(Guard, EveryNestingIsTakenBack) {
  std::mt19937 random(20260501);
  std::vector<std::vector<const Nest*>> trials;
  for (const Nest& outer : kNests) {
    trials.push_back({&outer});
    for (const Nest& inner : kNests) trials.push_back({&outer, &inner});
  }
  for (int i = 0; i < 200; ++i) {
    trials.emplace_back();
    for (unsigned depth = 3 + random() % 5; depth > 0; --depth)
      trials.back().push_back(&kNests[random() % std::size(kNests)]);
  }
  int tried = 0;
  for (const auto& nests : trials) {
    std::string name;
    for (const Nest* nest : nests) name += std::string(nest->name) + " > ";
    // Of plots ImPlot allows none in another, but for one in aligned plots.
    std::string plots;
    for (const Nest* nest : nests)
      if (std::string(nest->name).find("plot") != std::string::npos) plots += nest->name;
    if (plots.find("plot") != plots.rfind("plot") && plots != "aligned plotsplot" &&
        plots != "aligned plotsclipped plot")
      continue;
    ++tried;
    bool thrown = false;
    draw = [&] {
      begin_all(nests, 0, [&] {
        thrown = true;
        throw input_error("reached " + name, "it was told to", "nothing");
      });
    };
    frames(1);
    expect_clean(name);
    if (!thrown) continue;  // what stands outside of the window is not drawn
    ASSERT_FALSE(explorer.messages().history().empty()) << name;
    EXPECT_THAT(explorer.messages().history().back(), HasSubstr("reached " + name + ";"));
    EXPECT_TRUE(explorer.panels().visible("kv_map")) << name;
    frames(2);
    expect_clean(name);
    draw = nullptr;
    workspace.cursor.set_chunk(workspace.place().chunk == 3 ? 4 : 3);  // another place: drawn anew
    frames(1);
  }
  std::printf("%d nestings\n", tried);
}

TEST_F(Guard, WhateverIsThrownIsASentence) {
  const std::pair<std::function<void()>, const char*> thrown[] = {
      {[] { throw input_error("what", "why", "remedy"); }, "what; why; remedy"},
      {[] { throw std::bad_alloc(); }, "not enough memory"},
      {[] { throw std::runtime_error("50 %s ##off\x1b[2J"); }, "50 %s ##off\\x1B[2J"},
      {[] { throw 7; }, "the cause is unknown"},
      {[] { ImGui::Button(""); }, "Cannot have an empty ID"},  // misuse of Dear ImGui
  };
  int chunk = 0;
  for (const auto& [act, sentence] : thrown) {
    draw = act;
    workspace.cursor.set_chunk(chunk++);
    frames(2);
    EXPECT_THAT(explorer.messages().history().back(), HasSubstr(sentence));
    expect_clean(sentence);
  }
}

TEST_F(Guard, WindowsStayAsTheUserLeftThem) {
  explorer.panels().open_here("Memory");
  explorer.panels().set_open({"latency@much"}, false);
  const shell::Settings left = explorer.settings();
  EXPECT_THAT(left.opened_panels, ElementsAre("Memory@where", "Faulty@where"));
  EXPECT_THAT(left.closed_panels, ElementsAre("latency@much"));
  const shell::Explorer next(workspace, renderer.gui(), left);
  EXPECT_THAT(next.settings().opened_panels, ElementsAre("Memory@where"));
  EXPECT_THAT(next.settings().closed_panels, ElementsAre("latency@much"));
}

TEST_F(Guard, IsTriedAgainWhereItFailed) {
  int drawn = 0;
  bool fails = true;
  draw = [&] {
    ++drawn;
    if (fails) throw input_error("it failed", "it was told to", "try again");
  };
  frames(5);
  EXPECT_EQ(drawn, 1) << "what failed is not drawn in every frame";
  const ImGuiWindow* window = ImGui::FindWindowByName(explorer.panels().window_of(kFaulty).c_str());
  ASSERT_NE(window, nullptr);
  write_whole_file("guard.png", figure::png_bytes(renderer.read()));
  fails = false;
  // The button is in the middle of the window, below its sentence.
  const ImVec2 center = window->Rect().GetCenter();
  for (float y = window->Rect().Min.y; y < window->Rect().Max.y && drawn == 1; y += 8) {
    ImGui::GetIO().AddMousePosEvent(center.x, y);
    frames(1);
    ImGui::GetIO().AddMouseButtonEvent(0, true);
    frames(2);
    ImGui::GetIO().AddMouseButtonEvent(0, false);
    frames(2);
  }
  EXPECT_GT(drawn, 1);
}

}  // namespace
}  // namespace kvloupe
