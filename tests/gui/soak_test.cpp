// The window in a loop: open, scrub, select anew, switch, measure, export, close. At rest after each
// round it says what it takes; tests/tools/soak.py lets it run for long and judges.
//
// KVLOUPE_SOAK_SECONDS is for how long, at least one round.
#include "app/state/view_list.h"
#include "tests/cli/run_program.h"
#include "tests/gui/window_fixture.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using state::Slot;

// Small, so that they are full long before the time is over.
constexpr std::uint64_t kMemoryLimit = 4 << 20;

int entries_of(const char* folder) {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(::sysconf(_SC_PAGESIZE)) / 1e6;
}

double seconds_wanted() {
  const char* text = std::getenv("KVLOUPE_SOAK_SECONDS");
  return text != nullptr ? std::strtod(text, nullptr) : 0;
}

class WindowSoak : public test::WindowTest {
 protected:
  static void SetUpTestSuite() {
    shell::AppWindow::Options options;
    options.window.memory = std::make_shared<MemoryAccount>(kMemoryLimit);
    options.settings.window_width = 1280;
    options.settings.window_height = 800;
    start(std::move(options));
    explorer().exporter().run_command = [](const std::vector<std::string>& arguments,
                                           const CancelToken&) {
      return test::run_program(arguments).last_error_line();
    };
  }
  static const std::string& trace(int number) {
    static const std::vector<std::string> paths = [] {
      test::GuiTraceOptions longer, shorter;
      longer.num_tokens = 640;
      shorter.num_tokens = 390;
      shorter.decoded = 4;
      shorter.seed = 2;
      for (test::GuiTraceOptions* options : {&longer, &shorter}) {
        options->chunk_size = 64;
        options->num_layers = 2;
        options->layers = {0, 1};
        options->runs = {"quoka:budget_tokens=64", "xattention:lowering=union,block_size=32"};
      }
      return std::vector<std::string>{test::write_gui_trace("soak-a.h5", longer),
                                      test::write_gui_trace("soak-b.h5", shorter)};
    }();
    return paths[static_cast<std::size_t>(number)];
  }
  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void scrub() {
    for (int i = 0; i < 12; ++i) {
      workspace().cursor.set_chunk(upto(10));
      workspace().cursor.set_layer(upto(2));
      workspace().cursor.set_q_head(upto(9));
      frames(2);
    }
    drive("scrub", [](ImGuiTestContext* ctx) {
      ctx->ItemClick("//##transport/##first");
      ctx->ItemClick("//##transport/##next");
      ctx->KeyPress(ImGuiKey_RightArrow);
      ctx->ItemClick("//##transport/##last");
    });
  }
  void select_anew() {
    const char* ids[] = {"quoka", "h2o", "snapkv", "oracle", "streaming_llm", "tova"};
    for (const Slot slot : state::kSlots)
      workspace().cursor.set_method(
          slot, std::string(ids[upto(6)]) + ":budget_tokens=" + std::to_string(32 << upto(3)));
    settle();
    workspace().cursor.set_method(Slot::B, "xattention:lowering=union,block_size=32");
    workspace().cursor.swap_methods();
    settle();
  }
  void look_at_all() {
    for (const state::ViewInfo& view : state::views()) {
      explorer().run_command("view." + view.id);
      frames(3);
    }
    settle();
  }
  void measure() {
    explorer().run_command("latency.run");
    const auto end = Clock::now() + std::chrono::milliseconds(200);
    while (Clock::now() < end) frames(1);
    workspace().answers.stop_measuring();
    settle();
  }
  void export_view() {
    const std::string file = fs::absolute("soak.csv").string();
    fs::remove(file);
    explorer().run_command("export.kv_map.csv");
    frames(3);
    drive("export", [file](ImGuiTestContext* ctx) {
      ctx->SetRef("//$FOCUSED");
      ctx->ItemInputValue("##name", file.c_str());
      ctx->Yield(4);
    });
    settle();
    EXPECT_TRUE(fs::exists(file)) << explorer().messages().history().back();
  }
  void round() {
    open_alone(trace(0));
    scrub();
    select_anew();
    look_at_all();
    open(trace(1));
    select_anew();
    scrub();
    measure();
    export_view();
    explorer().run_command("reload");
    settle();
    close_all();
    ASSERT_FALSE(HasFailure());
  }
  // At the same point of every round; the thread that writes what is remembered has come to rest.
  static void tell(Clock::time_point begin) {
    const auto rest = Clock::now() + std::chrono::milliseconds(200);
    while (Clock::now() < rest) frames(1);
    std::printf("soak: seconds %.0f megabytes %.1f descriptors %d threads %d\n",
                std::chrono::duration<double>(Clock::now() - begin).count(), resident_megabytes(),
                entries_of("/proc/self/fd"), entries_of("/proc/self/task"));
    std::fflush(stdout);
  }

 private:
  std::mt19937 random_{20260401};
};

TEST_F(WindowSoak, RoundAfterRound) {
  const auto begin = Clock::now();
  const std::chrono::duration<double> length(seconds_wanted());
  do {
    ASSERT_NO_FATAL_FAILURE(round());
    tell(begin);
  } while (Clock::now() - begin < length);
}

}  // namespace
}  // namespace kvloupe
