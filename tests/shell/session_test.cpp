// What a window leaves for the next start: its session, beside other windows, after a kill, and when
// the file is not what it should be.
#include "app/shell/saved/session_saver.h"
#include "core/base/paths.h"
#include "tests/base/matchers.h"

#include <sys/stat.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

namespace kvloupe {
namespace {

using shell::SessionFile;
using shell::WindowSession;

constexpr bool kRestore = true, kFresh = false;

class Session : public ::testing::Test {
 protected:
  Session() {
    std::filesystem::remove_all(folder());
    paths::set_config_dir(folder());
  }
  static std::filesystem::path folder() { return std::filesystem::current_path() / "session"; }
  static std::filesystem::path file(int number) {
    return paths::state_dir() / ("session-" + std::to_string(number) + ".json");
  }
  static WindowSession of(const std::string& trace, bool ended = false) {
    WindowSession session;
    session.tabs.emplace_back().trace = trace;
    session.ended = ended;
    return session;
  }
  static void write(const std::string& text) { std::ofstream(file(1)) << text; }
};

TEST_F(Session, AKilledWindowIsGoneOnFrom) {
  WindowSession left = of("/a.h5");
  left.tabs.emplace_back().trace = "/not \xff\xfe utf8.h5";
  left.tabs.back().place.chunk = 3;
  left.tabs.back().device = "sim";
  left.active = 1;
  { SessionFile(kFresh).save(left); }
  const SessionFile next(kRestore);
  EXPECT_EQ(next.problem(), "");
  ASSERT_TRUE(next.restored());
  EXPECT_EQ(*next.restored(), left);
}

TEST_F(Session, WhoNamesTracesLosesNoSession) {
  { SessionFile(kFresh).save(of("/a.h5")); }
  { SessionFile(kFresh).save(of("/b.h5", /*ended=*/true)); }
  const SessionFile next(kRestore);
  ASSERT_TRUE(next.restored());
  EXPECT_EQ(next.restored()->tabs, of("/a.h5").tabs);
}

TEST_F(Session, TwoWindowsHaveTwoFiles) {
  {
    const SessionFile first(kFresh), second(kFresh);
    first.save(of("/first.h5"));
    second.save(of("/second.h5"));
    first.save(of("/first again.h5"));
  }
  const SessionFile first(kRestore), second(kRestore), third(kRestore);
  ASSERT_TRUE(first.restored() && second.restored());
  EXPECT_NE(first.restored()->tabs, second.restored()->tabs);
  EXPECT_FALSE(third.restored());
  EXPECT_TRUE(std::filesystem::exists(file(2)));
}

TEST_F(Session, WindowsThatStartTogetherGoOnFromASessionEach) {
  for (int round = 0; round < 50; ++round) {
    {
      const SessionFile first(kFresh), second(kFresh);
      first.save(of("/first.h5"));
      second.save(of("/second.h5"));
    }
    std::barrier<> start(2);
    std::optional<SessionFile> windows[2];
    const auto open = [&](int i) {
      start.arrive_and_wait();
      windows[i].emplace(kRestore);
    };
    std::thread other(open, 1);
    open(0);
    other.join();
    ASSERT_TRUE(windows[0]->restored() && windows[1]->restored()) << "round " << round;
    EXPECT_NE(windows[0]->restored()->tabs, windows[1]->restored()->tabs);
    for (const auto& window : windows) window->save({});  // nothing is left to go on from
  }
}

TEST_F(Session, ASecondWindowDoesNotOpenWhatWasClosedLongAgo) {
  {
    const SessionFile first(kFresh), second(kFresh);
    first.save(of("/first.h5", /*ended=*/true));
    second.save(of("/second.h5", /*ended=*/true));
  }
  const SessionFile first(kRestore), second(kRestore);
  EXPECT_TRUE(first.restored());
  EXPECT_FALSE(second.restored());
}

TEST_F(Session, WhatEndsTheProgramTwiceIsNotOpenedAThirdTime) {
  for (int start = 0; start < 2; ++start) {
    WindowSession session = of("/deadly.h5");
    session.openings = start;
    { SessionFile(kFresh).save(session); }
    const SessionFile next(kRestore);
    EXPECT_TRUE(next.restored()) << start;
  }
  WindowSession session = of("/deadly.h5");
  session.openings = 2;
  SessionFile(kFresh).save(session);
  const SessionFile next(kRestore);
  EXPECT_FALSE(next.restored());
  EXPECT_THAT(next.problem(), HasSubstr("not opened again"));
}

TEST_F(Session, DamageIsToldAndReplaced) {
  for (const std::string& damaged :
       {std::string("{"), std::string("[1, 2]"), std::string("\0\0\0", 3), std::string("\"text\""),
        std::string(100'000, '['), std::string(5 << 20, ' ')}) {
    write(damaged);
    {
      const SessionFile taken(kRestore);
      EXPECT_FALSE(taken.restored());
      EXPECT_NE(taken.problem(), "") << damaged.substr(0, 20);
      taken.save(of("/a.h5"));
    }
    EXPECT_TRUE(SessionFile(kRestore).restored()) << damaged.substr(0, 20);
  }
}

TEST_F(Session, FieldsOfOtherKindsAreDefaults) {
  for (const char* hostile :
       {"{}", R"({"traces": {"a": 1}})", R"({"traces": [[1, 2, 300], {}, null, 7]})",
        R"({"traces": ["/a.h5"], "active": -1, "openings": "many", "ended": 3})",
        R"({"traces": ["/a.h5"], "active": 99999999999999999999, "openings": 1e300})"}) {
    write(hostile);
    const SessionFile taken(kRestore);
    EXPECT_EQ(taken.problem(), "") << hostile;
    if (taken.restored()) {
      EXPECT_LE(taken.restored()->tabs.size(), 1U) << hostile;
      EXPECT_EQ(taken.restored()->openings, 0) << hostile;
    }
  }
}

TEST_F(Session, WhatAnEarlierVersionLeftIsOpened) {
  write(R"({"traces": ["/a.h5", [47, 255]], "active": 1, "openings": 0, "ended": false})");
  const SessionFile next(kRestore);
  ASSERT_TRUE(next.restored());
  ASSERT_EQ(next.restored()->tabs.size(), 2U);
  EXPECT_EQ(next.restored()->tabs[0].trace, "/a.h5");
  EXPECT_EQ(next.restored()->tabs[1].trace, "/\xff");
  EXPECT_EQ(next.restored()->active, 1U);
}

TEST_F(Session, AFifoInPlaceOfTheFileHoldsNothingUp) {
  ASSERT_EQ(::mkfifo(file(1).c_str(), 0600), 0);
  const SessionFile taken(kRestore);
  EXPECT_THAT(taken.problem(), HasSubstr("no regular file"));
}

TEST_F(Session, AThousandTracesAreTooMany) {
  std::string text = "{\"traces\": [\"/a.h5\"";
  for (int i = 0; i < 1000; ++i) text += ", \"/" + std::to_string(i) + ".h5\"";
  write(text + "]}");
  const SessionFile taken(kRestore);
  ASSERT_TRUE(taken.restored());
  EXPECT_LE(taken.restored()->tabs.size(), 64U);
}

TEST_F(Session, PlacesOfTwoWritersAllArrive) {
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer)
    writers.emplace_back([writer] {
      for (int i = 0; i < 20; ++i) {
        const std::string trace = "/" + std::to_string(writer) + "-" + std::to_string(i) + ".h5";
        state::ViewState place;
        place.trace = trace;
        shell::save_places({place});
      }
    });
  for (std::thread& writer : writers) writer.join();
  std::ifstream file(paths::state_dir() / "places.json");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (int writer = 0; writer < 2; ++writer)
    for (int i = 0; i < 20; ++i)
      EXPECT_THAT(text, HasSubstr("/" + std::to_string(writer) + "-" + std::to_string(i) + ".h5"));
}

}  // namespace
}  // namespace kvloupe
