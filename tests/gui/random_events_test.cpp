// Somebody at random: clicks, drags, wheel, keys, commands, workspaces, methods, traces opened and closed.
// Whatever happens, the window lives on, and no frame keeps its thread at work for a tenth of a second.
// The time is the thread's own, so that a busy machine changes nothing; Mesa draws no pixel here
// (GALLIUM_NOOP), for its time is not the window's.
//
// KVLOUPE_EVENTS is how many, KVLOUPE_SEED which, KVLOUPE_TRACES (a:b) what is opened beside the small
// ones. What was done is in random_events.txt, to its last line if the program dies.
#include "app/state/perspectives.h"
#include "app/state/view_list.h"
#include "tests/gui/frame_watch.h"
#include "tests/gui/slowness.h"
#include "tests/gui/window_fixture.h"

#include <fmt/format.h>
#include <imgui_internal.h>

#include <array>
#include <cfloat>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

namespace kvloupe {
namespace {

using state::Slot;

constexpr double kMostMilliseconds = 100.0 * test::kSlowness;
constexpr long kEvents = 800;

long number_of(const char* variable, long otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

class RandomEvents : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    ::setenv("GALLIUM_NOOP", "1", 0);
    shell::AppWindow::Options options;
    options.remember = false;
    options.settings.window_width = 1280;
    options.settings.window_height = 800;
    start(std::move(options));
    ImGuiTestEngine_GetIO(engine).ConfigWatchdogWarning = FLT_MAX;
    ImGuiTestEngine_GetIO(engine).ConfigWatchdogKillTest = FLT_MAX;
    // No other process: what these are clicked for is tested elsewhere.
    const auto refuse = [](const std::vector<std::string>&, const CancelToken&) {
      return std::string("not here");
    };
    explorer().exporter().run_command = refuse;
    explorer().runs().run_command = refuse;
    explorer().capture().run().program = "/bin/false";
    explorer().capture().estimator().program = "/bin/false";
  }
  static std::vector<std::string> traces() {
    test::GuiTraceOptions whole, decoded, hostile;
    decoded.num_tokens = 390;
    decoded.decoded = 6;
    decoded.seed = 2;
    hostile.num_tokens = 700;
    hostile.nan_key_at = 5;
    hostile.hostile_names = {"a\nname \u202E of %s several ###words"};
    std::vector<std::string> paths{test::write_gui_trace("whole.h5", whole),
                                   test::write_gui_trace("decoded.h5", decoded),
                                   test::write_gui_trace("hostile.h5", hostile)};
    if (const char* more = std::getenv("KVLOUPE_TRACES")) {
      std::istringstream list(more);
      for (std::string path; std::getline(list, path, ':');) paths.push_back(path);
    }
    return paths;
  }

  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[static_cast<std::size_t>(upto(static_cast<int>(list.size())))];
  }
  ImVec2 somewhere() {
    const ImVec2 size = ImGui::GetIO().DisplaySize;
    return {static_cast<float>(upto(static_cast<int>(size.x))),
            static_cast<float>(upto(static_cast<int>(size.y)))};
  }

  // What is done from now on; the frames that follow are its own.
  void say(const std::string& event) {
    watch_.now(event);
    log_ << event << std::endl;
  }
  // Goes there, and says on what it is.
  std::string at(ImGuiTestContext* ctx, ImVec2 position) {
    ctx->MouseTeleportToPos(position);
    ctx->Yield();
    const ImGuiContext& gui = *ImGui::GetCurrentContext();
    const char* window = gui.HoveredWindow != nullptr ? gui.HoveredWindow->Name : "nothing";
    return fmt::format("at {:.0f},{:.0f} on {}", position.x, position.y, window);
  }

