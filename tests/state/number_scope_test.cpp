// One choice of chunks reaches every view, says which chunks it is over, and survives.
#include "app/state/number_chunks.h"

#include "app/state/questions/averaged_chunks.h"
#include "app/state/questions/how_much/budget_sweep.h"
#include "app/state/questions/how_much/method_compare.h"
#include "app/state/questions/kept/kv_map.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/replay/span_kept.h"
#include "tests/base/matchers.h"
#include "tests/state/workspace_fixture.h"

#include <fmt/format.h>

#include <limits>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using state::NumberChunks;
using state::NumberScope;
using Kind = state::NumberScope::Kind;

// 1,000 tokens in chunks of 128: the question begins in the last chunk.
class NumberScopes : public test::WorkspaceTest {
 protected:
  NumberChunks chunks(const std::string& scope, Kind own = Kind::All) {
    return state::number_chunks(state::parse_number_scope(scope), place(), own);
  }
};

TEST(NumberScope, IsReadAsItIsWritten) {
  for (const char* text : {"own", "chunk", "question", "all", "3", "12-15"})
    EXPECT_EQ(text_of(state::parse_number_scope(text)), text);
  EXPECT_EQ(state::parse_number_scope("4-4"), state::parse_number_scope("4"));
  for (const char* text : {"", "chunks", "-3", "5-4", "3-", "1-2-3", "99999999999999"})
    EXPECT_THROW(state::parse_number_scope(text), Error) << text;
}

TEST_F(NumberScopes, MeansChunksAtThePlace) {
  open();
  workspace.cursor.set_chunk(3);
  EXPECT_THAT(chunks("chunk").list(), ElementsAre(3));
  EXPECT_THAT(chunks("question").list(), ElementsAre(7));
  EXPECT_THAT(chunks("2-4").list(), ElementsAre(2, 3, 4));
  EXPECT_TRUE(chunks("all").list().empty());
  // Where nothing is chosen each view has its own.
  EXPECT_THAT(chunks("own", Kind::Chunk).list(), ElementsAre(3));
  EXPECT_FALSE(chunks("own", Kind::Chunk).chosen);
  EXPECT_TRUE(chunks("all").chosen);
  EXPECT_EQ(words_of(chunks("question"), place().info()), "from the question on (chunk 7)");
  EXPECT_EQ(words_of(chunks("2-4"), place().info()), "chunks 2 to 4");
  EXPECT_EQ(words_of(chunks("chunk"), place().info()), "chunk 3");
  EXPECT_EQ(words_of(chunks("all"), place().info()), "all chunks");
}

// Of a capture that stopped, or still runs: nobody has asked yet.
TEST_F(NumberScopes, AQuestionBeyondTheEndIsNone) {
  open();
  trace::TraceInfo info = place().info();
  EXPECT_NE(replay::question_of(info), nullptr);
  info.num_tokens = replay::question_of(info)->begin;
  EXPECT_EQ(replay::question_of(info), nullptr);
  EXPECT_THROW(state::check_scope(state::parse_number_scope("question"), info), Error);
}

TEST_F(NumberScopes, ChunksThatTheTraceLacksAreRefused) {
  open();
  const trace::TraceInfo& info = place().info();
  EXPECT_NO_THROW(check_scope(state::parse_number_scope("0-7"), info));
  EXPECT_THROW(check_scope(state::parse_number_scope("7-8"), info), Error);
  trace::TraceInfo unasked = info;
  unasked.spans.clear();
  EXPECT_THROW(state::check_scope({Kind::Question}, unasked), Error);
  EXPECT_NO_THROW(state::check_scope({Kind::Question}, info));
}

TEST_F(NumberScopes, ReachEveryViewThatHasNumbersOverChunks) {
  open();
  workspace.cursor.set_numbers({Kind::Range, 4, 5});
  workspace.cursor.set_option("budget_sweep.metric", "span_kept");
  EXPECT_EQ(overview_question(workspace).chunks.key(), "c4-5");
  EXPECT_EQ(method_compare_question(workspace).chunks.key(), "c4-5");
  EXPECT_EQ(budget_sweep_question(workspace).chunks.key(), "c4-5");
  std::vector<std::string> able;
  for (const state::ViewInfo& view : state::views())
    if (view.over_chunks) able.push_back(view.id);
  EXPECT_THAT(able, ::testing::UnorderedElementsAre("kv_map", "layer_head_overview", "budget_sweep",
                                                    "method_compare", "worst_misses"));
  // One step of the history.
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_TRUE(workspace.cursor.back());
  EXPECT_EQ(workspace.selection().numbers, NumberScope{});
}

