// What the hand does in every view: the menu of a right click, copying, keys of one's own, several files
// dropped at once, tooltips that wait, the line of text, dots on the rail, names and pins of runs.
#include "app/shell/saved/run_marks_file.h"
#include "app/state/questions/how_it_works/query_relevance.h"
#include "app/state/questions/kept/text_line.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "app/widgets/key_names.h"
#include "app/widgets/tooltip.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace kvloupe {
namespace {

using state::Slot;

constexpr int kNear = 4;  // keys of a pixel or two

class WindowHands : public test::WindowTest {
 protected:
  void SetUp() override {
    static const std::string path = test::write_gui_trace("hands.h5");
    std::filesystem::remove(path + ".session.json");
    path_ = path;
    open_alone(path);
    workspace().cursor.set_run(Slot::A, 0);  // quoka
    workspace().cursor.set_run(Slot::B, 1);  // streaming_llm
    workspace().cursor.show(Slot::A);
    workspace().cursor.set_chunk(1 << 30);
    workspace().cursor.set_keys(768, 784);
    settle();
  }
  static void press(ImGuiKeyChord keys) {
    drive("press", [keys](ImGuiTestContext* ctx) {
      ctx->KeyPress(keys);
      ctx->Yield(2);
    });
  }
  // While a script runs the engine has a clipboard of its own: each reads it at its end.
  static const std::string& clipboard() { return copied_; }
  static void read_clipboard() {
    const char* text = ImGui::GetClipboardText();
    copied_ = text != nullptr ? text : "";
  }
  // The middle of a token in the largest plot of the KV map, in its first row.
  static ImVec2 in_map(double key, double chunk) {
    return in_plot("kv_map", key + 0.5, chunk + 0.5);
  }
  static void show_map() {
    workspace().cursor.set_perspective("kept");
    settle();
    explorer().panels().show("kv_map");
    settle();
    forget_plots();
    ASSERT_TRUE(explorer().panels().visible("kv_map"));
  }
  // The window that opened last.
  static std::string in_popup(const std::string& item) {
    const auto& popups = ImGui::GetCurrentContext()->OpenPopupStack;
    return popups.empty() ? item : "//" + std::string(popups.back().Window->Name) + item;
  }
  static void right_click(ImVec2 at, const std::string& item) {
    drive("right click", [&](ImGuiTestContext* ctx) {
      ctx->MouseMoveToPos(at);
      ctx->Yield(2);
      ctx->MouseClick(ImGuiMouseButton_Right);
      ctx->Yield(3);
      ctx->ItemClick(in_popup("/" + item).c_str());
      ctx->Yield(3);
      read_clipboard();
    });
    settle();
  }