  void click(ImGuiTestContext* ctx) {
    const std::string where = at(ctx, somewhere());
    switch (upto(10)) {
      case 0: say("double click " + where); return ctx->MouseDoubleClick();
      case 1:
      case 2: say("right click " + where); return ctx->MouseClick(ImGuiMouseButton_Right);
      case 3: say("middle click " + where); return ctx->MouseClick(ImGuiMouseButton_Middle);
      default: say("click " + where); return ctx->MouseClick();
    }
  }
  void drag(ImGuiTestContext* ctx) {
    const std::string where = at(ctx, somewhere());
    const ImVec2 to = somewhere();
    say(fmt::format("drag {} to {:.0f},{:.0f}", where, to.x, to.y));
    const ImVec2 from = ImGui::GetIO().MousePos;
    ctx->MouseDragWithDelta({to.x - from.x, to.y - from.y},
                            upto(6) == 0 ? ImGuiMouseButton_Right : ImGuiMouseButton_Left);
  }
  void turn_wheel(ImGuiTestContext* ctx) {
    say("wheel " + at(ctx, somewhere()));
    ctx->MouseWheelY(static_cast<float>(upto(9) - 4));
  }
  void press_key(ImGuiTestContext* ctx) {
    static constexpr std::array<ImGuiKeyChord, 33> kKeys = {
        ImGuiKey_LeftArrow,
        ImGuiKey_RightArrow,
        ImGuiKey_UpArrow,
        ImGuiKey_DownArrow,
        ImGuiKey_PageUp,
        ImGuiKey_PageDown,
        ImGuiKey_Home,
        ImGuiKey_End,
        ImGuiKey_Space,
        ImGuiKey_Escape,
        ImGuiKey_Enter,
        ImGuiKey_Tab,
        ImGuiKey_Delete,
        ImGuiKey_Backspace,
        ImGuiKey_X,
        ImGuiKey_F1,
        ImGuiKey_F5,
        ImGuiMod_Shift | ImGuiKey_RightArrow,
        ImGuiMod_Shift | ImGuiKey_LeftArrow,
        ImGuiMod_Ctrl | ImGuiKey_Z,
        ImGuiMod_Ctrl | ImGuiKey_Y,
        ImGuiMod_Ctrl | ImGuiKey_F,
        ImGuiMod_Ctrl | ImGuiKey_G,
        ImGuiMod_Ctrl | ImGuiKey_K,
        ImGuiMod_Ctrl | ImGuiKey_E,
        ImGuiMod_Ctrl | ImGuiKey_D,
        ImGuiMod_Ctrl | ImGuiKey_C,
        ImGuiMod_Ctrl | ImGuiKey_V,
        ImGuiMod_Ctrl | ImGuiKey_A,
        ImGuiMod_Ctrl | ImGuiKey_LeftBracket,
        ImGuiMod_Ctrl | ImGuiKey_RightBracket,
        ImGuiMod_Ctrl | ImGuiKey_Equal,
        ImGuiMod_Ctrl | ImGuiKey_Minus,
    };
    const ImGuiKeyChord key = one_of(kKeys);
    say(fmt::format("key {}", ImGui::GetKeyChordName(key)));
    ctx->KeyPress(key);
  }
  void type(ImGuiTestContext* ctx) {
    static constexpr std::array kTexts = {
        "needle", "quoka", "1173", "-1", "\u00E9\u4E2D", "chunk=3", "layer=99,q_head=-4"};
    const char* text = one_of(kTexts);
    say(fmt::format("text {}", text));
    ctx->KeyChars(text);
    if (upto(2) == 0) ctx->KeyPress(ImGuiKey_Enter);
  }
  void run_command(ImGuiTestContext* ctx) {
    const shell::Command& command = one_of(explorer().commands());
    if (command.id == "quit") return;
    say("command " + command.id);
    explorer().run_command(std::string(command.id));
    ctx->Yield(2);
  }
  void change_place(ImGuiTestContext* ctx) {
    if (!workspace().has_trace()) return;
    state::Cursor& cursor = workspace().cursor;
    const trace::TraceInfo& info = place().info();
    switch (upto(5)) {
      case 0:
        say("layer");
        cursor.set_layer(one_of(info.layers));
        break;
      case 1:
        say("head");
        cursor.set_q_head(upto(info.model.num_q_heads));
        break;
      case 2: {
        const std::int32_t key = upto(std::max(1, info.num_tokens - 8));
        say(fmt::format("keys from {} on", key));
        cursor.set_keys(key, key + 1 + upto(7));
        break;
      }
      case 3:
        say("workspace");
        cursor.set_perspective(one_of(state::perspectives()).id);
        break;
      default: say("chunk"); cursor.set_chunk(upto(static_cast<int>(info.chunks.size())));
    }
    ctx->Yield(2);
  }
  void change_method(ImGuiTestContext* ctx) {
    static constexpr std::array kMethods = {"quoka:budget_tokens=64",
                                            "quoka:num_queries=4",
                                            "oracle:budget_ratio=0.1",
                                            "h2o:budget_tokens=96",
                                            "snapkv:budget_tokens=128",
                                            "quest:budget_tokens=64,page_size=8",
                                            "streaming_llm",
                                            "xattention:lowering=union,block_size=32",
                                            "aqua:basis=self",
                                            "compact_attention",
                                            "tova:budget_tokens=50",
                                            "dense"};
    if (!workspace().has_trace()) return;
    const Slot slot = upto(2) == 0 ? Slot::A : Slot::B;
    if (upto(4) == 0 && !place().info().runs.empty()) {
      say("recorded run");
      workspace().cursor.set_run(slot, upto(static_cast<int>(place().info().runs.size())));
    } else {
      const char* method = one_of(kMethods);
      say(fmt::format("method {}", method));
      workspace().cursor.set_method(slot, method);
    }
    ctx->Yield(2);
  }
  void change_option(ImGuiTestContext* ctx) {
    const state::ViewInfo& view = one_of(state::views());
    if (!workspace().has_trace() || view.options.empty()) return;
    const state::ViewOption& option = one_of(view.options);
    const std::string& choice = one_of(option.choices);
    say(fmt::format("option {}.{} = {}", view.id, option.name, choice));
    explorer().panels().show(view.id);
    workspace().cursor.set_option(view.id + "." + option.name, choice);
    ctx->Yield(3);
  }
  void change_trace(ImGuiTestContext* ctx) {
    if (workspace().traces.tabs().size() > 2 || (workspace().has_trace() && upto(4) == 0)) {
      say("close the trace");
      explorer().run_command("close");
    } else {
      const std::string& path = one_of(paths_);
      say("open " + path);
      workspace().traces.open(path);
    }
    ctx->Yield(3);
  }
  void one_event(ImGuiTestContext* ctx) {
    const int chance = upto(100);
    if (chance < 34) return click(ctx);
    if (chance < 42) return drag(ctx);
    if (chance < 50) return turn_wheel(ctx);
    if (chance < 66) return press_key(ctx);
    if (chance < 69) return type(ctx);
    if (chance < 77) return run_command(ctx);
    if (chance < 86) return change_place(ctx);
    if (chance < 93) return change_method(ctx);
    if (chance < 98) return change_option(ctx);
    change_trace(ctx);
  }