// At the chunk that asks, and over all chunks: other numbers, each what plain counting says.
TEST_F(NumberScopes, CompareCountsTheSpanInTheChosenChunksAlone) {
  open();
  workspace.cursor.set_method(state::Slot::A, "streaming_llm:budget_tokens=256");
  workspace.cursor.set_method(state::Slot::B, "sliding_window:budget_tokens=256");
  const auto kept_in = [&](const std::string& scope) {
    workspace.cursor.set_numbers(state::parse_number_scope(scope));
    const auto result = answer_to(method_compare_question(workspace));
    for (const auto& row : result->rows)
      if (row.method == workspace.method(state::Slot::B))
        return row.in(trace::Phase::Prefill).row.numbers[replay::Number::SpanKept].value_or(-1);
    return -2.0;
  };
  // The needle is [400, 416). Chunk 4 begins at 512 and keeps the newest 256 keys: all of it.
  EXPECT_DOUBLE_EQ(kept_in("4"), 1);
  EXPECT_DOUBLE_EQ(kept_in("5"), 1);  // 640 - 256 = 384
  EXPECT_DOUBLE_EQ(kept_in("6"), 0);  // 768 - 256 = 512
  EXPECT_DOUBLE_EQ(kept_in("question"), 0);
  EXPECT_DOUBLE_EQ(kept_in("4-7"), 0.5);
  // Of [400, 416) chunk 3 is the one that holds it: no key of it comes before.
  EXPECT_DOUBLE_EQ(kept_in("all"), 0.5);
  EXPECT_DOUBLE_EQ(kept_in("own"), 0);  // from the question on, of old
}

// What stands above the map: each number says of which chunks it is, wherever the place is.
TEST_F(NumberScopes, TheMapsSentenceNamesTheChunksOfEachNumber) {
  open();
  workspace.cursor.set_method(state::Slot::A, "sliding_window:budget_tokens=256");
  const auto sentence = [&](int chunk, const char* scope) {
    workspace.cursor.set_chunk(chunk);
    const auto map = answer_to(state::KvMapQuestion{place(), workspace.method()});
    const auto recall = answer_to(state::RecallQuestion{place(), workspace.method()});
    EXPECT_TRUE(map && recall);
    return state::finding_of(*map, &*recall, chunks(scope), place());
  };
  const auto recall = *answer_to(state::RecallQuestion{place(), workspace.method()});
  const auto in = [&](int chunk) { return fmt::format("mass recall {:.3f}.", recall[chunk]); };
  const std::string sixth = "Chunk 6: None of needle's 16 keys is kept, " + in(6);
  EXPECT_EQ(sentence(6, "question"), sixth + " From the question on (chunk 7): " + in(7));
  EXPECT_EQ(sentence(6, "chunk"), sixth);
  EXPECT_EQ(sentence(6, "6"), sixth);
  EXPECT_EQ(sentence(6, "own"), sixth);
  EXPECT_EQ(sentence(7, "question"), "Chunk 7: None of needle's 16 keys is kept, " + in(7));
  EXPECT_EQ(sentence(5, "5-6"),
            "Chunk 5: 16 of needle's 16 keys are kept, " + in(5) +
                fmt::format(" Chunks 5 to 6: mass recall {:.3f}.", (recall[5] + recall[6]) / 2));
  // Before the needle, in a chunk that keeps everything, only what is chosen has a number.
  EXPECT_EQ(sentence(0, "6"), "Chunk 6: " + in(6));
  EXPECT_EQ(sentence(0, "chunk"), "");
}

// A mean over the prompt says the chunks of the prompt.
TEST_F(NumberScopes, TheMapsSentenceLeavesOutTheDecodeStepsThatItsMeanDoes) {
  test::GuiTraceOptions options = whole_options();
  options.num_tokens = 500;
  options.decoded = 2;
  options.runs = {"quoka:budget_tokens=128"};
  open(test::write_gui_trace("decoded.h5", options));
  workspace.cursor.set_method(state::Slot::A, "sliding_window:budget_tokens=256");
  workspace.cursor.set_chunk(2);
  EXPECT_THAT(chunks("question").list(), ElementsAre(3, 4, 5));
  const auto map = answer_to(state::KvMapQuestion{place(), workspace.method()});
  const auto recall = answer_to(state::RecallQuestion{place(), workspace.method()});
  ASSERT_TRUE(map && recall);
  const auto sentence = [&](const char* scope) {
    return state::finding_of(*map, &*recall, chunks(scope), place());
  };
  const std::string mean = fmt::format("mass recall {:.3f}.", (*recall)[3]);
  EXPECT_THAT(sentence("question"), HasSubstr("From the question on (chunk 3): " + mean));
  EXPECT_THAT(sentence("all"), HasSubstr("All prefill chunks: " + mean));
}

