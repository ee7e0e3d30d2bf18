// See view_picture_list.h.
#include "tests/figure/view_picture_list.h"

#include "app/figure/export.h"
#include "app/state/questions/how_it_ran/trace_info.h"
#include "app/state/questions/how_it_works/block_metrics.h"
#include "app/state/questions/how_much/latency.h"
#include "app/state/view_list.h"
#include "tests/gui/gui_trace.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/workspace_steps.h"

#include <algorithm>

namespace kvloupe::figure::testing {

using widgets::ThemeKind;

namespace {

constexpr Size kTall{800, 600}, kFlat{1200, 420}, kWide{1200, 800}, kHigh{1200, 960};

constexpr const char* kRecorded = "quoka:budget_tokens=64";
constexpr const char* kOther = "streaming_llm:budget_tokens=64";
// The last chunk of the prompt holds the question, in the others nobody looks for the needle.
constexpr const char* kQuestion = "layer=2,q_head=4,chunk=4";
constexpr const char* kNeedle = "layer=2,q_head=4,chunk=4,key=240-255";
constexpr const char* kNeedleKey = "layer=2,q_head=4,chunk=4,key=245";
constexpr const char* kWindow = "layer=2,q_head=4,chunk=4,window=16";
// Several queries of that chunk, as a lasso takes them.
constexpr const char* kQueries = "layer=2,q_head=4,queries=520-526+560+600-603";
constexpr const char* kDecoding = "layer=2,q_head=4,chunk=9";
constexpr const char* kBlocks = "xattention:lowering=union,block_size=32";
constexpr const char* kEvicts = "snapkv:budget_tokens=64";
constexpr const char* kLanes = "aqua:basis=self";
constexpr const char* kNativeBlocks = "xattention:block_size=32,stride=8,tau=0.7,lowering=native";
constexpr const char* kPages = "quest:budget_tokens=64,page_size=16,skip_layers=0";

// No two measurements are equal.
struct FixedLatency : state::LatencyQuestion {
  static constexpr Lane kLane = Lane::Compute;
  Answer work(state::Steps& /*steps*/) const {
    Answer report;
    report.method = method.text;
    report.device = "cpu, 2 threads (a processor)";
    report.dtype = "fp32";
    report.layer = place.layer;
    report.chunk = place.chunk;
    report.past_len = place.chunk_info().begin;
    report.chunk_len = place.chunk_info().length;
    report.select = {0.4, 0.35, 0.5, 15};
    report.gather = {0.1, 0.09, 0.12, 15};
    report.attend = {0.9, 0.8, 1.1, 15};
    report.total = {1.4, 1.25, 1.7, 15};
    report.dense = {2.8, 2.75, 2.95, 15};
    report.dense_variant = "sdpa gqa";
    report.floor_ms = 0.3;
    report.discarded = 1;
    report.finished = true;
    return report;
  }
};

struct FixedBlockTimes : state::BlockTimesQuestion {
  static constexpr Lane kLane = Lane::Compute;
  Answer work(state::Steps& /*steps*/) const {
    return {{{{0.31, 0.3, 0.33, 15}, {0.42, 0.4, 0.45, 15}, {0.55, 0.5, 0.6, 15}}}, 0};
  }
};

// A file has its own time and size.
struct FixedFile : state::TraceInfoQuestion {
  Answer work(state::Steps& steps) const {
    Answer answer = TraceInfoQuestion::work(steps);
    for (Fact& fact : answer.facts)
      if (fact.name == "file") fact.value = "1.0 MiB, schema 1.3, written by a test at noon";
    for (std::size_t c = 0; c < place.info().chunks.size(); ++c)
      answer.chunk_seconds.push_back(0.1F + 0.02F * static_cast<float>(c));
    return answer;
  }
};

const std::string& trace_file() {
  static const std::string path = test::write_gui_trace(
      "small.h5", {.num_tokens = 640, .decoded = 8, .runs = {kRecorded, kOther, kBlocks}});
  return path;
}

}  // namespace

std::vector<Picture> pictures() {
  std::vector<Picture> all = {
      {"attention_map", "attention_map", kQuestion, {kRecorded}},
      {"attention_map_linear",
       "attention_map",
       kDecoding,
       {kRecorded},
       {{"attention_map.color_scale", "linear"}}},
      {"kv_map", "kv_map", kQuestion, {kRecorded}},
      {"kv_map_blocks", "kv_map", kQuestion, {kBlocks}},
      {"kv_map_evicted", "kv_map", kDecoding, {kEvicts}},
      {"kv_map_lanes", "kv_map", kQuestion, {kLanes}},
      {"layer_head_overview", "layer_head_overview", kQuestion, {kRecorded}},
      {"layer_head_overview_merge",
       "layer_head_overview",
       kQuestion,
       {kRecorded},
       {{"layer_head_overview.metric", "merge_loss"}}},
      {"selected_vs_true", "selected_vs_true", kQuestion, {kRecorded}},
      {"selected_vs_true_decode", "selected_vs_true", kDecoding, {"h2o:budget_tokens=64"}},
      {"miss_inspector", "miss_inspector", kNeedle, {kRecorded, kOther}, {}, kHigh},
      {"worst_misses", "worst_misses", kQuestion, {kRecorded}, {}, kWide},
      {"worst_misses_regrets",
       "worst_misses",
       kQuestion,
       {kEvicts},
       {{"worst_misses.list", "regrets"}}},
      {"head_merge", "head_merge", kQuestion, {kRecorded}},
      {"token_strip", "token_strip", kQuestion, {kRecorded}},
      {"token_strip_evicted", "token_strip", kQuestion, {kEvicts}},
      {"query_geometry", "query_geometry", kQuestion, {kRecorded}},
      {"query_geometry_uniform", "query_geometry", kQuestion, {"uniform_queries:budget_tokens=64"}},
      {"query_geometry_key", "query_geometry", kNeedleKey, {kRecorded}},
      {"query_geometry_closer", "query_geometry", kNeedle, {kRecorded}, {}, kWide},
      {"query_geometry_both",
       "query_geometry",
       kNeedle,
       {kRecorded, kEvicts},
       {{"query_geometry.show", "both"}},
       kWide},
      {"selected_vs_true_both",
       "selected_vs_true",
       kNeedle,
       {kRecorded, kOther},
       {{"selected_vs_true.show", "both"}}},
      {"query_geometry_path",
       "query_geometry",
       kQuestion,
       {kRecorded},
       {{"query_geometry.fit", "both"},
        {"query_geometry.span", "head"},
        {"query_geometry.color", "attention"}},
       kWide},
      {"query_geometry_fates",
       "query_geometry",
       kQuestion,
       {kEvicts},
       {{"query_geometry.fit", "keys"},
        {"query_geometry.color", "fate"},
        {"query_geometry.rope", "before"}}},
      {"query_geometry_solid",
       "query_geometry",
       kQuestion,
       {kRecorded},
       {{"query_geometry.dimensions", "3"}, {"query_geometry.color", "position"}},
       kWide},
      {"query_relevance", "query_relevance", kQuestion, {kRecorded}},
      {"slot_scores", "slot_scores", kNeedle, {kRecorded}},
      {"heavy_tail", "heavy_tail", kQuestion, {kRecorded}, {}, kWide},
      {"heavy_tail_queries", "heavy_tail", kQueries, {kRecorded}, {}, kWide},
      {"attention_map_queries", "attention_map", kQueries, {kRecorded}, {}, kWide},
      {"aqua_lanes", "aqua_lanes", kQuestion, {kLanes}, {}, kWide},
      {"block_tables", "block_tables", kQuestion, {kBlocks}, {}, kWide},
      {"block_tables_native", "block_tables", kQuestion, {kNativeBlocks}, {}, kWide},
      {"received_rankings", "received_rankings", kWindow, {kRecorded}, {}, kWide},
      {"quest_pages", "quest_pages", kDecoding, {kPages}, {}, kWide},
      {"budget_sweep", "budget_sweep", kQuestion, {kRecorded, kOther}, {}, kTall},
      {"method_compare", "method_compare", kQuestion, {kRecorded, kOther}, {}, kFlat},
      {"method_diff", "method_diff", kQuestion, {kRecorded, kOther}, {}, kFlat},
      {"latency", "latency", kQuestion, {kRecorded}},
      {"decode_drift", "decode_drift", "", {}, {}, kWide},
      {"trace_info", "trace_info", "", {}, {}, kWide},
      {"task_scores", "task_scores", "", {}},
      {"task_scores_difference",
       "task_scores",
       "",
       {},
       {{"task_scores.across", "depth"}, {"task_scores.value", "difference"}}},
      {"needle_grid", "needle_grid", "", {}, {}, kWide}};
  for (const char* name : {"attention_map", "kv_map", "layer_head_overview", "selected_vs_true",
                           "token_strip", "query_geometry", "heavy_tail"}) {
    Picture dark = *std::find_if(all.begin(), all.end(),
                                 [&](const Picture& picture) { return picture.name == name; });
    dark.name += "_dark";
    dark.theme = ThemeKind::Dark;
    all.push_back(dark);
  }
  return all;
}

ExportRequest request_of(const Picture& picture) {
  ExportRequest request;
  const bool results = state::view_named(picture.view).shows_results;
  request.what.trace = results ? test::results_file() : trace_file();
  request.what.view = picture.view;
  request.what.methods = picture.methods;
  request.what.place = state::parse_goto(picture.go_to);
  request.what.options = picture.options;
  request.what.picture.theme = picture.theme;
  request.what.picture.width = picture.size.width;
  request.what.picture.height = picture.size.height;
  state::check(request.what);
  return request;
}

void show(state::Workspace& workspace, const ExportRequest& request) {
  workspace.traces.open(trace_file());
  test::open_results(workspace);
  state::show(workspace, request.what);
  const std::string& view = request.what.view;
  if (view == "latency")
    workspace.answers.start(FixedLatency{{workspace.place(), workspace.method()}});
  if (view == "block_tables")
    workspace.answers.start(FixedBlockTimes{{workspace.place(), workspace.method()}});
  if (view == "trace_info") workspace.answers.start(FixedFile{{workspace.place()}});
  test::settle(workspace);
}

}  // namespace kvloupe::figure::testing
