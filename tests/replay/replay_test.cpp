// Replays, their metrics and averages against plain loops over the same numbers.
#include "core/replay/replay.h"
#include "core/base/error.h"
#include "core/replay/compare.h"
#include "core/session/session_tensors.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/plain_output_error.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace kvloupe::replay {
namespace {

// Each turn of a conversation is cut by itself, and what was decoded stays in its place.
TEST(CutAnew, CutsTheTurnsOfAConversationEachByItself) {
  using trace::Phase;
  trace::TraceInfo info;
  info.chunks = {{0, 8, Phase::Prefill}, {8, 5, Phase::Prefill},  {13, 1, Phase::Decode},
                 {14, 1, Phase::Decode}, {15, 7, Phase::Prefill}, {22, 1, Phase::Decode},
                 {23, 2, Phase::Prefill}};
  const std::vector<trace::ChunkInfo> cut = session::cut_anew(info, 6);
  const std::vector<trace::ChunkInfo> expected = {
      {0, 6, Phase::Prefill},  {6, 6, Phase::Prefill}, {12, 1, Phase::Prefill},
      {13, 1, Phase::Decode},  {14, 1, Phase::Decode}, {15, 6, Phase::Prefill},
      {21, 1, Phase::Prefill}, {22, 1, Phase::Decode}, {23, 2, Phase::Prefill}};
  ASSERT_EQ(cut.size(), expected.size());
  for (std::size_t c = 0; c < cut.size(); ++c) {
    EXPECT_EQ(cut[c].begin, expected[c].begin) << c;
    EXPECT_EQ(cut[c].length, expected[c].length) << c;
    EXPECT_EQ(cut[c].phase, expected[c].phase) << c;
  }
}

using testing::SmallTrace;
using testing::SmallTraceShape;
using Ints = std::vector<std::int32_t>;

SmallTraceShape with_decode() { return {.decoded = 2}; }

ReplayResult replay_of(const SmallTrace& trace, const std::string& spec,
                       ReplayRequest request = {}) {
  request.spec = selection::MethodSpec::parse(spec).resolved(trace.session().shape());
  return replay(trace.session(), request, {});
}

ReplayRequest with_errors() {
  ReplayRequest request;
  request.want_output_error = true;
  return request;
}

TEST(Replay, MetricsFollowTheirDefinitions) {
  const SmallTrace trace(with_decode());
  for (const char* spec : {"quoka:budget_tokens=7,num_queries=4", "keydiff:budget_tokens=7",
                           "random:budget_tokens=9,budget_scope=all", "oracle:budget_ratio=0.3"}) {
    SCOPED_TRACE(spec);
    const bool all = std::string(spec).find("scope=all") != std::string::npos;
    const ReplayResult result = replay_of(trace, spec, with_errors());
    ASSERT_EQ(result.cells.size(), 2U * 6U);
    for (const ReplayCell& cell : result.cells) {
      if (cell.dense_reason) continue;
      const int candidates = all ? cell.span.end() : cell.span.begin;
      EXPECT_EQ(cell.num_candidates, candidates);
      for (int row = 0; row < 2; ++row) {
        const trace::SelectedRow& kept = cell.rows[row];
        const auto mass = trace.mass(cell.layer, row, cell.span.begin, cell.span.end());
        double whole = 0, covered = 0;
        for (int j = 0; j < candidates; ++j) whole += mass[j];
        for (const int j : kept.positions) covered += mass[j];
        EXPECT_NEAR(cell.metrics[row].mass_recall, covered / whole, 1e-5);
        Ints order(candidates);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return mass[a] > mass[b]; });
        const std::set<int> best(order.begin(), order.begin() + kept.positions.size());
        int common = 0;
        for (const int j : kept.positions) common += static_cast<int>(best.count(j));
        EXPECT_NEAR(cell.metrics[row].topk_overlap,
                    static_cast<double>(common) / kept.positions.size(), 1e-12);
      }
      for (int head = 0; head < 4; ++head) {
        const Ints& selected = cell.rows[head / 2].positions;
        const auto sees = [&](int query, int key) {
          if (std::binary_search(selected.begin(), selected.end(), key)) return true;
          return all ? key == query : key >= cell.span.begin;
        };
        EXPECT_NEAR(cell.output_error[head], testing::plain_output_error(trace, cell, head, sees),
                    1e-4);
      }
    }
  }
}