TEST(AveragedChunks, AreThoseOfOnePhase) {
  trace::TraceInfo info;
  for (int c = 0; c < 6; ++c)
    info.chunks.push_back({c * 8, 8, c < 4 ? trace::Phase::Prefill : trace::Phase::Decode});
  const auto words = [&](const NumberChunks& chunks, trace::Phase phase = trace::Phase::Prefill) {
    return state::words_of(chunks, info, phase);
  };
  using state::ChunkRange;
  EXPECT_EQ(words({Kind::All, true, {}}), "all prefill chunks");
  EXPECT_EQ(words({Kind::All, true, {}}, trace::Phase::Decode), "all decode steps");
  EXPECT_EQ(words({Kind::Question, true, ChunkRange{2, 5}}),
            "from the question on (chunks 2 to 3)");
  EXPECT_EQ(words({Kind::Question, true, ChunkRange{3, 5}}), "from the question on (chunk 3)");
  EXPECT_EQ(words({Kind::Question, true, ChunkRange{0, 4}, {0, 2, 4}}),
            "from the question on (chunks 0, 2)");
  EXPECT_EQ(words({Kind::Range, true, ChunkRange{3, 4}}), "chunk 3");
  // Of one phase as they are.
  EXPECT_EQ(words({Kind::Range, true, ChunkRange{1, 3}}), "chunks 1 to 3");
  EXPECT_EQ(words({Kind::Range, true, ChunkRange{4, 5}}), "chunks 4 to 5");
  info.chunks.resize(4);
  EXPECT_EQ(words({Kind::All, true, {}}), "all chunks");
}

// Where no chunks are chosen a span counts from the question on: what is known of that is no answer for all chunks.
TEST_F(NumberScopes, AllChunksOfASpanAreAnotherAnswerThanTheViewsOwn) {
  open();
  workspace.cursor.set_method(state::Slot::A, "sliding_window:budget_tokens=256");
  workspace.cursor.set_option("layer_head_overview.metric", "span_kept");
  workspace.cursor.set_option("layer_head_overview.chunks", "all");
  const auto kept_in = [&](const char* scope) {
    workspace.cursor.set_numbers(state::parse_number_scope(scope));
    const auto result = answer_to(overview_question(workspace));
    return result ? result->overview.values.at(0, 0) : -1;
  };
  EXPECT_FLOAT_EQ(kept_in("own"), 0);
  EXPECT_FLOAT_EQ(kept_in("all"), 0.5F);
  EXPECT_FLOAT_EQ(kept_in("question"), 0);
}

TEST_F(NumberScopes, TheSweepFindsTheBudgetThatKeepsTheSpan) {
  open();
  workspace.cursor.set_method(state::Slot::A, "sliding_window:budget_tokens=64");
  workspace.cursor.set_method(state::Slot::B, "sliding_window:budget_tokens=64");
  workspace.cursor.set_numbers({Kind::Range, 5, 5});
  workspace.cursor.set_option("budget_sweep.metric", "span_kept");
  const auto result = answer_to(budget_sweep_question(workspace));
  ASSERT_TRUE(result) << result.error;
  EXPECT_EQ(result->past, 640);
  const state::SweepCurve* curve = nullptr;
  for (const state::SweepCurve& each : result->curves)
    if (each.method.id() == "sliding_window") curve = &each;
  ASSERT_NE(curve, nullptr);
  // Chunk 5 begins at 640: the needle [400, 416) is kept whole from 240 keys on, half of it from 232.
  const auto& enough = curve->enough_of(replay::Number::SpanKept);
  EXPECT_EQ(enough[0], 232);
  EXPECT_EQ(enough[2], 240);
}

TEST(MeanRecall, IsOfTheChunksThatChose) {
  trace::TraceInfo info;
  for (int c = 0; c < 5; ++c)
    info.chunks.push_back({c * 8, 8, c < 4 ? trace::Phase::Prefill : trace::Phase::Decode});
  state::MethodFacts facts;
  facts.chunks.resize(5);
  facts.chunks[0].dense = trace::DenseReason::EmptyPast;
  const std::vector<double> recall{1, 0.5, std::numeric_limits<double>::quiet_NaN(), 0.25, 0.75};
  const auto mean = [&](std::optional<state::ChunkRange> range) {
    return state::mean_recall(recall, facts, {Kind::Range, true, range}, info);
  };
  EXPECT_EQ(mean({}), (0.5 + 0.25) / 2);
  EXPECT_EQ(mean(state::ChunkRange{3, 4}), 0.25);
  EXPECT_EQ(mean(state::ChunkRange{4, 4}), 0.75);
  EXPECT_EQ(mean(state::ChunkRange{0, 0}), std::nullopt);
}

TEST_F(NumberScopes, AreCarriedByLinksAndLeftOutWhereNothingFollowsThem) {
  open();
  workspace.cursor.set_numbers({Kind::Question});
  const state::ViewState what = state::describe(workspace, *state::find_view("method_compare"));
  EXPECT_THAT(state::link_text(what), HasSubstr(";numbers=question"));
  EXPECT_EQ(state::parse_link(state::link_text(what)).numbers.kind, Kind::Question);
  const state::ViewState strip = state::describe(workspace, *state::find_view("token_strip"));
  EXPECT_EQ(strip.numbers, NumberScope{});
  state::ViewState wrong = strip;
  wrong.numbers = {Kind::Question};
  EXPECT_THROW(state::check_view(wrong), Error);
  // A trace that asks nothing has no such chunks: the choice stays what it was.
  EXPECT_THROW(state::show(workspace, state::parse_link("layer=0;numbers=12-99")), Error);
  EXPECT_EQ(workspace.selection().numbers.kind, Kind::Question);
}

}  // namespace
}  // namespace kvloupe
