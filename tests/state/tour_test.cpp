// What a tour's file says, and what of it is refused, with its line.
#include "app/state/tour.h"
#include "app/state/tour_text.h"
#include "app/state/view_fields.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <string>

namespace kvloupe {
namespace {

using state::Tour;
using state::TourGoal;
using state::TourPage;

constexpr const char* kFront = "---\ntitle: Digits\ntrace: ../t/a.h5\n---\n";

Tour parse(const std::string& rest) { return state::parse_tour(kFront + rest, "/x/tours/one.md"); }

std::string refusal(const std::string& text) {
  try {
    state::parse_tour(text, "/x/tours/one.md");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input) << error.what();
    return error.what();
  }
  return "nothing";
}

TEST(Tour, IsPagesOfAStateATextAndGoals) {
  const Tour tour = parse(
      "\n# Sinks\n\n```tour\nview: kv_map\ngoto: layer=3,chunk=2\nmethod: quoka:budget_tokens=8\n"
      "method: snapkv\nkv_map.truth: on\nworkspace: kept\ntry: Go on.\nsee: A row.\n"
      "done: chunk=3;method=quest;kept=none\ndone: view=attention_map\n```\n"
      "Some **text**:\n\n```\n# no page\n```\n\n# Second\r\n```tour\ntrace: /y/b.h5\n```\n");
  EXPECT_EQ(tour.title, "Digits");
  EXPECT_EQ(tour.trace, "/x/t/a.h5");
  ASSERT_THAT(tour.pages, SizeIs(2));
  const state::TourPage& page = tour.pages[0];
  EXPECT_EQ(page.title, "Sinks");
  EXPECT_EQ(page.at.trace, "/x/t/a.h5");
  EXPECT_EQ(page.at.view, "kv_map");
  EXPECT_EQ(page.at.place.layer, 3);
  EXPECT_THAT(page.at.methods, ElementsAre("quoka:budget_tokens=8", "snapkv"));
  EXPECT_EQ(page.at.options.at("kv_map.truth"), "on");
  EXPECT_EQ(page.at.perspective, "kept");
  EXPECT_EQ(page.to_try, "Go on.");
  EXPECT_EQ(page.to_see, "A row.");
  EXPECT_EQ(page.body, "Some **text**:\n\n```\n# no page\n```");
  ASSERT_THAT(page.goals, SizeIs(2));
  EXPECT_EQ(page.goals[0].at.place.chunk, 3);
  EXPECT_THAT(page.goals[0].at.methods, ElementsAre("quest"));
  EXPECT_EQ(page.goals[0].kept, TourGoal::Kept::None);
  EXPECT_EQ(page.goals[1].view, "attention_map");
  EXPECT_EQ(tour.pages[1].title, "Second");
  EXPECT_EQ(tour.pages[1].at.trace, "/y/b.h5");
}

TEST(Tour, WhatIsNotUnderstoodIsRefusedWithItsLine) {
  const std::string front = kFront;
  EXPECT_THAT(refusal(""), HasSubstr("has no front part"));
  EXPECT_THAT(refusal("# Page\n"), HasSubstr("has no front part"));
  EXPECT_THAT(refusal("---\ntitle: x\n"), HasSubstr("not whole"));
  EXPECT_THAT(refusal("---\ntitle: x\n---\n# P\n"), HasSubstr("not whole"));
  EXPECT_THAT(refusal("---\ncolour: x\n---\n"), HasSubstr("no 'colour'"));
  EXPECT_THAT(refusal(front), HasSubstr("there is no page"));
  EXPECT_THAT(refusal(front + "text\n"), HasSubstr("line 5"));
  EXPECT_THAT(refusal(front + "```tour\n```\n"), HasSubstr("belongs to a page"));
  const auto block = [&](const std::string& lines) {
    return refusal(front + "# P\n```tour\n" + lines + "\n```\n");
  };
  EXPECT_THAT(block("nonsense"), HasSubstr("line 7"));
  EXPECT_THAT(block("colour: red"), HasSubstr("no 'colour'"));
  EXPECT_THAT(block("view: nothing"), HasSubstr("nothing"));
  EXPECT_THAT(block("goto: layer=x"), HasSubstr("line 7"));
  EXPECT_THAT(block("workspace: cellar"), HasSubstr("cellar"));
  EXPECT_THAT(block("kv_map.truth: perhaps"), HasSubstr("perhaps"));
  EXPECT_THAT(block("done: kept=most"), HasSubstr("all, some or none"));
  EXPECT_THAT(block("done: view=nothing"), HasSubstr("nothing"));
  EXPECT_THAT(block("done: num_queries<=few"), HasSubstr("no number"));
  EXPECT_THAT(block("done: queries<=4"), HasSubstr("no method"));
  EXPECT_THAT(block("knob: queries"), HasSubstr("no method has a parameter"));
  EXPECT_THAT(refusal(front + "# P\n```tour\nview: kv_map\n"), HasSubstr("has no end"));
  EXPECT_THROW(state::load_tour("/nowhere/tour.md"), Error);
}

class TourGoals : public test::WorkspaceTest {
 protected:
  bool reached(const std::string& done) {
    const Tour tour = parse("# P\n```tour\ndone: " + done + "\n```\n");
    const TourGoal& goal = tour.pages[0].goals[0];
    is_reached(goal, workspace);
    test::settle(workspace);
    workspace.begin_frame();
    is_reached(goal, workspace);
    test::settle(workspace);
    return is_reached(goal, workspace);
  }
};

TEST_F(TourGoals, AreReachedWhereWhatTheyNameIsShown) {
  EXPECT_FALSE(reached("chunk=3"));  // no trace
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=0,chunk=3"));
  EXPECT_TRUE(reached("chunk=3"));
  EXPECT_TRUE(reached("layer=1,chunk=3"));
  EXPECT_FALSE(reached("layer=2,chunk=3"));
  EXPECT_FALSE(reached("chunk=99"));
  workspace.cursor.set_method(state::Slot::A, "quoka:budget_tokens=64");
  EXPECT_TRUE(reached("chunk=3;method=quoka"));
  EXPECT_FALSE(reached("chunk=3;method=snapkv"));
  EXPECT_FALSE(reached("chunk=3;kv_map.truth=on"));
  EXPECT_TRUE(reached("method=quoka:budget_tokens=64"));
  EXPECT_TRUE(reached("method=quoka:num_queries=16")) << "what is not named may have any value";
  EXPECT_FALSE(reached("method=quoka:num_queries=4"));
  EXPECT_FALSE(reached("method=quoka:budget_tokens=32,num_queries=16"));
  EXPECT_FALSE(reached("method=uniform_queries:num_queries=16"));
  EXPECT_TRUE(reached("budget_tokens<=64;num_queries>=16"));
  EXPECT_FALSE(reached("budget_tokens<=63"));
  EXPECT_FALSE(reached("num_queries>=17"));
  EXPECT_FALSE(reached("method=snapkv;budget_tokens<=64"));
  EXPECT_FALSE(reached("window<=64")) << "quoka has none";
  workspace.cursor.set_option("kv_map.truth", "on");
  EXPECT_TRUE(reached("chunk=3;kv_map.truth=on"));
}

// The last keys before the chunk are those that streaming_llm keeps; the oldest it has evicted.
TEST_F(TourGoals, KeptIsWhatTheMethodShownKeepsOfTheWatchedKeys) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,q_head=0,chunk=6"));
  workspace.cursor.set_method(state::Slot::A, "streaming_llm:budget_tokens=64");
  workspace.cursor.set_keys(760, 764);
  EXPECT_TRUE(reached("chunk=6;kept=all"));
  EXPECT_FALSE(reached("chunk=6;kept=none"));
  workspace.cursor.set_keys(300, 304);
  EXPECT_TRUE(reached("chunk=6;kept=none"));
  EXPECT_FALSE(reached("chunk=6;kept=some"));
}

