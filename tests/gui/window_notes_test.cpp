// Notes and undo, by mouse and keyboard.
#include "app/shell/saved/notes_file.h"
#include "app/state/tour.h"
#include "tests/base/matchers.h"
#include "tests/gui/window_fixture.h"

#include <filesystem>
#include <fstream>

namespace kvloupe {
namespace {

using state::kNotesWindow;
using ::testing::Field;

class WindowNotes : public test::WindowTest {
 protected:
  void SetUp() override {
    path_ = test::write_gui_trace("notes.h5");
    std::filesystem::remove(path_ + ".session.json");
    open_alone(path_);
    workspace().cursor.set_perspective("where");
    settle();
  }
  static void press(ImGuiKeyChord keys) {
    drive("press", [keys](ImGuiTestContext* ctx) { ctx->KeyPress(keys); });
  }

  std::string path_;
};

TEST_F(WindowNotes, WhatIsTypedIsThereAfterClosing) {
  workspace().cursor.set_chunk(3);
  drive("note", [](ImGuiTestContext* ctx) {
    ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_D);
    ctx->Yield(4);
    ctx->KeyChars("lost here");
    ctx->Yield(2);
  });
  explorer().notes().finish();  // as the window does when it is closed amid the typing
  const std::vector<shell::Note> notes = shell::load_notes(path_);
  ASSERT_THAT(notes, SizeIs(1));
  EXPECT_EQ(notes[0].text, "lost here");
  EXPECT_EQ(notes[0].at.place.chunk, 3);

  workspace().cursor.set_chunk(5);
  drive("go", [](ImGuiTestContext* ctx) { ctx->ItemClick(in(kNotesWindow, "/**/Go").c_str()); });
  EXPECT_EQ(place().chunk, 3);
}

// The field of the first goes with its trace, so its typing never ends.
TEST_F(WindowNotes, WhatIsTypedOutlivesItsTrace) {
  const std::string first = test::write_gui_trace("closed_amid_typing.h5");
  const std::string second = test::write_gui_trace("noted_next.h5");
  for (const std::string& trace : {first, second}) std::filesystem::remove(trace + ".session.json");
  open_alone(second);
  workspace().cursor.set_perspective("where");
  open(first);
  workspace().cursor.set_perspective("where");
  settle();
  const auto type = [](const char* text, ImGuiKeyChord end) {
    drive("type", [text, end](ImGuiTestContext* ctx) {
      ctx->KeyPress(ImGuiMod_Ctrl | ImGuiKey_D);
      ctx->Yield(4);
      ctx->KeyChars(text);
      ctx->Yield(2);
      ctx->KeyPress(end);
      ctx->Yield(4);
    });
  };
  type("of the first", ImGuiMod_Ctrl | ImGuiKey_W);
  ASSERT_EQ(workspace().traces.find(first), nullptr);
  type("of the second", ImGuiKey_Escape);
  explorer().notes().finish();
  EXPECT_THAT(shell::load_notes(first), ElementsAre(Field(&shell::Note::text, "of the first")));
  EXPECT_THAT(shell::load_notes(second), ElementsAre(Field(&shell::Note::text, "of the second")));
}

TEST_F(WindowNotes, ARemovedNoteIsBroughtBack) {
  EXPECT_TRUE(explorer().run_command("note.add"));
  settle();
  drive("remove", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in(kNotesWindow, "/**/Remove").c_str());
    ctx->Yield(2);
  });
  explorer().notes().finish();
  EXPECT_THAT(shell::load_notes(path_), SizeIs(0));
  drive("back", [](ImGuiTestContext* ctx) {
    ctx->ItemClick(in(kNotesWindow, "/Bring back").c_str());
    ctx->Yield(2);
  });
  explorer().notes().finish();
  EXPECT_THAT(shell::load_notes(path_), SizeIs(1));
}

TEST_F(WindowNotes, UndoTakesTheLastThingBackFirst) {
  workspace().cursor.set_layer(0);
  workspace().cursor.set_chunk(2);
  workspace().cursor.set_layer(1);
  settle();
  drive("close", [](ImGuiTestContext* ctx) {
    ctx->WindowClose(in("Runs").c_str());
    ctx->Yield(3);
  });
  ASSERT_FALSE(explorer().panels().is_open("Runs"));
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_TRUE(explorer().panels().is_open("Runs"));
  EXPECT_EQ(place().layer, 1);
  press(ImGuiMod_Ctrl | ImGuiKey_Z);
  EXPECT_EQ(place().layer, 0);
  EXPECT_EQ(place().chunk, 2);
  press(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_Z);
  EXPECT_EQ(place().layer, 1);
}

TEST_F(WindowNotes, BecomeATour) {
  path_ = test::write_gui_trace("toured.h5");  // notes are remembered by file
  std::filesystem::remove(path_ + ".session.json");
  open_alone(path_);
  workspace().cursor.set_perspective("where");
  settle();
  const std::string file = std::filesystem::absolute("notes_tour.md").string();
  std::filesystem::remove(file);
  for (const int chunk : {2, 6}) {
    workspace().cursor.set_chunk(chunk);
    note(chunk == 2 ? "First" : "Second");
  }
  drive("save", [&](ImGuiTestContext* ctx) {
    ctx->ItemClick(in(kNotesWindow, "/Save as a tour\u2026").c_str());
    save_as(ctx, file);
  });
  settle();
  const state::Tour tour = state::load_tour(file);
  ASSERT_THAT(tour.pages, SizeIs(2));
  EXPECT_EQ(tour.pages[0].title, "First");
  EXPECT_EQ(tour.pages[1].at.place.chunk, 6);
  EXPECT_EQ(tour.trace, std::filesystem::absolute(path_));
  // It leads through the window.
  explorer().tour().open(file);
  frames(6);
  settle();
  EXPECT_EQ(place().chunk, 2);
  explorer().tour().step(1);
  frames(6);
  EXPECT_EQ(place().chunk, 6);
  explorer().tour().close();
}

// Last: its messages stay in the corner for a while.
TEST_F(WindowNotes, AQuestionAboutUnsavedNotesTriesOnce) {
  path_ = test::write_gui_trace("unsaved.h5");
  const std::string session = path_ + ".session.json";
  std::filesystem::remove(session);
  open_alone(path_);
  workspace().cursor.set_perspective("where");
  settle();
  note("saved");
  explorer().notes().finish();
  std::ofstream(session) << "[]";  // nobody's notes: it is left as it is
  note("not saved");
  explorer().run_command("quit");
  frames(3);
  EXPECT_FALSE(explorer().wants_quit());
  const auto said = explorer().messages().history();
  frames(20);
  EXPECT_EQ(explorer().messages().history(), said);
  drive("stay", [](ImGuiTestContext* ctx) { ctx->KeyPress(ImGuiKey_Escape); });
  EXPECT_FALSE(explorer().wants_quit());
  EXPECT_NE(explorer().notes().unsaved(), "");

  std::filesystem::remove(session);
  explorer().notes().finish();
  EXPECT_EQ(explorer().notes().unsaved(), "");
  EXPECT_THAT(shell::load_notes(path_), ElementsAre(Field(&shell::Note::text, "not saved")));
}

}  // namespace
}  // namespace kvloupe