TEST(Replay, TheOracleCoversMostAndOverlapsWholly) {
  const SmallTrace trace;
  const ReplayResult oracle = replay_of(trace, "oracle:budget_tokens=5");
  const ReplayResult other = replay_of(trace, "quoka:budget_tokens=5");
  for (std::size_t i = 0; i < oracle.cells.size(); ++i)
    for (std::size_t row = 0; row < 2; ++row) {
      EXPECT_EQ(oracle.cells[i].metrics[row].topk_overlap, 1.0);
      EXPECT_GE(oracle.cells[i].metrics[row].mass_recall, other.cells[i].metrics[row].mass_recall);
    }
}

TEST(Replay, OneChunkEqualsTheSameChunkOfAll) {
  const SmallTrace trace(with_decode());
  for (const char* spec : {"quoka:budget_tokens=7,num_queries=3", "snapkv:budget_tokens=7,window=4",
                           "streaming_llm:budget_tokens=7", "random:budget_tokens=7"}) {
    const ReplayResult all = replay_of(trace, spec, with_errors());
    for (int chunk = 0; chunk < 6; ++chunk) {
      ReplayRequest request = with_errors();
      request.chunks = {chunk};
      request.layers = {1};
      const ReplayResult one = replay_of(trace, spec, request);
      ASSERT_EQ(one.cells.size(), 1U);
      const ReplayCell& expected = *all.find(1, chunk);
      for (std::size_t row = 0; row < 2; ++row) {
        EXPECT_EQ(one.cells[0].rows[row].positions, expected.rows[row].positions);
        EXPECT_EQ(one.cells[0].rows[row].forced, expected.rows[row].forced);
        EXPECT_EQ(one.cells[0].metrics[row].mass_recall, expected.metrics[row].mass_recall);
      }
      EXPECT_EQ(one.cells[0].output_error, expected.output_error);
      EXPECT_EQ(one.final_alive.empty(), all.final_alive.empty() || chunk != 5);
    }
  }
}

TEST(Replay, EvictionHistoryAndFinalSetAgree) {
  const SmallTrace trace(with_decode());
  const ReplayResult result = replay_of(trace, "keydiff:budget_tokens=7");
  for (std::size_t layer = 0; layer < 2; ++layer)
    for (std::size_t row = 0; row < 2; ++row) {
      const auto& died = result.evict_chunk[layer][row];
      for (const ReplayCell& cell : result.cells) {
        if (cell.layer != static_cast<int>(layer)) continue;
        Ints alive;
        for (int j = 0; j < cell.span.begin; ++j)
          if (died[j] >= cell.chunk) alive.push_back(j);
        EXPECT_EQ(cell.rows[row].positions, alive);
      }
      Ints alive;
      for (int j = 0; j < trace.num_tokens(); ++j)
        if (died[j] == trace::kAlive) alive.push_back(j);
      EXPECT_EQ(result.final_alive[layer][row], alive);
    }
}

TEST(Replay, RechunksThePromptAndLeavesDecodedTokens) {
  const SmallTrace trace(with_decode());  // 53 prompt tokens and 2 decoded
  ReplayRequest request;
  request.chunk_size = 20;
  const ReplayResult result = replay_of(trace, "quoka:budget_tokens=7", request);
  std::vector<std::pair<int, int>> chunks;
  for (const trace::ChunkInfo& chunk : result.chunks)
    chunks.emplace_back(chunk.begin, chunk.length);
  EXPECT_EQ(chunks,
            (std::vector<std::pair<int, int>>{{0, 20}, {20, 20}, {40, 13}, {53, 1}, {54, 1}}));
  EXPECT_EQ(result.chunks[2].phase, trace::Phase::Prefill);
  EXPECT_EQ(result.chunks[3].phase, trace::Phase::Decode);
}