  void run_script(long events) {
    ImGuiTest* test = IM_REGISTER_TEST(engine, "window", "random");
    test->TestFunc = [this, events](ImGuiTestContext* ctx) {
      watch_.script_begins();
      for (long i = 0; i < events && !ctx->IsError(); ++i) {
        one_event(ctx);
        // A dialog that nobody closes would swallow the rest.
        if (i % 20 == 19) ctx->KeyPress(ImGuiKey_Escape, 2);
      }
      watch_.script_ends();
    };
    ImGuiTestEngine_QueueTest(engine, test);
    while (!ImGuiTestEngine_IsTestQueueEmpty(engine)) {
      watch_.begin();
      app->frame();
      watch_.end();
      ImGuiTestEngine_PostSwap(engine);
    }
    EXPECT_EQ(test->Output.Status, ImGuiTestStatus_Success);
  }

  const std::vector<std::string> paths_ = traces();
  std::mt19937 random_{static_cast<unsigned>(number_of("KVLOUPE_SEED", 20261125))};
  std::ofstream log_{"random_events.txt"};
  test::FrameWatch watch_;
};

TEST_F(RandomEvents, NoneHoldsUpTheWindow) {
  open(paths_.front());
  app->after_render = [this] { watch_.rendered(); };
  run_script(number_of("KVLOUPE_EVENTS", kEvents));
  app->after_render = nullptr;
  std::fputs(watch_.report().c_str(), stdout);
  EXPECT_GT(watch_.frames(), 100U);
  EXPECT_LT(watch_.worst().processor_ms, kMostMilliseconds)
      << "in a frame of: " << watch_.worst().event;
  settle();
}

}  // namespace
}  // namespace kvloupe
