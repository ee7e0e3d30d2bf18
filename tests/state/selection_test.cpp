// Moving about: what is clamped, what is refused, places as text, history.
#include "app/state/selection.h"

#include "core/base/error.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

namespace kvloupe {
namespace {

using state::Slot;

class Selection : public test::WorkspaceTest {};

TEST_F(Selection, IsClampedToTheTrace) {
  open();
  workspace.cursor.set_chunk(99);
  EXPECT_EQ(place().chunk, 7);
  workspace.cursor.step_chunk(-100);
  EXPECT_EQ(place().chunk, 0);
  workspace.cursor.set_layer(7);
  EXPECT_EQ(place().layer, 2);
  workspace.cursor.set_q_head(8);
  EXPECT_EQ(place().kv_head(), 2);
  workspace.cursor.set_q_head(-3);
  EXPECT_EQ(place().q_head, 0);
  workspace.cursor.set_keys(990, 5000);
  EXPECT_EQ(place().keys.bound(), 1000);
}

TEST_F(Selection, ALayerThatIsNotThereIsAnsweredByThoseThatAre) {
  test::GuiTraceOptions options = whole_options();
  options.num_layers = 30;
  options.layers = {1, 2, 3, 7};
  options.runs.clear();
  open(test::write_gui_trace("ranges.h5", options));
  try {
    workspace.cursor.go_to(state::parse_goto("layer=4"));
    FAIL() << "layer 4 was not captured";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("this trace has the layers 1 to 3, 7;"));
  }
}

TEST_F(Selection, StepsAlongTheCapturedLayers) {
  test::GuiTraceOptions options = whole_options();
  options.num_layers = 30;
  options.layers = {0, 3, 7};
  options.runs.clear();
  open(test::write_gui_trace("gaps.h5", options));
  EXPECT_EQ(place().layer, 3);
  workspace.cursor.step_layer(1);
  EXPECT_EQ(place().layer, 7);
  workspace.cursor.step_layer(1);
  EXPECT_EQ(place().layer, 7);
  workspace.cursor.step_layer(-5);
  EXPECT_EQ(place().layer, 0);
  workspace.cursor.set_layer(6);
  EXPECT_EQ(place().layer, 7);
  try {
    workspace.cursor.go_to(state::parse_goto("layer=4"));
    FAIL() << "layer 4 was not captured";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("this trace has the layers 0, 3, 7"));
  }
}

TEST_F(Selection, GoesWhereItIsToldOrExplains) {
  open();
  workspace.cursor.go_to(state::parse_goto("layer=1,kv_head=2,chunk=3"));
  EXPECT_EQ(place().layer, 1);
  EXPECT_EQ(place().q_head, 6);
  EXPECT_EQ(place().chunk, 3);
  workspace.cursor.go_to(state::parse_goto("query=999"));
  EXPECT_EQ(place().chunk, 7);
  EXPECT_EQ(place().query, 999);
  workspace.cursor.go_to(state::parse_goto("key=40-52"));
  EXPECT_EQ(place().keys.first(), 40);
  EXPECT_EQ(place().keys.bound(), 53);
  workspace.cursor.go_to(state::parse_goto("key=70+40-52+50-60"));
  EXPECT_EQ(place().keys.text(), "40-60+70");
  // Several queries: the first is the one, unless it is named; another one ends their company.
  workspace.cursor.go_to(state::parse_goto("queries=300+310-312"));
  EXPECT_EQ(place().chunk, 2);
  EXPECT_EQ(place().query, 300);
  EXPECT_EQ(place().queries.text(), "300+310-312");
  EXPECT_EQ(place().looked_at(), (std::vector<std::int32_t>{44, 54, 55, 56}));
  workspace.cursor.go_to(state::parse_goto("query=311"));
  EXPECT_EQ(place().queries.text(), "300+310-312");
  workspace.cursor.go_to(state::parse_goto("query=305"));
  EXPECT_TRUE(place().queries.empty());
  EXPECT_EQ(place().looked_at(), std::vector<std::int32_t>{49});
  workspace.cursor.go_to(state::parse_goto("query=500,queries=300+500"));
  EXPECT_EQ(place().looked_at(), std::vector<std::int32_t>{500 - 384}) << "those of this chunk";
  workspace.cursor.go_to(state::parse_goto("chunk=2"));
  EXPECT_EQ(place().query, 300) << "the one of them in this chunk";
  workspace.cursor.go_to(state::parse_goto("chunk=1"));
  EXPECT_EQ(place().query, -1);
  EXPECT_TRUE(place().looked_at().empty());
  workspace.cursor.go_to(state::parse_goto("chunk=3"));
  EXPECT_EQ(place().query, 500) << "they stay until another one is chosen";
  workspace.cursor.go_to(state::parse_goto("query=501"));
  EXPECT_TRUE(place().queries.empty());
  workspace.cursor.go_to(state::parse_goto("chunk=3,queries=300+500"));
  EXPECT_EQ(place().query, 500) << "the first of the chunk that is named";
  for (const auto& [where, has] :
       {std::pair{"chunk=8", "0 to 7"}, std::pair{"key=40-1000", "0 to 999"},
        std::pair{"key=4+1000", "0 to 999"}, std::pair{"q_head=9", "0 to 8"},
        std::pair{"kv_head=3", "0 to 2"}, std::pair{"query=1000", "0 to 999"},
        std::pair{"queries=4+1000", "0 to 999"},
        std::pair{"query=5,queries=4+6", "it is not among the queries 4+6"}}) {
    const std::string before = state::goto_text(place());
    try {
      workspace.cursor.go_to(state::parse_goto(where));
      ADD_FAILURE() << where << " is not in the trace";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1) << where;
      EXPECT_THAT(error.what(), HasSubstr(has)) << where;
    }
    EXPECT_EQ(state::goto_text(place()), before) << "half of it was gone to";
  }
}

