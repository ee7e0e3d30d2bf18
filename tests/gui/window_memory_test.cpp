// The real window over a trace larger than its memory limit: what it keeps, textures and all, stays
// within it while the user scrubs, and the Memory window shows it by part.
#include "app/figure/headless.h"
#include "app/shell/frame/app_window.h"
#include "core/base/paths.h"
#include "core/base/whole_file.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/slowness.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace kvloupe {
namespace {

constexpr std::uint64_t kLimit = 32 << 20;

// Q, K and V of a layer are 7.5 MiB in fp32, of all six 45 MiB.
const std::string& large_trace() {
  static const std::string path =
      test::write_gui_trace("large.h5", {.num_tokens = 2048,
                                         .num_layers = 6,
                                         .layers = {0, 1, 2, 3, 4, 5},
                                         .head_dim = 64,
                                         .runs = {"quoka:budget_tokens=256"}});
  return path;
}

// One window a program, in the smaller of the two sizes that it is looked at.
class WindowMemory : public ::testing::Test {
 protected:
  WindowMemory() {
    paths::set_config_dir(std::filesystem::current_path() / "config");
    shell::AppWindow::Options options;
    options.remember = false;
    options.vsync = false;
    options.window.memory = memory;
    options.settings.window_width = 1000;
    options.settings.window_height = 700;
    app = std::make_unique<shell::AppWindow>(std::move(options));
  }
  void settle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60 * test::kSlowness);
    for (int quiet = 0; quiet < 6 && std::chrono::steady_clock::now() < end;) {
      app->frame();
      quiet = app->workspace().answers.busy() ? 0 : quiet + 1;
    }
  }
  void save_picture(const std::string& file) {
    app->after_render = [&] { write_whole_file(file, figure::png_bytes(app->read_pixels())); };
    app->frame();
    app->after_render = nullptr;
  }

  const MemoryAccountPtr memory = std::make_shared<MemoryAccount>(kLimit);
  std::unique_ptr<shell::AppWindow> app;
};

TEST_F(WindowMemory, WhatIsKeptStaysWithinTheLimitAndIsShown) {
  app->workspace().traces.open(large_trace());
  settle();
  ASSERT_TRUE(app->workspace().has_trace());
  EXPECT_FALSE(app->explorer().panels().is_open("Memory")) << "it is there for who asks";
  ASSERT_TRUE(app->explorer().run_command("view.memory"));
  settle();
  EXPECT_TRUE(app->explorer().panels().is_open("Memory"));
  std::uint64_t most = 0;
  for (int step = 0; step < 12; ++step) {
    app->workspace().cursor.set_layer(step % 6);
    app->workspace().cursor.set_chunk(15 - step);
    settle();
    EXPECT_LE(memory->held(), kLimit) << step;
    most = std::max(most, memory->held());
  }
  EXPECT_GT(most, kLimit / 2);
  for (const MemoryPart part : kMemoryParts)
    EXPECT_GT(memory->held(part), 0U) << static_cast<int>(part);
  save_picture("memory.png");
  app->explorer().run_command("close");
  settle();
  EXPECT_EQ(memory->held(), memory->held(MemoryPart::Textures)) << "the glyphs alone are left";
}

}  // namespace
}  // namespace kvloupe