// Written and read again.
TEST(TourText, IsReadAgainAsTheSame) {
  Tour tour;
  tour.file = "/x/tours/made.md";
  tour.title = "Digits";
  tour.trace = "/x/t/a.h5";
  TourPage first =
      state::page_of_note("Lost here\nBecause of # the\n# head\n```\n# code\n```\nend", {}, 1);
  first.at.trace = "/x/t/a.h5";
  first.at.perspective = "kept";
  first.at.view = "kv_map";
  first.at.place = state::parse_goto("layer=3,q_head=1,chunk=2,span=needle");
  first.at.methods = {"quoka:budget_tokens=8", "aqua:basis=/a b;c%.h5"};
  first.at.options = {{"kv_map.show", "both"}};
  first.at.numbers = state::parse_number_scope("question");
  first.to_see = "What is\ngone.";
  tour.pages.push_back(first);
  TourPage second = state::page_of_note("", {}, 2);
  second.at.trace = "/y/b.h5";
  tour.pages.push_back(second);
  const std::string text = state::text_of(tour);
  EXPECT_THAT(text, HasSubstr("trace: ../t/a.h5"));
  const Tour again = state::parse_tour(text, tour.file);
  EXPECT_EQ(again.title, "Digits");
  EXPECT_EQ(again.trace, tour.trace);
  ASSERT_THAT(again.pages, SizeIs(2));
  EXPECT_EQ(again.pages[0].title, "Lost here");
  EXPECT_TRUE(again.pages[0].at == first.at);
  EXPECT_EQ(again.pages[0].body, "Because of # the\n\\# head\n```\n# code\n```\nend");
  EXPECT_EQ(again.pages[0].to_see, "What is gone.");
  EXPECT_EQ(again.pages[1].title, "Page 2");
  EXPECT_EQ(again.pages[1].at.trace, "/y/b.h5");
}

TEST(TourText, ACodeBlockWithoutAnEndSwallowsNoPage) {
  Tour tour;
  tour.file = "/x/made.md";
  tour.title = "t";
  tour.trace = "/x/a.h5";
  for (const char* note : {"One\n```\nopen", "Two\n```tour\nview: nothing\n```\n```",
                           "Three\n```tour\nview: nothing\n```"}) {
    TourPage page = state::page_of_note(note, {}, 1);
    page.at.trace = "/x/a.h5";
    tour.pages.push_back(page);
  }
  EXPECT_THAT(state::parse_tour(state::text_of(tour), tour.file).pages, SizeIs(3));
}

}  // namespace
}  // namespace kvloupe