TEST(Replay, RefusesWhatTheTraceLacks) {
  const SmallTrace trace;
  const auto kind_of = [&](ReplayRequest request) {
    try {
      replay_of(trace, "dense", std::move(request));
    } catch (const Error& error) {
      return error.exit_code();
    }
    return 0;
  };
  ReplayRequest request;
  request.layers = {2};
  EXPECT_EQ(kind_of(request), 1);
  request = {};
  request.chunks = {0, 4};
  EXPECT_EQ(kind_of(request), 1);
  request.chunks = {-1};
  EXPECT_EQ(kind_of(request), 1);
  request = {};
  request.chunk_size = 0;
  EXPECT_EQ(kind_of(request), 2);
}

TEST(Replay, SomeChunksAreThoseOfAll) {
  const SmallTrace trace(with_decode());
  for (const char* spec : {"quoka:budget_tokens=7,num_queries=3", "h2o:budget_tokens=7"}) {
    const ReplayResult all = replay_of(trace, spec, with_errors());
    for (const std::vector<int>& chunks : {std::vector{3, 1}, {2, 3, 4}, {0, 5}}) {
      ReplayRequest request = with_errors();
      request.chunks = chunks;
      const ReplayResult some = replay_of(trace, spec, request);
      ASSERT_EQ(some.cells.size(), 2 * chunks.size());
      for (const ReplayCell& cell : some.cells) {
        EXPECT_TRUE(std::find(chunks.begin(), chunks.end(), cell.chunk) != chunks.end());
        const ReplayCell& expected = *all.find(cell.layer, cell.chunk);
        for (std::size_t row = 0; row < 2; ++row)
          EXPECT_EQ(cell.rows[row].positions, expected.rows[row].positions);
      }
      const bool to_the_end = chunks.back() == 5;
      EXPECT_EQ(some.final_alive, to_the_end ? all.final_alive : decltype(all.final_alive)());
    }
  }
}

// A session whose prompt is cut anew is as a trace that was captured so; decoded tokens stay.
TEST(Replay, OfACutSessionIsThatOfTheSameCut) {
  const SmallTrace trace(with_decode());
  const session::TraceSession cut(trace.session().info().path, trace.session().memory(), 20);
  EXPECT_EQ(cut.chunk_size(), 20);
  EXPECT_EQ(trace.session().chunk_size(), std::nullopt);
  EXPECT_TRUE(cut.info().runs.empty());
  std::vector<int> begins, lengths;
  for (const trace::ChunkInfo& chunk : cut.info().chunks) {
    begins.push_back(chunk.begin);
    lengths.push_back(chunk.length);
  }
  EXPECT_EQ(begins, (std::vector<int>{0, 20, 40, 53, 54}));
  EXPECT_EQ(lengths, (std::vector<int>{20, 20, 13, 1, 1}));
  for (const char* spec : {"quoka:budget_tokens=7,num_queries=3", "h2o:budget_tokens=7"}) {
    ReplayRequest request = with_errors();
    request.spec = selection::MethodSpec::parse(spec).resolved(cut.shape());
    const ReplayResult by_session = replay(cut, request, {});
    request.chunk_size = 20;
    const ReplayResult by_request = replay(trace.session(), request, {});
    ASSERT_EQ(by_session.cells.size(), by_request.cells.size());
    for (std::size_t i = 0; i < by_session.cells.size(); ++i)
      for (std::size_t row = 0; row < 2; ++row) {
        EXPECT_EQ(by_session.cells[i].rows[row].positions, by_request.cells[i].rows[row].positions);
        EXPECT_EQ(by_session.cells[i].metrics[row].mass_recall,
                  by_request.cells[i].metrics[row].mass_recall);
      }
  }
  EXPECT_THROW(read_run(cut, 0, {}, {}, {}), Error);
  EXPECT_THROW(session::TraceSession(trace.session().info().path, trace.session().memory(), 0),
               Error);
}

// The sentence names all of these.
void expect_refused(const SmallTrace& trace, const std::string& spec, const ReplayRequest& request,
                    const std::vector<const char*>& parts) {
  try {
    replay_of(trace, spec, request);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Input);
    const std::string text = error.what();
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << text;
  }
}