  static inline std::string copied_;
  std::string path_;
};

TEST_F(WindowHands, ARightClickOnAMapCopiesWatchesGoesAndExplains) {
  show_map();
  workspace().cursor.set_chunk(15);
  settle();
  right_click(in_map(900, 9), "Copy the value");
  EXPECT_THAT(clipboard(), StartsWith("key "));
  EXPECT_THAT(clipboard(), HasSubstr("chunk 9"));
  EXPECT_THAT(clipboard(), HasSubstr(fmt::format("layer {}", place().layer)))
      << "the value names its place";
  right_click(in_map(900, 9), "###watch");
  EXPECT_NEAR(place().keys.first(), 900, kNear);
  EXPECT_EQ(place().chunk, 15) << "watching goes nowhere";
  right_click(in_map(1000, 9), "###go");
  EXPECT_EQ(place().chunk, 9);
  EXPECT_NEAR(place().keys.first(), 900, kNear) << "going watches nothing";
  right_click(in_map(902, 8), "Copy the link");
  EXPECT_THAT(clipboard(), HasSubstr("--goto"));
  EXPECT_THAT(clipboard(), HasSubstr("chunk=8"));
  EXPECT_THAT(clipboard(), HasSubstr("key=9"));
  right_click(in_map(1000, 9), "Why was it lost?");
  EXPECT_EQ(selection().perspective, "lost");
  EXPECT_NEAR(place().keys.first(), 1000, kNear);
  EXPECT_TRUE(explorer().panels().visible("miss_inspector"));
}

TEST_F(WindowHands, ARightClickOnAQueryOrAHeadGoesThere) {
  workspace().cursor.set_perspective("works");
  settle();
  explorer().panels().show("query_relevance");
  settle();
  forget_plots();
  const auto relevance =
      workspace().ask(state::QueryRelevanceQuestion{place(), workspace().method()});
  ASSERT_TRUE(relevance) << relevance.error;
  const auto& geometry = relevance->queries->geometry;
  // The one that gives most stands apart.
  const auto most = static_cast<std::size_t>(
      std::max_element(geometry.max_attention.begin(), geometry.max_attention.end()) -
      geometry.max_attention.begin());
  right_click(
      in_plot("query_relevance", geometry.relevance[most], double{geometry.max_attention[most]}),
      "###go");
  EXPECT_EQ(place().query, place().chunk_info().begin + static_cast<std::int32_t>(most));
  workspace().cursor.set_perspective("lost");
  settle();
  explorer().panels().show("head_merge");
  settle();
  const int head = place().q_head == 0 ? 1 : 0;
  ImVec2 bar;
  drive("bar", [&](ImGuiTestContext* ctx) {
    const ImGuiTestItemInfo info =
        ctx->ItemInfo(in("head_merge", fmt::format("/$${}/##head", head)).c_str());
    IM_CHECK(info.ID != 0);
    bar = info.RectClipped.GetCenter();
  });
  right_click(bar, "Copy the row");
  EXPECT_THAT(clipboard(), StartsWith(fmt::format("{}\t0.", head)));
  right_click(bar, "###go");
  EXPECT_EQ(place().q_head, head);
}

TEST_F(WindowHands, ADragOfTheRightButtonOpensNothing) {
  show_map();
  drive("drag", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(in_map(400, 9));
    ctx->MouseDown(ImGuiMouseButton_Right);
    ctx->MouseMoveToPos(in_map(800, 9));
    ctx->MouseUp(ImGuiMouseButton_Right);
    ctx->Yield(3);
    IM_CHECK_EQ(ImGui::GetCurrentContext()->OpenPopupStack.Size, 0);
  });
}

TEST_F(WindowHands, AViewOpensBesideAtThePlaceUnderTheMouse) {
  show_map();
  drive("beside", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(in_map(900, 9));
    ctx->Yield(2);
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(3);
    ctx->ItemClick(in_popup("/Open beside").c_str());
    ctx->Yield(3);
    ctx->ItemClick(in_popup("/Heavy tail").c_str());
    ctx->Yield(10);
  });
  settle();
  EXPECT_EQ(place().chunk, 9);
  EXPECT_EQ(selection().perspective, "kept");
  save_picture("beside.png");
  EXPECT_TRUE(explorer().panels().visible("heavy_tail"));
  explorer().run_command("layout.reset");
  settle();
}

TEST_F(WindowHands, ARowIsCopiedWithItsCells) {
  workspace().cursor.set_perspective("kept");
  settle();
  drive("row", [](ImGuiTestContext* ctx) {
    const ImGuiTestItemInfo row = ctx->ItemInfo(in("selected_vs_true", "/##keys/$$0/1").c_str());
    IM_CHECK(row.ID != 0);
    ctx->MouseMoveToPos(row.RectClipped.GetCenter());
    ctx->Yield(2);
    ctx->MouseClick(ImGuiMouseButton_Right);
    ctx->Yield(3);
    ctx->ItemClick(in_popup("/Copy the row").c_str());
    ctx->Yield(2);
    read_clipboard();
  });
  EXPECT_THAT(clipboard(), StartsWith("1\t"));
  EXPECT_EQ(std::count(clipboard().begin(), clipboard().end(), '\t'), 4);
}

TEST_F(WindowHands, OneKeyCopiesTheLink) {
  show_map();
  const auto link_at = [](ImVec2 at) {
    drive("link", [at](ImGuiTestContext* ctx) {
      ctx->MouseMoveToPos(at);
      ctx->Yield(3);
      ctx->KeyPress(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_C);
      ctx->Yield(2);
      read_clipboard();
    });
    return clipboard();
  };
  const std::string of_map = link_at(in_map(902, 8));
  EXPECT_THAT(of_map, HasSubstr("view=kv_map"));
  EXPECT_THAT(of_map, HasSubstr("chunk=8"));
  EXPECT_THAT(of_map, HasSubstr("key=9"));
  // Over nothing it is the place shown.
  const std::string of_place = link_at({2, 2});
  EXPECT_THAT(of_place, HasSubstr("chunk=15"));
  EXPECT_THAT(of_place, Not(HasSubstr("view=")));
}

