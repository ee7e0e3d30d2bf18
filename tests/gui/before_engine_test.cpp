// What the window shows of a recorded run before Torch is loaded. The program is linked as kvloupe
// is: a call of the engine that comes too early ends it.
#include "app/figure/headless.h"
#include "app/shell/explorer.h"
#include "app/state/questions/how_it_ran/trace_info.h"
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/kept/token_strip.h"
#include "app/state/view_list.h"
#include "core/base/engine_library.h"
#include "core/base/error.h"
#include "core/base/paths.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace kvloupe {
namespace {

using namespace std::chrono_literals;
using state::Slot;

bool torch_is_mapped() {
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), {}};
  return text.find("libtorch_cpu") != std::string::npos;
}

Error no_engine() { return input_error("nothing can be computed", "a test says so", "end it"); }

class BeforeEngine : public ::testing::Test {
 protected:
  void open(const char* path = KVLOUPE_TEST_DATA_DIR "/v1_tiny.h5") {
    workspace.traces.open(path);
    const auto opened = [&] {
      return workspace.has_trace() && workspace.traces.active()->path == path;
    };
    for (int i = 0; i < kMostSteps && !opened(); ++i) step();
    ASSERT_TRUE(opened());
  }
  template <state::Question Q>
  state::Result<Q> answer_to(const Q& question) {
    for (int i = 0; i < kMostSteps; ++i) {
      const auto result = workspace.ask(question);
      if (result.state != state::ResultState::Loading) return result;
      step();
    }
    return workspace.ask(question);
  }
  void step() {
    std::this_thread::sleep_for(5ms);
    workspace.begin_frame();
  }
  state::KvMapQuestion map_question() const { return {workspace.place(), workspace.method()}; }

  static constexpr int kMostSteps = 4000;
  state::Workspace workspace;
};

// First: the second test loads the engine for good.
TEST_F(BeforeEngine, EveryPanelIsDrawnWithoutIt) {
  workspace.answers.start_engine = [] { throw no_engine(); };
  paths::set_config_dir(std::filesystem::current_path() / "config");
  figure::HeadlessRenderer renderer(1280, 800, 1.0F);
  shell::Settings settings;
  settings.restore_places = false;
  shell::Explorer explorer(workspace, renderer.gui(), settings);
  const auto draw = [&] {
    explorer.before_frame();
    renderer.frame([&] { explorer.frame(); });
  };
  draw();
  // The first holds what is read beside runs: a probe, losses, spans; the second a recorded run.
  for (const char* path :
       {KVLOUPE_TEST_DATA_DIR "/goldens/group3_f16.h5", KVLOUPE_TEST_DATA_DIR "/v1_tiny.h5"}) {
    open(path);
    if (!workspace.place().info().runs.empty()) workspace.cursor.set_run(Slot::A, 0);
    for (int i = 0; i < 12; ++i) draw();  // a new layout brings its own tabs to the front
    for (const state::ViewInfo& view : state::views()) {
      if (view.shows_results) continue;
      explorer.panels().show(view.id);
      int frames = 8;  // a tab comes to the front, the view asks, and is answered
      for (int i = 0; i < kMostSteps && frames > 0; ++i) {
        draw();
        if (!workspace.answers.busy()) --frames;
      }
      EXPECT_TRUE(explorer.panels().visible(view.id)) << view.id;
    }
  }
  EXPECT_TRUE(workspace.method(Slot::A).recorded());
  EXPECT_TRUE(workspace.ask(map_question()));
  EXPECT_FALSE(engine_loaded());
  EXPECT_FALSE(torch_is_mapped());
}

TEST_F(BeforeEngine, RecordedRunsAreReadAndTheFirstMeasurementLoadsIt) {
  open();
  ASSERT_TRUE(workspace.method(Slot::A).recorded());
  const auto map = answer_to(map_question());
  ASSERT_EQ(map.state, state::ResultState::Ready) << map.error;
  EXPECT_EQ(map->map.num_tokens, 55);
  EXPECT_GT(map->map.kept.back(), 0);
  workspace.cursor.set_run(Slot::A, 1);
  EXPECT_TRUE(answer_to(map_question()));
  EXPECT_TRUE(answer_to(state::FactsQuestion{workspace.place(), workspace.method()}));
  EXPECT_TRUE(answer_to(state::TraceInfoQuestion{workspace.place()}));
  EXPECT_TRUE(answer_to(state::TextSearchQuestion{workspace.place(), "a"}));
  EXPECT_FALSE(engine_loaded());
  EXPECT_FALSE(torch_is_mapped());

  const auto recall = answer_to(state::RecallQuestion{workspace.place(), workspace.method()});
  EXPECT_EQ(recall.state, state::ResultState::Ready) << recall.error;
  EXPECT_TRUE(engine_loaded());
  EXPECT_TRUE(torch_is_mapped());
}

}  // namespace
}  // namespace kvloupe