TEST(Replay, NamesTheNanThatACellCanSee) {
  SmallTraceShape shape;
  shape.broken_key_at = 33;  // in chunk 2 of layer 1
  const SmallTrace trace(shape);
  ReplayRequest request;
  request.layers = {0};
  EXPECT_NO_THROW(replay_of(trace, "quoka:budget_tokens=7", request));
  request.layers = {1};
  request.chunks = {1};
  EXPECT_NO_THROW(replay_of(trace, "quoka:budget_tokens=7", request));
  request.chunks = {2};
  expect_refused(trace, "quoka:budget_tokens=7", request,
                 {"layer 1", "head 1", "position 33", "NaN"});
}

// Finite values whose products are not: no recall or error is made up for them.
TEST(Replay, NamesTheCellWhoseScoresOverflow) {
  const SmallTrace trace({.q_and_k_times = 0x1p80F});
  ReplayRequest request;
  request.layers = {1};
  for (const bool output_error : {false, true})
    for (const char* spec : {"keydiff:budget_tokens=7", "oracle:budget_tokens=7"}) {
      request.want_mass = !output_error;
      request.want_output_error = output_error;
      expect_refused(trace, spec, request, {"layer 1", "head 0", "chunk 1", "single precision"});
    }
  request.want_mass = request.want_output_error = false;
  EXPECT_NO_THROW(replay_of(trace, "keydiff:budget_tokens=7", request));
}

TEST(Replay, IsCancelled) {
  const SmallTrace trace;
  CancelSource source;
  source.cancel();
  WorkContext context;
  context.cancel = source.token();
  ReplayRequest request;
  request.spec = selection::MethodSpec::parse("dense");
  EXPECT_THROW(replay(trace.session(), request, context), Error);
}

// Sets first, what they are worth later: the same numbers as in one go.
TEST(Replay, SetsCanBeMeasuredAfterwards) {
  const SmallTrace trace(with_decode());
  for (const char* spec :
       {"quoka:budget_tokens=9", "oracle:budget_tokens=9,budget_scope=all",
        "snapkv:budget_tokens=7,window=4", "quest:budget_tokens=8,page_size=4,skip_layers=0",
        "xattention:lowering=union,block_size=8,stride=4,tau=0.5",
        "streaming_llm:budget_tokens=8,positions=reassigned"}) {
    SCOPED_TRACE(spec);
    const ReplayResult whole = replay_of(trace, spec, with_errors());
    ReplayRequest sets_alone;
    sets_alone.want_mass = false;
    ReplayResult sets = replay_of(trace, spec, sets_alone);
    for (const ReplayCell& cell : sets.cells)
      EXPECT_TRUE(cell.metrics.empty() && cell.output_error.empty());
    add_metrics(trace.session(), sets, {true, true}, {});
    ASSERT_EQ(sets.cells.size(), whole.cells.size());
    for (std::size_t i = 0; i < whole.cells.size(); ++i) {
      EXPECT_EQ(sets.cells[i].output_error, whole.cells[i].output_error);
      ASSERT_EQ(sets.cells[i].metrics.size(), whole.cells[i].rows.size());
      for (std::size_t row = 0; row < whole.cells[i].metrics.size(); ++row) {
        EXPECT_EQ(sets.cells[i].metrics[row].mass_recall, whole.cells[i].metrics[row].mass_recall);
        EXPECT_EQ(sets.cells[i].metrics[row].topk_overlap,
                  whole.cells[i].metrics[row].topk_overlap);
      }
    }
  }
}

TEST(Session, KeepsItsCacheWithinTheLimit) {
  const SmallTrace trace;
  const std::uint64_t one_array = 2 * 53 * 8 * sizeof(float);  // k of a layer
  // Beside the load: twice k or v of a layer.
  const auto memory =
      std::make_shared<MemoryAccount>(trace.session().load_bytes().sum() + 2 * one_array);
  const session::TraceSession tight(trace.session().info().path, memory);
  ReplayRequest request;
  request.spec = selection::MethodSpec::parse("quoka:budget_tokens=7").resolved(tight.shape());
  const ReplayResult a = replay(tight, request, {});
  EXPECT_LE(memory->held(MemoryPart::Tensors), 2 * one_array);
  EXPECT_GT(memory->held(MemoryPart::Tensors), 0U);
  const ReplayResult b = replay(trace.session(), request, {});
  for (std::size_t i = 0; i < a.cells.size(); ++i)
    for (std::size_t row = 0; row < 2; ++row)
      EXPECT_EQ(a.cells[i].rows[row].positions, b.cells[i].rows[row].positions);
}

