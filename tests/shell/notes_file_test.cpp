// Notes beside a trace: what one window writes another one reads, and no file of another kind is lost.
#include "app/shell/saved/notes_file.h"
#include "app/shell/saved/trace_session.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace kvloupe {
namespace {

using shell::load_notes;
using shell::Note;
using shell::save_notes;

class NotesFile : public ::testing::Test {
 protected:
  NotesFile() { paths::set_config_dir(folder_ / "config"); }

  Note note(const std::string& id, const std::string& text, int layer) const {
    Note note{id, text, {}};
    note.at.trace = trace_;
    note.at.place.layer = layer;
    note.at.methods = {"quoka:budget_tokens=256", "run:1"};
    note.at.options["kv_map.rows"] = "all";
    return note;
  }
  static std::string contents(const std::filesystem::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TemporaryFolder folder_;
  const std::string trace_ = (folder_ / "t.h5").string();
};

TEST_F(NotesFile, ComeBackInTheirOrder) {
  EXPECT_THAT(load_notes(trace_), IsEmpty());
  const Note a = note("a", "why is \"6\" lost?\nsee head 3", 21), b = note("b", "", 0);
  save_notes(trace_, {{"a", a}});
  save_notes(trace_, {{"b", b}});
  EXPECT_THAT(load_notes(trace_), ElementsAre(a, b));
  EXPECT_TRUE(std::filesystem::exists(trace_ + ".session.json"));
}

TEST_F(NotesFile, TwoWindowsChangeEachItsOwn) {
  const Note a = note("a", "mine", 1), b = note("b", "yours", 2);
  save_notes(trace_, {{"a", a}, {"b", b}});
  Note edited = a;
  edited.text = "mine, edited";
  save_notes(trace_, {{"b", std::nullopt}});  // the other window, which knows nothing of the edit
  save_notes(trace_, {{"a", edited}});
  EXPECT_THAT(load_notes(trace_), ElementsAre(edited));
}

TEST_F(NotesFile, GoAlongWithTheTrace) {
  save_notes(trace_, {{"a", note("a", "here", 3)}});
  const std::string moved = (folder_ / "moved.h5").string();
  std::filesystem::rename(trace_ + ".session.json", moved + ".session.json");
  ASSERT_EQ(load_notes(moved).size(), 1u);
  EXPECT_EQ(load_notes(moved).front().at.trace, moved);
  EXPECT_EQ(load_notes(moved).front().at.place.layer, 3);
}

TEST_F(NotesFile, AreKeptElsewhereWhereTheFolderCannotBeWritten) {
  const std::string away = (folder_ / "no such folder" / "t.h5").string();
  Note kept = note("a", "kept", 3);
  kept.at.trace = away;
  save_notes(away, {{"a", kept}});
  EXPECT_THAT(load_notes(away), ElementsAre(kept));
  EXPECT_EQ(shell::session_path(away).parent_path(), paths::state_dir());
}

TEST_F(NotesFile, AreKeptElsewhereWhereTheTraceComesWithTheProgram) {
  EXPECT_EQ(shell::session_path(paths::share_dir() / "traces" / "tour.h5").parent_path(),
            paths::state_dir());
}

TEST_F(NotesFile, AnotherFileOfThatNameIsLeftAlone) {
  for (const char* text : {"not JSON", "[]", "{\"format\": \"other\"}", "{\"format\": 3}",
                           "{\"format\": \"kvloupe-session\", \"notes\": 1}"}) {
    std::ofstream(trace_ + ".session.json") << text;
    EXPECT_THROW(load_notes(trace_), Error) << text;
    EXPECT_THROW(save_notes(trace_, {{"a", note("a", "", 1)}}), Error) << text;
    EXPECT_EQ(contents(trace_ + ".session.json"), text);
  }
}

TEST_F(NotesFile, PartsOfANoteThatMakeNoSenseAreDefaults) {
  std::ofstream(trace_ + ".session.json")
      << R"({"format": "kvloupe-session", "notes": [1, {"text": "no id"},
             {"id": "a", "text": 7, "at": {"goto": "layer=-4", "methods": "x"}}, {"id": "b"}]})";
  const auto notes = load_notes(trace_);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].text, "");
  EXPECT_FALSE(notes[0].at.place.layer);
}

}  // namespace
}  // namespace kvloupe