TEST_F(WindowHands, CtrlCCopiesWhatIsUnderTheMouseButNotFromATextField) {
  show_map();
  drive("copy", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(in_map(900, 9));
    ctx->Yield(3);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_C);
    ctx->Yield(2);
    read_clipboard();
  });
  EXPECT_THAT(clipboard(), StartsWith("key "));
  // The field's own text, with the mouse still over the map.
  drive("field", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_F);
    ctx->Yield(4);
    ctx->KeyChars("magic");
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_A);
    ctx->MouseMoveToPos(in_map(900, 9));
    ctx->Yield(2);
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_C);
    ctx->Yield(2);
    read_clipboard();
  });
  EXPECT_EQ(clipboard(), "magic");
  press(ImGuiKey_Escape);
}

TEST_F(WindowHands, KeysAreFoundChangedAndReset) {
  const auto open_sheet = [](ImGuiTestContext* ctx, const char* query) {
    ctx->KeyPress(ImGuiKey_F1);
    ctx->Yield(3);
    ctx->KeyChars(query);
    ctx->Yield(2);
  };
  drive("change", [&](ImGuiTestContext* ctx) {
    open_sheet(ctx, "other method");
    ctx->ItemClick(in_popup("/**/method.flip/###keys").c_str());
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Space);  // Play or pause has it
    ctx->Yield(2);
    IM_CHECK(!explorer().playing());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_J);
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
    IM_CHECK_EQ(ImGui::GetCurrentContext()->OpenPopupStack.Size, 0);
  });
  EXPECT_EQ(widgets::key_name("method.flip"), "Ctrl+J");
  EXPECT_EQ(explorer().settings().keys.at("method.flip"), "Ctrl+J");
  press(ImGuiKey_X);
  EXPECT_EQ(selection().shown, Slot::A) << "the old key is free";
  press(ImGuiMod_Ctrl | ImGuiKey_J);
  EXPECT_EQ(selection().shown, Slot::B);
  drive("leave and take away", [&](ImGuiTestContext* ctx) {
    open_sheet(ctx, "other method");
    ctx->ItemClick(in_popup("/**/method.flip/###keys").c_str());
    ctx->KeyPress(ImGuiKey_Escape);  // leaves the keys, not the window
    ctx->Yield(2);
    IM_CHECK_EQ(ImGui::GetCurrentContext()->OpenPopupStack.Size, 1);
    IM_CHECK_STR_EQ(widgets::key_name("method.flip").c_str(), "Ctrl+J");
    ctx->ItemClick(in_popup("/**/method.flip/###keys").c_str());
    ctx->KeyPress(ImGuiKey_Backspace);
    ctx->Yield(2);
    IM_CHECK_STR_EQ(widgets::key_name("method.flip").c_str(), "");
    ctx->ItemClick(in_popup("/**/method.flip/Reset").c_str());
    ctx->Yield(2);
    IM_CHECK_STR_EQ(widgets::key_name("method.flip").c_str(), "X");
    ctx->ItemClick(in_popup("/**/method.flip/###keys").c_str());
    ctx->KeyPress(ImGuiMod_Alt | ImGuiKey_X);
    ctx->Yield(2);
    ctx->ItemClick(in_popup("/Reset all").c_str());
    ctx->Yield(2);
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
  });
  EXPECT_THAT(explorer().settings().keys, IsEmpty());
  press(ImGuiKey_X);
  EXPECT_EQ(selection().shown, Slot::A);
}

TEST_F(WindowHands, FilesDroppedTogetherGoWhereTheyBelong) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::current_path() / "dropped";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string trace = test::write_gui_trace(folder / "second.h5");
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  };
  const std::string prompt = write("prompt.txt", "Some notes."),
                    more = write("more.txt", "Some more."),
                    broken = write("broken.h5", "no trace at all"),
                    bytes = write("bytes.bin", std::string("\0\1\2", 3)),
                    gone = (folder / "gone.txt").string();
  const std::size_t said = explorer().messages().history().size();
  explorer().take_dropped({bytes, prompt, trace, broken, more, gone});
  settle();
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(workspace().traces.active()->path, trace);
  EXPECT_TRUE(explorer().capture().is_open());
  EXPECT_EQ(explorer().capture().form().request().file, prompt);
  ASSERT_EQ(explorer().messages().history().size(), said + 1) << "one message for all";
  const std::string& message = explorer().messages().history().back();
  EXPECT_THAT(message, StartsWith("4 of 6 files could not be used"));
  for (const char* part : {"bytes.bin: it is no trace", "broken.h5", "more.txt: a capture has one",
                           "gone.txt: there is no such file"})
    EXPECT_THAT(message, HasSubstr(part));
  drive("close", [](ImGuiTestContext* ctx) { ctx->WindowClose("//New capture###capture"); });
}

