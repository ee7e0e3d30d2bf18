// Pictures belong to their results: a panel that has drawn one trace draws another at the same place
// and with the same method as a fresh panel does.
#include "app/figure/figure_page.h"
#include "app/figure/headless.h"
#include "app/panels/panel.h"
#include "app/state/view_list.h"
#include "core/base/whole_file.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>

namespace kvloupe::figure {
namespace {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

// Other numbers in the same chunks: only the tokens decoded at the end differ.
SmallTraceShape shape(int decoded) {
  return {.chunk_lengths = {16, 16, 16, 16}, .decoded = decoded};
}

class PicturesTest : public ::testing::TestWithParam<std::string> {
 protected:
  PicturesTest()
      : workspace_(std::make_shared<MemoryAccount>(),
                   [this](const std::string& path, const MemoryAccountPtr&) {
                     const SmallTrace& trace = path.ends_with("a.h5") ? a_ : b_;
                     auto opened = std::make_shared<state::OpenTrace>();
                     opened->id = ++last_id_;
                     opened->path = path;
                     opened->name = "small.h5";  // captions say no more
                     opened->session = session::SessionPtr(session::SessionPtr(), &trace.session());
                     opened->text.assign(static_cast<std::size_t>(trace.num_tokens()), "token");
                     opened->token_label = opened->text;
                     return state::TracePtr(opened);
                   }) {}

  void wait() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    // No frame begins meanwhile: what no frame asks for is cancelled.
    while (workspace_.answers.busy() && std::chrono::steady_clock::now() < end)
      if (workspace_.answers.deliver() == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void show(const std::string& path, const std::string& method) {
    workspace_.traces.open(path);
    wait();
    workspace_.begin_frame();
    workspace_.cursor.set_method(state::Slot::A, method);
    workspace_.cursor.go_to(state::parse_goto("layer=1,q_head=1,chunk=3"));
  }
  Image draw(HeadlessRenderer& renderer, panels::Panel& panel) {
    panels::DrawContext context{workspace_, renderer.gui().palette(), true};
    for (int quiet = 0, frame = 0; frame < 100 && quiet < 4; ++frame) {
      workspace_.begin_frame();
      renderer.frame([&] { figure_page_ui(context, panel); });
      quiet = workspace_.answers.busy() ? 0 : quiet + 1;
      wait();
    }
    return renderer.read();
  }

  SmallTrace a_{shape(2)}, b_{shape(3)};
  int last_id_ = 0;
  state::Workspace workspace_;
};

TEST_P(PicturesTest, TwoTracesShareNone) {
  const std::map<std::string, std::string> own{
      {"aqua_lanes", "aqua:basis=self"},
      {"block_tables",
       "flash_prefill:lowering=union,block_size=4,sink_blocks=0,window_blocks=1,alpha=0.7,last_"
       "full_blocks=0"},
      {"quest_pages", "quest:budget_tokens=16,page_size=4,skip_layers=0"}};
  const std::string method =
      own.contains(GetParam()) ? own.at(GetParam()) : std::string("quoka:budget_tokens=16");
  HeadlessRenderer renderer(900, 600, 1.0F);
  renderer.gui().apply_style(widgets::ThemeKind::Light, 1.0F);
  auto panel = panels::make_panel(GetParam());
  show("a.h5", method);
  const Image first = draw(renderer, *panel);
  show("b.h5", method);
  const Image second = draw(renderer, *panel);
  panel = panels::make_panel(GetParam());
  const Image fresh = draw(renderer, *panel);
  panel.reset();  // its textures live in the renderer's context
  EXPECT_TRUE(first.rgba != fresh.rgba) << "the traces look alike: the test says nothing";
  EXPECT_TRUE(second.rgba == fresh.rgba) << "see second.png and fresh.png";
  if (HasFailure()) {
    write_whole_file("second.png", png_bytes(second));
    write_whole_file("fresh.png", png_bytes(fresh));
  }
}

INSTANTIATE_TEST_SUITE_P(Views, PicturesTest,
                         ::testing::Values("kv_map", "aqua_lanes", "block_tables", "quest_pages",
                                           "selected_vs_true", "slot_scores", "heavy_tail"),
                         [](const auto& view) { return view.param; });

}  // namespace
}  // namespace kvloupe::figure