const CompareRow& row_at(const std::vector<CompareRow>& rows, const std::string& phase,
                         const std::string& scope, int index) {
  for (const CompareRow& row : rows)
    if (row.phase == phase && row.scope == scope && row.index == index) return row;
  throw std::runtime_error("no such row");
}

TEST(Compare, AveragesCellsWithoutADenseReasonAndDecodeApart) {
  const SmallTrace trace(with_decode());
  const ReplayResult result = replay_of(trace, "quoka:budget_ratio=0.25", with_errors());
  const auto rows = summarise(result, trace.session());
  // Chunks 1, 2, 3 with P = 16, 32, 48: B = 4, 8, 12.
  const CompareRow& all = row_at(rows, "prefill", "all", 0);
  EXPECT_EQ(all.cells, 2 * 2 * 3);
  EXPECT_EQ(all.fallback_cells, 2 * 2);
  EXPECT_DOUBLE_EQ(*all.numbers[Number::RequestedBudget], 8);
  EXPECT_DOUBLE_EQ(*all.numbers[Number::EffectiveBudget], 8);
  EXPECT_DOUBLE_EQ(*all.numbers[Number::Density], 0.25);
  double recall = 0, error = 0, head_recall = 0;
  for (const ReplayCell& cell : result.cells) {
    if (cell.chunk < 1 || cell.chunk > 3) continue;
    for (const RowMetrics& row : cell.metrics) recall += row.mass_recall / 12;
    for (const double e : cell.output_error) error += e / 24;
    head_recall += cell.metrics[1].mass_recall / 6;
  }
  EXPECT_NEAR(*all.numbers[Number::MassRecall], recall, 1e-12);
  EXPECT_NEAR(*all.numbers[Number::OutputError], error, 1e-12);
  EXPECT_NEAR(*row_at(rows, "prefill", "kv_head", 1).numbers[Number::MassRecall], head_recall,
              1e-12);
  EXPECT_EQ(row_at(rows, "prefill", "layer", 1).cells, 6);
  EXPECT_EQ(row_at(rows, "prefill", "chunk", 0).fallback_cells, 4);
  EXPECT_FALSE(row_at(rows, "prefill", "chunk", 0).numbers[Number::MassRecall].has_value());
  EXPECT_EQ(row_at(rows, "decode", "all", 0).cells, 2 * 2 * 2);
}

TEST(Compare, DenseHasNoCellsAndNoBudget) {
  const SmallTrace trace;
  const auto rows = summarise(replay_of(trace, "dense", with_errors()), trace.session());
  EXPECT_EQ(rows.front().cells, 0);
  // Chunk 0 alone has no past; the other cells are dense by the method, which is no fallback.
  EXPECT_EQ(rows.front().fallback_cells, 4);
  EXPECT_FALSE(rows.front().numbers[Number::RequestedBudget].has_value());
  EXPECT_FALSE(rows.front().numbers[Number::OutputError].has_value());
}

// Scope all: own keys among the kept ones are no past keys.
TEST(Compare, DensityCountsPastKeysAlone) {
  const SmallTrace trace;
  const auto rows = summarise(replay_of(trace, "sliding_window:budget_tokens=20,budget_scope=all"),
                              trace.session());
  // Chunk 1: T = 32, keeps 12..31, of which 4 past of 16.
  EXPECT_DOUBLE_EQ(*row_at(rows, "prefill", "chunk", 1).numbers[Number::Density], 4.0 / 16);
  EXPECT_DOUBLE_EQ(*row_at(rows, "prefill", "chunk", 1).numbers[Number::EffectiveBudget], 20);
}

}  // namespace
}  // namespace kvloupe::replay