TEST_F(WindowHands, TooltipsWaitAndStandBesideTheThing) {
  const auto tip = [](ImGuiTestContext* ctx) {
    const ImGuiWindow* window = ctx->GetWindowByRef("//##Tooltip_00");
    return window != nullptr && window->Active && !window->Hidden ? window : nullptr;
  };
  drive("wait", [&](ImGuiTestContext* ctx) {
    ctx->MouseMove("//##transport/##next");
    ctx->SleepNoSkip(0.2F, 0.02F);
    IM_CHECK(tip(ctx) == nullptr);
    ctx->SleepNoSkip(0.5F, 0.02F);
    const ImGuiWindow* shown = tip(ctx);
    IM_CHECK(shown != nullptr);
    const ImRect button = ctx->ItemInfo("//##transport/##next").RectFull;
    IM_CHECK(!button.Overlaps(shown->Rect()));
    // While the mouse rests there is no frame without it.
    for (int i = 0; i < 20; ++i) {
      ctx->Yield();
      IM_CHECK(tip(ctx) != nullptr);
    }
    ctx->MouseMove("//##transport/##previous");
    IM_CHECK(tip(ctx) == nullptr);  // another thing waits anew
  });
}

TEST_F(WindowHands, ATooltipIsOffTheDialogThatAKeyOpens) {
  explorer().capture().form().request() = {};  // no model: nothing is asked of the program
  show_map();
  drive("open", [](ImGuiTestContext* ctx) {
    const auto window = [&](const char* name) { return ctx->GetWindowByRef(name); };
    const ImGuiWindow* map = window(in("method_diff").c_str());
    IM_CHECK(map != nullptr);
    ctx->MouseMoveToPos(map->DC.DockTabItemRect.GetCenter());
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_N);
    ctx->SleepNoSkip(1, 0.02F);
    const ImGuiWindow* tip = window("//##Tooltip_00");
    const ImGuiWindow* dialog = window("//###capture");
    IM_CHECK(tip != nullptr && tip->Active && !tip->Hidden);
    IM_CHECK(dialog != nullptr && dialog->Active);
    IM_CHECK(!tip->Rect().Overlaps(dialog->Rect()));
    ctx->KeyPress(ImGuiKey_Escape);
    ctx->Yield(2);
  });
}

TEST_F(WindowHands, ATooltipIsOffTheThingAndOffWarningsInsideTheWindow) {
  int side = -1;
  widgets::TooltipRoom room{{0, 0}, {1000, 700}, {400, 300}, {460, 320}, {410, 310}, {}};
  const ImVec2 size{200, 60};
  const auto overlaps = [&](ImVec2 at, ImVec2 from, ImVec2 to) {
    return at.x < to.x && from.x < at.x + size.x && at.y < to.y && from.y < at.y + size.y;
  };
  const ImVec2 below = widgets::place_tooltip(room, size, side);
  EXPECT_GT(below.y, 320);
  // A warning just there: it goes elsewhere, and comes not back while that is as good.
  room.clear = {{{380, 322}, {700, 380}}};
  const ImVec2 elsewhere = widgets::place_tooltip(room, size, side);
  EXPECT_FALSE(overlaps(elsewhere, {380, 322}, {700, 380}));
  EXPECT_FALSE(overlaps(elsewhere, room.thing_from, room.thing_to));
  room.clear.clear();
  const ImVec2 still = widgets::place_tooltip(room, size, side);
  EXPECT_EQ(still.y, elsewhere.y);
  // In a corner it stays inside.
  side = -1;
  room = {{0, 0}, {1000, 700}, {970, 690}, {1000, 700}, {990, 695}, {}};
  const ImVec2 corner = widgets::place_tooltip(room, size, side);
  EXPECT_GE(corner.x, 0);
  EXPECT_LE(corner.x + size.x, 1000);
  EXPECT_LE(corner.y + size.y, 690);
}

