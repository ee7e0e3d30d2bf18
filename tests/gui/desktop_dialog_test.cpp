// The desktop's file dialog, by a program that stands in for zenity: what it prints is opened, closing it changes nothing,
// and it ends with the question that it was asked for.
#include "tests/base/temporary_folder.h"
#include "tests/gui/window_fixture.h"

#include <gtest/gtest.h>

#include <csignal>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;

class DesktopDialogs : public test::WindowTest {
 protected:
  void SetUp() override {
    // The library looks for the program once in a process.
    static const TemporaryFolder programs;
    folder_ = programs.path();
    static const bool is_found = [] {
      std::ofstream(folder_ / "zenity")
          << "#!/bin/sh\necho $$ > " << (folder_ / "pid").string() << "\nprintf '%s\\n' \"$@\" > "
          << (folder_ / "arguments").string() << "\n[ -e " << (folder_ / "waits").string()
          << " ] && exec sleep 100\n[ -e " << (folder_ / "fails").string()
          << " ] && exit 1\nsleep 0.5\ncat " << (folder_ / "answer").string() << " 2>/dev/null\n";
      fs::permissions(folder_ / "zenity", fs::perms::owner_all);
      const std::string path = folder_.string() + ":" + std::getenv("PATH");
      return ::setenv("PATH", path.c_str(), 1) == 0 && shell::DesktopDialog::is_there();
    }();
    ASSERT_TRUE(is_found);
    close_all();
    if (!explorer().settings().desktop_dialogs) explorer().run_command("desktop_dialogs");
    for (const char* name : {"pid", "arguments", "waits", "fails", "answer"})
      fs::remove(folder_ / name);
  }
  static std::string text_of(const char* name) {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Until the file is there and has a line.
  static void wait_for(const char* name) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (text_of(name).empty() && std::chrono::steady_clock::now() < end) frames(1);
    ASSERT_FALSE(text_of(name).empty()) << name;
  }
  static void ask() {
    explorer().run_command("open");
    wait_for("arguments");
    for (int i = 0; i < 200; ++i) {
      frames(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    settle();
  }

  static fs::path folder_;
};

fs::path DesktopDialogs::folder_;

TEST_F(DesktopDialogs, WhatItAnswersIsOpened) {
  const std::string trace = fs::absolute(test::write_gui_trace("desktop.h5")).string();
  std::ofstream(folder_ / "answer") << trace << "\n";
  ask();
  ASSERT_TRUE(workspace().has_trace());
  EXPECT_EQ(workspace().place().info().path, trace);
  EXPECT_NE(text_of("arguments").find("Open a trace"), std::string::npos);
  EXPECT_EQ(ImGui::GetTopMostPopupModal(), nullptr) << "the window's own is not there";
}

TEST_F(DesktopDialogs, ClosingItChangesNothing) {
  const std::size_t said = explorer().messages().history().size();
  ask();
  EXPECT_FALSE(workspace().has_trace());
  EXPECT_EQ(ImGui::GetTopMostPopupModal(), nullptr);
  EXPECT_EQ(explorer().messages().history().size(), said) << "nothing was asked to be opened";
  std::ofstream(folder_ / "answer") << "/no/such/file.h5\n";
  ask();
  EXPECT_EQ(explorer().messages().history().size(), said + 1) << "that file was";
}

TEST_F(DesktopDialogs, WhereItCannotBeShownTheWindowsOwnIs) {
  std::ofstream(folder_ / "fails") << "yes";
  ask();
  EXPECT_NE(ImGui::GetTopMostPopupModal(), nullptr);
  drive("close", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_Escape); });
  EXPECT_EQ(ImGui::GetTopMostPopupModal(), nullptr);
}

TEST_F(DesktopDialogs, ItEndsWithTheNextQuestion) {
  std::ofstream(folder_ / "waits") << "yes";
  explorer().run_command("open");
  wait_for("pid");
  const pid_t waiting = std::stoi(text_of("pid"));
  ASSERT_EQ(::kill(waiting, 0), 0);
  frames(20);  // the window goes on meanwhile
  fs::remove(folder_ / "waits");
  explorer().run_command("open");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (::kill(waiting, 0) == 0 && std::chrono::steady_clock::now() < end) frames(1);
  EXPECT_NE(::kill(waiting, 0), 0);
}

TEST_F(DesktopDialogs, TheWindowsOwnIsThereWhereItIsWanted) {
  explorer().run_command("desktop_dialogs");
  explorer().run_command("open");
  frames(4);
  EXPECT_TRUE(text_of("arguments").empty());
  EXPECT_NE(ImGui::GetTopMostPopupModal(), nullptr);
  drive("close", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_Escape); });
  EXPECT_EQ(ImGui::GetTopMostPopupModal(), nullptr);
}

}  // namespace
}  // namespace kvloupe