TEST(Goto, TextThatIsNoPlaceIsRefused) {
  for (const char* wrong : {"chunk", "chunk=", "chunk=x", "chunk=-1", "place=3", "chunk=3;layer=1",
                            "key=5-", "key=5-4", "key=-5", "key=5+", "key=+5", "queries=5-4",
                            "queries=", "key=5+9-7", "chunk=99999999999", "=3", ","}) {
    try {
      state::parse_goto(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << wrong;
    }
  }
  EXPECT_NO_THROW(state::parse_goto(""));
  try {
    state::parse_goto("layer=1,head=3");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("write q_head=3 or kv_head=3"));
  }
}

TEST_F(Selection, PlacesAsTextLeadThereAgain) {
  open();
  for (const char* text :
       {"layer=0,q_head=0,chunk=0", "layer=2,q_head=8,chunk=7,query=997",
        "layer=1,q_head=5,chunk=3,key=40", "layer=1,q_head=5,chunk=3,key=3+40-52+60",
        "layer=1,q_head=5,chunk=3,key=40-52",
        "layer=1,q_head=4,chunk=2,query=301,queries=298-303+310",
        "layer=1,q_head=4,chunk=2,query=300,window=16,key=0-999"}) {
    workspace.cursor.go_to(state::parse_goto("layer=0,q_head=0,chunk=0"));
    state::Place fresh = place();
    fresh.query = -1;
    fresh.keys = {};
    fresh.window = 0;
    state::apply_goto(fresh, state::parse_goto(text));
    EXPECT_EQ(state::goto_text(fresh), text);
  }
}

TEST_F(Selection, AWindowOfQueriesEndsWithTheChunk) {
  open();
  using Window = std::pair<std::int32_t, std::int32_t>;
  const auto window = [&](const char* where) {
    workspace.cursor.go_to(state::parse_goto(where));
    return place().query_window();
  };
  EXPECT_EQ(window("chunk=4"), (Window{512, 640}));
  EXPECT_EQ(window("chunk=4,window=16"), (Window{624, 640}));
  EXPECT_EQ(window("chunk=4,window=2000"), (Window{0, 640}));
  EXPECT_EQ(window("window=0"), (Window{512, 640}));
}

TEST_F(Selection, BackAndForwardWalkPlacesAndScrubbingIsOneStep) {
  open();
  EXPECT_FALSE(workspace.cursor.can_go_back());
  workspace.cursor.set_chunk(6);
  workspace.cursor.set_chunk(5);
  workspace.cursor.set_chunk(4);
  workspace.cursor.set_layer(0);
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_EQ(place().layer, 1);
  EXPECT_EQ(place().chunk, 4);
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_EQ(place().chunk, 7);
  EXPECT_FALSE(workspace.cursor.back());
  EXPECT_TRUE(workspace.cursor.forward());
  EXPECT_EQ(place().chunk, 4);
  workspace.cursor.set_layer(2);  // a new way: the old one is forgotten
  EXPECT_FALSE(workspace.cursor.forward());
  workspace.cursor.set_layer(2);  // nothing changed: nothing to take back
  workspace.cursor.back();
  EXPECT_EQ(place().layer, 1);
}

TEST_F(Selection, MethodsAndOptionsAreStepsToo) {
  open();
  const state::Selection before = workspace.selection();
  workspace.cursor.swap_methods();
  EXPECT_EQ(workspace.method(Slot::A), before.method[1]);
  workspace.cursor.show(Slot::B);
  EXPECT_EQ(workspace.method(), before.method[0]);
  workspace.cursor.set_option("selected_vs_true.filter", "misses");
  EXPECT_EQ(workspace.option("selected_vs_true", "filter"), "misses");
  workspace.cursor.set_option("selected_vs_true.filter", "");
  EXPECT_EQ(workspace.option("selected_vs_true", "filter"), "all");
  for (int steps = 0; steps < 4; ++steps) workspace.cursor.back();
  EXPECT_EQ(workspace.selection(), before);
}

TEST_F(Selection, WithoutATraceNothingMoves) {
  workspace.cursor.set_chunk(3);
  workspace.cursor.step_layer(1);
  workspace.cursor.go_to(state::parse_goto("chunk=3"));
  workspace.cursor.set_method(Slot::A, "quoka:budget_tokens=64");
  workspace.cursor.set_run(Slot::A, 1);
  EXPECT_FALSE(workspace.cursor.back());
  EXPECT_FALSE(workspace.cursor.can_go_forward());
  EXPECT_TRUE(place().empty());
}

}  // namespace
}  // namespace kvloupe