TEST_F(WindowHands, TheTextLineFollowsTheMouse) {
  show_map();
  EXPECT_EQ(explorer().text_line().token(), 768) << "at first what is watched";
  const float height = ImGui::FindWindowByName("##text line")->Size.y;
  drive("follow", [](ImGuiTestContext* ctx) {
    ctx->MouseMoveToPos(in_map(900, 9));
    ctx->Yield(3);
  });
  EXPECT_NEAR(explorer().text_line().token(), 900, kNear);
  workspace().cursor.set_option("kv_map.show", "both");
  settle();
  EXPECT_EQ(ImGui::FindWindowByName("##text line")->Size.y, height) << "as high with B";
  const auto looks = workspace().ask(state::TextLineQuestion{place(), workspace().method(Slot::A)});
  ASSERT_EQ(looks.state, state::ResultState::Ready) << looks.error;
  EXPECT_EQ(static_cast<int>(looks->looks.size()), place().info().num_tokens);
  explorer().run_command("text_line");
  frames(3);
  EXPECT_FALSE(ImGui::FindWindowByName("##text line")->Active);
  EXPECT_FALSE(explorer().settings().text_line);
  explorer().run_command("text_line");
  frames(3);
  EXPECT_TRUE(ImGui::FindWindowByName("##text line")->Active);
}

TEST_F(WindowHands, ADotSaysWhereTheWatchedSpanIsLost) {
  const auto question = state::span_loss_question(workspace(), workspace().method(Slot::B));
  const state::SpanCountQuestion counts{question.place, question.method, question.chunks,
                                        question.span};
  workspace().ask(counts);
  settle();
  const auto loss = workspace().ask(counts);
  ASSERT_TRUE(static_cast<bool>(loss)) << loss.error;
  const replay::SpanLoss::Sums sums = loss->sums();
  ASSERT_GT(sums.heads, sums.whole);
  ASSERT_TRUE(explorer().rail().dots().contains("lost"));
  EXPECT_THAT(explorer().rail().dots().at("lost"),
              HasSubstr(fmt::format("some of it lost in {} of {} heads", sums.heads - sums.whole,
                                    sums.heads)));
  workspace().cursor.watch_nothing();
  settle();
  EXPECT_FALSE(explorer().rail().dots().contains("lost"));
}

TEST_F(WindowHands, RunsArePinnedAndNamedAndKeptBesideTheTrace) {
  workspace().cursor.set_perspective("where");
  workspace().cursor.set_method(Slot::A, "oracle:budget_tokens=64");
  settle();
  const auto* tab = workspace().traces.ready();
  const std::string spec = workspace().method(Slot::A).text;
  const std::string row = in("Runs", fmt::format("/runs/$${}/###name", tab->recorded.size()));
  const auto choose = [&](ImGuiTestContext* ctx, const char* item) {
    ctx->ItemClick(row.c_str(), ImGuiMouseButton_Right);
    ctx->Yield(2);
    ctx->ItemClick(in_popup(std::string("/") + item).c_str());
    ctx->Yield(4);
  };
  const auto top_of = [&](std::size_t index) {
    float y = 0;
    drive("where", [&](ImGuiTestContext* ctx) {
      y = ctx->ItemInfo(in("Runs", fmt::format("/runs/$${}/###name", index)).c_str())
              .RectFull.Min.y;
    });
    return y;
  };
  EXPECT_GT(top_of(tab->recorded.size()), top_of(0));
  drive("pin", [&](ImGuiTestContext* ctx) { choose(ctx, "###pin"); });
  EXPECT_LT(top_of(tab->recorded.size()), top_of(0)) << "a pinned row stands on top";
  // In one script: the engine takes the keyboard away at its end.
  drive("name", [&](ImGuiTestContext* ctx) {
    choose(ctx, "###name it");
    ctx->KeyChars("my try");
    ctx->KeyPress(ImGuiKey_Enter);
    ctx->Yield(3);
  });
  EXPECT_EQ(tab->marks.names.at(spec), "my try");
  EXPECT_EQ(workspace().method(Slot::A).text, spec) << "the SPEC stays what it is";
  save_picture("named.png");
  explorer().runs().finish();
  const state::RunMarks kept = shell::load_run_marks(path_);
  EXPECT_EQ(kept, tab->marks);
  // A later opening has them.
  open_alone(path_);
  EXPECT_EQ(workspace().traces.ready()->marks, kept);
}

}  // namespace
}  // namespace kvloupe
