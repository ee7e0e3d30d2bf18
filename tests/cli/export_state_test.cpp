// Every field of every view's state goes through the command line of the built program and comes back
// as the same value: the words that the window copies say all of it.
#include "app/shell/saved/view_state_json.h"
#include "app/state/export_words.h"
#include "app/state/other_trace.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "tests/base/matchers.h"
#include "tests/base/temporary_folder.h"
#include "tests/cli/run_program.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using nlohmann::ordered_json;
using state::ViewState;

const std::string kTrace = std::string(KVLOUPE_TEST_DATA_DIR) + "/goldens/group3_f16.h5";

// Rows of the table of fields that a state with something else than their default was sent through.
std::set<std::string_view> sent;

// What the program understood of these words.
ViewState understood(std::vector<std::string> words) {
  words.insert(words.end(), {"--state", "-"});
  const test::ProgramResult result = test::run_program(words);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  if (result.exit_code != 0) return {};
  const ordered_json json = ordered_json::parse(result.standard_output);
  EXPECT_EQ(json["schema"], "kvloupe-export/1");
  return shell::state_of_json(json, state::kAllCarriers);
}

void expect_survives(const ViewState& what) {
  for (const state::ViewField& field : state::view_fields())
    if (field.in(state::kCommand) && !field.write(what).empty()) sent.insert(field.name);
  const std::vector<std::string> words = state::export_arguments(what);
  EXPECT_TRUE(understood(words) == what) << ::testing::PrintToString(words);
}

ViewState plain(const std::string& view = "kv_map") {
  ViewState what;
  what.trace = kTrace;
  what.view = view;
  return what;
}

// Nothing of it is as by default.
ViewState full(const std::string& view) {
  ViewState what = plain(view);
  what.picture.theme = state::ThemeKind::Dark;
  what.picture.width = 1200;
  what.picture.height = 675;
  what.picture.scale = 1.5;
  what.methods = {"quest:budget_tokens=64,page_size=8", "run:0"};
  if (state::view_named(view).shows_results) return what;  // it has no place, and no device
  what.place = state::parse_goto("layer=1,q_head=2,chunk=3,query=40,window=8,key=5-9");
  what.shown = state::Slot::B;
  what.device = "sim";
  what.chunk_size = 50;
  return what;
}

TEST(ExportState, EveryChoiceOfEveryOptionOfEveryViewSurvives) {
  for (const state::ViewInfo& view : state::views()) {
    expect_survives(plain(view.id));
    expect_survives(full(view.id));
    for (const state::ViewOption& option : view.options)
      for (const std::string& choice : option.choices) {
        if (state::draws_other_trace(option.name, choice)) continue;  // not without another trace
        ViewState what = full(view.id);
        what.options[view.id + "." + option.name] = choice;
        expect_survives(what);
      }
  }
}

TEST(ExportState, EveryFieldSurvivesAlone) {
  const auto with = [](auto change) {
    ViewState what = plain();
    change(what);
    EXPECT_FALSE(what == plain());
    expect_survives(what);
  };
  for (const char* place : {"layer=3", "q_head=5", "kv_head=1", "chunk=12", "query=1536",
                            "queries=1536-1540+1551", "window=16", "key=40", "key=40-52",
                            "span=needle", "layer=3,q_head=5,chunk=12,query=1536,window=4,key=1-2"})
    with([&](ViewState& s) { s.place = state::parse_goto(place); });
  for (const std::vector<std::string>& methods :
       {std::vector<std::string>{"quoka:budget_tokens=256"},
        {"run:1", "dense"},
        {"future_method:depth=3", "oracle", "random:seed=7", "aqua:basis=/a b;c%.h5"}})
    with([&](ViewState& s) { s.methods = methods; });
  for (const char* device : {"sim", "cuda:0", "cuda:1"})
    with([&](ViewState& s) { s.device = device; });
  with([](ViewState& s) { s.shown = state::Slot::B; });
  for (const char* numbers : {"chunk", "question", "all", "3", "12-15"})
    with([&](ViewState& s) { s.numbers = state::parse_number_scope(numbers); });
  with([](ViewState& s) { s.chunk_size = 64; });
  with([](ViewState& s) { s.picture.theme = state::ThemeKind::Dark; });
  with([](ViewState& s) { s.picture.colors = state::Colors::Gray; });
  with([](ViewState& s) { s.picture.head = false; });
  with([](ViewState& s) { s.picture.width = 1200; });
  with([](ViewState& s) { s.picture.height = 800; });
  for (const double scale : {0.25, 1.1, 1.0 / 3, 8.0})
    with([&](ViewState& s) { s.picture.scale = scale; });
  for (const double width : {2.0, 8.4, 25.0 / 3})
    with([&](ViewState& s) { s.picture.column_cm = width; });
  with([](ViewState& s) {
    s.picture.column_cm = 17.8;
    s.picture.font_pt = 6.5;
  });
  with([](ViewState& s) { s.picture.font = "DejaVu Sans"; });
  with([](ViewState& s) { s.panels = {"method=quoka;goto=layer=3,chunk=12", "method=oracle"}; });
}

TEST(ExportState, AnotherTraceSurvives) {
  const TemporaryFolder folder;
  const std::string copy = (folder / "a copy.h5").string();
  std::filesystem::copy_file(kTrace, copy);
  int able = 0;
  for (const state::ViewInfo& view : state::views())
    for (const state::ViewOption& option : view.options)
      for (const std::string& choice : option.choices) {
        if (!state::draws_other_trace(option.name, choice)) continue;
        ++able;
        ViewState what = full(view.id);
        what.other_trace = copy;
        what.options[view.id + "." + option.name] = choice;
        expect_survives(what);
      }
  EXPECT_EQ(able, 7);  // aqua_lanes, method_diff in two ways, and the four of two traces
}

// After those above: a field that is new to the table has to be sent there.
TEST(ExportState, NoFieldOfTheTableWasForgotten) {
  for (const state::ViewField& field : state::view_fields())
    if (field.in(state::kCommand)) {
      EXPECT_EQ(sent.count(field.name), 1U) << field.name;
    }
}

// Texts that users have copied before.
TEST(ExportState, OfWhatWasNotMissingTheWordsAreAsEver) {
  ViewState what = plain("layer_head_overview");
  what.place = state::parse_goto("layer=21,q_head=3,chunk=15,key=40-52");
  what.methods = {"quoka:budget_tokens=256", "oracle"};
  what.options["layer_head_overview.metric"] = "entropy";
  what.options["kv_map.zoom"] = "fit";  // of another view
  EXPECT_EQ(state::export_arguments(what),
            (std::vector<std::string>{"export", kTrace, "--view", "layer_head_overview", "--goto",
                                      "layer=21,q_head=3,chunk=15,key=40-52", "--method",
                                      "quoka:budget_tokens=256", "--method", "oracle", "--metric",
                                      "entropy"}));
}

TEST(ExportState, WhatIsWrongIsRefused) {
  const auto refusal = [](std::vector<std::string> more) {
    std::vector<std::string> words{"export", kTrace, "--view", "kv_map", "--state", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const test::ProgramResult result = test::run_program(words);
    EXPECT_EQ(result.exit_code, 2) << result.standard_error;
    EXPECT_EQ(result.standard_output, "");
    return result.last_error_line();
  };
  EXPECT_THAT(refusal({"--shown", "C"}), HasSubstr("--shown C is not valid"));
  EXPECT_THAT(refusal({"--theme", "blue"}), HasSubstr("--theme blue is not valid"));
  EXPECT_THAT(refusal({"--size", "16"}), HasSubstr("'16'"));
  EXPECT_THAT(refusal({"--size", "16x99999"}), HasSubstr("32768"));
  for (const char* scale : {"nan", "0.2", "9", "big"})
    EXPECT_THAT(refusal({"--scale", scale}), HasSubstr("--scale " + std::string(scale)));
  EXPECT_THAT(refusal({"--chunk-size", "0"}), HasSubstr("--chunk-size 0"));
  EXPECT_THAT(refusal({"--goto", "chunk=x"}), HasSubstr("chunk=x"));
  EXPECT_THAT(refusal({"--metric", "gap"}), HasSubstr("kv_map has no option --metric"));
  EXPECT_THAT(refusal({"--theme", "dark", "--theme", "light"}), HasSubstr("--theme"));
}

TEST(Goto, IsOfTheWindowAndOfExport) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"info", kTrace, "--goto", "layer=1"},
        {"--goto", "layer=1"},
        {kTrace, "--goto", "layer"},
        {kTrace, "--goto", "layer=1;view=nothing"},
        {kTrace, "--goto", "layer=1;depth=3"}}) {
    const test::ProgramResult result = test::run_program(words);
    EXPECT_EQ(result.exit_code, 2) << result.standard_error;
    EXPECT_THAT(result.last_error_line(), HasSubstr("error: "));
  }
}

}  // namespace
}  // namespace kvloupe
