// The questions about methods: overview, fate of a span, token colours, summaries and latency, their
// keys and their answers against plain loops.
#include "app/state/labels.h"
#include "app/state/questions/how_it_ran/runs.h"
#include "app/state/questions/how_much/latency.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/questions/kept/token_strip.h"
#include "app/state/questions/where/layer_head_overview.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/questions/why_lost/span_loss.h"
#include "tests/base/matchers.h"
#include "tests/replay/small_trace.h"
#include "tests/state/small_workspace.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <tuple>

namespace kvloupe::state {
namespace {

using analysis::KeyState;
using analysis::KeyVerdict;
using replay::Number;
using testing::place_in;

class MethodQuestionsTest : public ::testing::Test {
 protected:
  MethodChoice method(const Place& place, const std::string& spec) {
    return choice_of_spec(spec, *place.trace);
  }
  template <Question Q>
  std::shared_ptr<const typename Q::Answer> answer(const Q& question) {
    return answers_.need(question, WorkContext{});
  }
  // The row of a cell, selected by the method.
  const trace::SelectedRow& row(const Place& place, const MethodChoice& choice) {
    run_ = answer(RunQuestion{place, choice});
    return run_->find(place.layer, place.chunk)
        ->rows[static_cast<std::size_t>(row_of(place, *run_))];
  }
  double recall(const Place& place, const std::vector<std::int32_t>& kept) {
    const trace::ChunkInfo chunk = place.chunk_info();
    const auto mass = trace_.mass(place.layer, place.kv_head(), chunk.begin, chunk.end());
    double sum = 0;
    for (const std::int32_t key : kept) sum += mass[static_cast<std::size_t>(key)];
    return sum / std::accumulate(mass.begin(), mass.begin() + chunk.begin, 0.0);
  }

  SmallTrace trace_{SmallTraceShape{.decoded = 2}};
  Answers answers_;
  std::shared_ptr<const replay::ReplayResult> run_;
};

// The place's chunk alone.
NumberChunks here(const Place& place) { return number_chunks({}, place, NumberScope::Kind::Chunk); }

TEST_F(MethodQuestionsTest, RecallWithoutTheSinkLeavesKeyZeroOutOfBothSums) {
  for (const char* spec : {"quoka:budget_tokens=8", "streaming_llm:budget_tokens=8"}) {
    const Place place = place_in(trace_, 1, 2, 3);
    const MethodChoice choice = method(place, spec);
    const trace::ChunkInfo chunk = place.chunk_info();
    const auto mass = trace_.mass(place.layer, place.kv_head(), chunk.begin, chunk.end());
    double kept = 0, all = 0;
    for (const std::int32_t key : row(place, choice).positions)
      if (key > 0) kept += mass[static_cast<std::size_t>(key)];
    for (std::int32_t key = 1; key < chunk.begin; ++key) all += mass[static_cast<std::size_t>(key)];
    const auto rest = answer(SelectedVsTrueQuestion{place, choice})->recall_without_sink;
    ASSERT_TRUE(rest);
    EXPECT_NEAR(*rest, kept / all, 1e-5) << spec;
  }
}

// Of a mask the recall is of pairs, which verdicts of keys do not tell.
TEST_F(MethodQuestionsTest, RecallWithoutTheSinkIsOfKeysAlone) {
  const Place place = place_in(trace_, 1, 2, 3);
  const auto native = answer(
      SelectedVsTrueQuestion{place, method(place, "flash_prefill:block_size=4,lowering=native")});
  EXPECT_FALSE(native->recall_without_sink);
}

TEST(HeadsToList, TheSelectedHeadComesFirstAndOnce) {
  SmallTrace trace;
  replay::SpanLoss loss;
  loss.layout.q_heads_per_row = 2;
  for (const auto& [layer, row, mass] :
       {std::tuple{0, 0, 1.0}, std::tuple{0, 1, 8.0}, std::tuple{1, 0, 4.0}, std::tuple{1, 1, 7.0}})
    loss.heads.push_back({.layer = layer, .row = row, .kept = 1, .keys = 4, .mass = mass});
  const auto listed = [&](int layer, int q_head, std::size_t most) {
    std::vector<double> masses;
    for (const replay::SpanHead* head :
         heads_to_list(loss, place_in(trace, layer, q_head, 2), most))
      masses.push_back(head->mass);
    return masses;
  };
  EXPECT_EQ(listed(0, 1, 2), (std::vector<double>{1, 8, 7}));
  EXPECT_EQ(listed(1, 3, 2), (std::vector<double>{7, 8}));
  EXPECT_EQ(listed(1, 0, 0), (std::vector<double>{4}));
}

// B's budget holds all of chunk 1's past: A's mean is not over that chunk either.
TEST_F(MethodQuestionsTest, OverviewsAreSubtractedOverTheCellsInWhichBothChoose) {
  const Place place = place_in(trace_, 0, 0, 2);
  const MethodChoice a = method(place, "quoka:budget_tokens=8"),
                     b = method(place, "quoka:budget_tokens=24");
  const auto less = answer(OverviewDifferenceQuestion{{place, a}, {place, b}});
  const auto mean = [&](const MethodChoice& choice, const std::vector<int>& chunks) {
    double sum = 0;
    for (const int chunk : chunks) {
      const Place there = place_in(trace_, 1, 2, chunk);
      sum += recall(there, row(there, choice).positions);
    }
    return sum / static_cast<double>(chunks.size());
  };
  const std::size_t at = 1 * 2 + 1;  // layer 1, KV head 1
  EXPECT_NEAR(less->of_a.at(at), mean(a, {2, 3}), 1e-5);
  EXPECT_NEAR(less->of_b.at(at), mean(b, {2, 3}), 1e-5);
  EXPECT_GT(std::abs(mean(a, {1, 2, 3}) - mean(a, {2, 3})), 1e-3) << "or the test shows nothing";
  // With all that there is, B chooses nowhere.
  EXPECT_THROW(answer(OverviewDifferenceQuestion{
                   {place, a}, {place, method(place, "quoka:budget_tokens=500")}}),
               Error);
}

TEST_F(MethodQuestionsTest, OverviewHoldsTheRecallOfEveryHeadLargestGapFirst) {
  const Place place = place_in(trace_, 0, 0, 2);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const auto overview = answer(OverviewQuestion{place, quoka, Number::MassRecall, here(place)});
  ASSERT_EQ(overview->overview.values.rows, 2);
  ASSERT_EQ(overview->overview.values.cols, 2);
  EXPECT_EQ(overview->q_heads_per_column, 2);
  EXPECT_EQ(overview->num_known, 4);
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1}) {
      const Place cell = place_in(trace_, layer, 2 * kv_head, 2);
      EXPECT_NEAR(overview->overview.values.at(layer, kv_head),
                  recall(cell, row(cell, quoka).positions), 1e-5);
    }
  const auto& values = overview->overview.values.values;
  EXPECT_EQ(overview->highest, *std::max_element(values.begin(), values.end()));
  // The worst first: those with the largest gap to the oracle of as many keys.
  const MethodChoice oracle = method(place, "oracle:budget_tokens=8");
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1}) {
      const Place cell = place_in(trace_, layer, 2 * kv_head, 2);
      EXPECT_NEAR(
          overview->gap.at(layer, kv_head),
          recall(cell, row(cell, oracle).positions) - recall(cell, row(cell, quoka).positions),
          1e-5);
    }
  const auto& gaps = overview->gap.values;
  ASSERT_EQ(overview->by_worth.size(), 4U);
  for (std::size_t i = 1; i < 4; ++i)
    EXPECT_GE(gaps[static_cast<std::size_t>(overview->by_worth[i - 1])],
              gaps[static_cast<std::size_t>(overview->by_worth[i])]);
}

TEST_F(MethodQuestionsTest, OverviewOfSomeChunksIsTheirMean) {
  const Place place = place_in(trace_, 0, 0, 2);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const NumberChunks last_two =
      number_chunks({NumberScope::Kind::Range, 2, 3}, place, NumberScope::Kind::All);
  const auto overview = answer(OverviewQuestion{place, quoka, Number::MassRecall, last_two});
  for (const int kv_head : {0, 1}) {
    double sum = 0;
    for (const int chunk : {2, 3}) {
      const Place cell = place_in(trace_, 1, 2 * kv_head, chunk);
      sum += recall(cell, row(cell, quoka).positions);
    }
    EXPECT_NEAR(overview->overview.values.at(1, kv_head), sum / 2, 1e-5);
  }
  EXPECT_NE(key_of(OverviewQuestion{place, quoka, Number::MassRecall, last_two}),
            key_of(OverviewQuestion{place, quoka, Number::MassRecall, here(place)}));
}

TEST_F(MethodQuestionsTest, OverviewOfTheWatchedKeysCountsThoseKept) {
  Place place = place_in(trace_, 0, 0, 2);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const auto question = [&] {
    return OverviewQuestion{place, quoka, Number::SpanKept, here(place)};
  };
  EXPECT_EQ(question().obstacle(), "Choose keys to watch: the trace names no needle");
  place.keys = {10, 25};
  const std::string key = question().key();
  const auto overview = answer(question());
  for (const int layer : {0, 1})
    for (const int kv_head : {0, 1}) {
      const auto& kept = row(place_in(trace_, layer, 2 * kv_head, 2), quoka).positions;
      const auto count =
          std::count_if(kept.begin(), kept.end(), [](int j) { return j >= 10 && j < 25; });
      EXPECT_FLOAT_EQ(overview->overview.values.at(layer, kv_head),
                      static_cast<float>(count) / 15.0F);
    }
  // The worst first: those that keep less of it than the oracle of as many keys does.
  const MethodChoice oracle = method(place, "oracle:budget_tokens=8");
  const auto best = answer(OverviewQuestion{place, oracle, Number::SpanKept, here(place)});
  float last = 1;
  for (const std::int32_t cell : overview->by_worth) {
    const auto i = static_cast<std::size_t>(cell);
    const float more = best->overview.values.values[i] - overview->overview.values.values[i];
    EXPECT_FLOAT_EQ(overview->gap.values[i], std::max(more, 0.0F)) << cell;
    EXPECT_LE(overview->gap.values[i], last);
    last = overview->gap.values[i];
    EXPECT_EQ(best->gap.values[i], 0);
  }
  const auto first = static_cast<std::size_t>(overview->by_worth.front());
  ASSERT_GT(overview->gap.values[first], 0);
  EXPECT_EQ(framed_cell(question(), *overview), overview->by_worth.front());
  EXPECT_THAT(overview_finding(question(), *overview),
              ::testing::EndsWith(fmt::format(
                  " Worst is layer {}, KV head {} (framed): {}, where the oracle keeps {}.",
                  first / 2, first % 2, share_text(overview->overview.values.values[first]),
                  share_text(best->overview.values.values[first]))));
  // Of the oracle no head loses anything that it would keep.
  const OverviewQuestion of_best{place, oracle, Number::SpanKept, here(place)};
  EXPECT_EQ(framed_cell(of_best, *best), std::nullopt);
  EXPECT_THAT(overview_finding(of_best, *best), ::testing::Not(::testing::HasSubstr("Worst")));
  place.keys =
      trace::KeySet::of(std::vector{10, 12, 13, 24});  // of keys here and there these alone
  const auto scattered = answer(question());
  for (const int kv_head : {0, 1}) {
    const auto& kept = row(place_in(trace_, 1, 2 * kv_head, 2), quoka).positions;
    const auto count = std::ranges::count_if(kept, [&](int j) { return place.keys.contains(j); });
    EXPECT_FLOAT_EQ(scattered->overview.values.at(1, kv_head), static_cast<float>(count) / 4.0F);
  }
  place.keys = {10, 26};
  EXPECT_NE(question().key(), key);  // another answer
  const OverviewQuestion recall{place, quoka, Number::MassRecall, here(place)};
  const std::string recall_key = recall.key();
  place.keys = {10, 27};
  EXPECT_EQ((OverviewQuestion{place, quoka, Number::MassRecall, here(place)}.key()), recall_key);
}

TEST_F(MethodQuestionsTest, OverviewOfAMethodThatKeepsEveryKeyShowsItsError) {
  const Place place = place_in(trace_, 0, 0, 2);
  const OverviewQuestion question{place, method(place, "aqua:basis=self"), Number::MassRecall,
                                  here(place)};
  EXPECT_EQ(question.number(), Number::OutputError);
  EXPECT_EQ(answer(question)->overview.number, Number::OutputError);
  const OverviewQuestion entropy{place, question.method, Number::Entropy, here(place)};
  EXPECT_EQ(entropy.number(), Number::Entropy);
}

TEST_F(MethodQuestionsTest, OverviewKeysNameWhatTheAnswerDependsOn) {
  const Place place = place_in(trace_, 0, 0, 2), later = place_in(trace_, 1, 3, 3);
  const MethodChoice a = method(place, "quoka:budget_tokens=8");
  const MethodChoice b = method(place, "oracle:budget_tokens=8");
  const auto key = [](const Place& where, const MethodChoice& choice, Number number, bool all) {
    return key_of(OverviewQuestion{where, choice, number, all ? NumberChunks{} : here(where)});
  };
  const auto recall = Number::MassRecall, entropy = Number::Entropy;
  EXPECT_NE(key(place, a, recall, false), key(place, b, recall, false));
  EXPECT_NE(key(place, a, recall, false), key(later, a, recall, false));
  EXPECT_EQ(key(place, a, recall, true), key(later, a, recall, true));
  EXPECT_EQ(key(place, a, entropy, false), key(place, b, entropy, true));
  EXPECT_NE(key(place, a, entropy, true), key(later, a, entropy, true));
  EXPECT_NE(key(place, a, recall, true), key(place_in(trace_, 0, 0, 2, 2), a, recall, true));
}

TEST_F(MethodQuestionsTest, OverviewColoursKeepTheirScaleWhilePlaying) {
  const Place place = place_in(trace_, 0, 0, 2);
  OverviewQuestion question{place, method(place, "quoka:budget_tokens=8"), Number::OutputError,
                            here(place)};
  OverviewQuestion::Answer shown;
  shown.overview.number = Number::OutputError;
  OverviewScale scale;
  const auto high = [&](float highest) {
    shown.highest = highest;
    return scale.of(question, shown).high;
  };
  const double first = high(0.37F);
  EXPECT_GE(first, 0.37);
  EXPECT_EQ(high(0.1F), first);  // a better chunk does not stretch the colours
  const double second = high(0.9F);
  EXPECT_GT(second, first);
  EXPECT_EQ(high(0.2F), second);
  // The scale is the number's, not the method's: flipping A and B changes no colour.
  question.method = method(place, "oracle:budget_tokens=8");
  EXPECT_EQ(high(0.37F), second);
  shown.overview.number = Number::MassRecall;
  EXPECT_EQ(high(0.4F), 1);
  EXPECT_EQ(scale.of(question, shown).low, 0);
}

TEST_F(MethodQuestionsTest, FateOfAKeyIsThatOfPlainLoops) {
  Place place = place_in(trace_, 1, 2, 3);
  place.keys = {5, 9};
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const auto miss = answer(MissQuestion{place, quoka});
  ASSERT_EQ(miss->chunks.size(), 6U);
  EXPECT_EQ(miss->row_name, "KV head 1");
  EXPECT_EQ(miss->axis, "chunk, decode step from 4 on");
  EXPECT_EQ(miss->chunks[0].total, 0);  // the span lies in it
  for (int chunk = 1; chunk < 6; ++chunk) {
    Place cell = place;
    cell.chunk = chunk;
    const trace::ChunkInfo span = cell.chunk_info();
    const auto& kept = row(cell, quoka).positions;
    const auto mass = trace_.mass(1, 1, span.begin, span.end());
    int kept_of_span = 0, better = 0;
    double of_span = 0, all = 0, best = 0;
    for (int key = 0; key < span.begin; ++key) {
      const bool inside = key >= 5 && key < 9;
      all += mass[static_cast<std::size_t>(key)];
      if (!inside) continue;
      of_span += mass[static_cast<std::size_t>(key)];
      best = std::max(best, mass[static_cast<std::size_t>(key)]);
      kept_of_span += std::count(kept.begin(), kept.end(), key) > 0;
    }
    for (int key = 0; key < span.begin; ++key) better += mass[static_cast<std::size_t>(key)] > best;
    const MissQuestion::Chunk& fate = miss->chunks[static_cast<std::size_t>(chunk)];
    EXPECT_EQ(fate.total, 4) << chunk;
    EXPECT_EQ(fate.kept, kept_of_span) << chunk;
    EXPECT_NEAR(fate.span_mass, of_span / all, 1e-5) << chunk;
    EXPECT_EQ(fate.best_true_rank, better) << chunk;
    EXPECT_EQ(fate.num_kept, static_cast<std::int64_t>(kept.size())) << chunk;
    EXPECT_EQ(fate.num_candidates, span.begin) << chunk;
  }
}

TEST_F(MethodQuestionsTest, SentencesCountFromOneAndKnowTheSingular) {
  Place place = place_in(trace_, 0, 0, 5);
  place.keys = {3, 4};
  const MissQuestion question{place, method(place, "quoka:budget_tokens=8")};
  MissQuestion::Answer answer;
  answer.row_name = "KV head 0";
  answer.chunks.resize(6);
  answer.chunks[5] = {1, 1, 0.25, 0, 54, 8, false};
  const std::string kept = sentence_of(question, answer);
  EXPECT_THAT(kept, HasSubstr("At decode step 5, layer 0, KV head 0, quoka keeps 1 of 1 key of"));
  EXPECT_THAT(kept, HasSubstr("ranks 1 of 54"));
  EXPECT_THAT(kept, HasSubstr("carries 25.0 % of this row's attention mass"));
  EXPECT_THAT(kept, HasSubstr("8 keys are kept"));
  EXPECT_THAT(mass_sentence_of(question, answer), HasSubstr("KV head 0, the 1 key of"));
  EXPECT_THAT(mass_sentence_of(question, answer),
              HasSubstr("carries 25.0 % of the attention mass; the best ranks 1 of 54."));
  EXPECT_EQ(kept_sentence_of(question, answer), "quoka keeps 1 of 1.");
  answer.chunks[5].kept = 0;
  EXPECT_THAT(sentence_of(question, answer), HasSubstr("a better choice would have kept it"));
  EXPECT_EQ(
      kept_sentence_of(question, answer),
      "quoka keeps 0 of 1. Its best key is among the true top 8: a better choice at this budget "
      "would keep it.");
  answer.chunks[5].best_true_rank = 8;  // the ninth
  EXPECT_EQ(kept_sentence_of(question, answer), "quoka keeps 0 of 1.");
  answer.chunks[5].total = 0;
  EXPECT_THAT(sentence_of(question, answer), HasSubstr("nothing was decided"));
  EXPECT_EQ(mass_sentence_of(question, answer), "");
  answer.chunks[5] = {1, 1, 0.25, 0, 54, 54, true};
  EXPECT_THAT(sentence_of(question, answer), HasSubstr("everything is kept here"));
}

TEST_F(MethodQuestionsTest, FateNamesTheChunksAfterWhichKeysDied) {
  Place place = place_in(trace_, 0, 0, 5);
  place.keys = {0, 40};
  const MethodChoice h2o = method(place, "h2o:budget_tokens=8");
  const auto all = answer(SpanFateQuestion{place, h2o});
  const auto& deaths = answer(RunQuestion{place, h2o})->evict_chunk.at(0);
  ASSERT_EQ(all->deaths.size(), deaths.size());
  for (std::size_t row = 0; row < deaths.size(); ++row) {
    std::map<int, int> counted;
    for (std::size_t key = 0; key < 40; ++key)
      if (deaths[row][key] != trace::kAlive) ++counted[deaths[row][key]];
    EXPECT_EQ(all->deaths[row], counted);
    EXPECT_FALSE(counted.empty());
  }
  EXPECT_THAT(answer(MissQuestion{place, h2o})->deaths, HasSubstr("evicted after chunk"));
  EXPECT_EQ(answer(MissQuestion{place, method(place, "quoka:budget_tokens=8")})->deaths, "");
}

TEST_F(MethodQuestionsTest, ASpanMustBeWatched) {
  const Place place = place_in(trace_, 0, 0, 2);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  EXPECT_THAT((MissQuestion{place, quoka}.obstacle()), HasSubstr("Click a key"));
  EXPECT_EQ((MissQuestion{Place{}, quoka}.obstacle()), "Open a trace");
  Place keys = place;
  keys.keys = {1, 2};
  EXPECT_EQ((MissQuestion{keys, quoka}.obstacle()), "");
  EXPECT_EQ((MissQuestion{keys, {}}.obstacle()), "Choose a method");
}

TEST_F(MethodQuestionsTest, TokensAreDrawnAsTheMapAndTheVerdictsSay) {
  const Place place = place_in(trace_, 0, 0, 1);  // tokens 16 to 31
  KvMapQuestion::Answer map;
  map.map.num_tokens = trace_.num_tokens();
  map.map.chunks = {place.info().chunks[0], place.info().chunks[1]};
  map.map.states.assign(static_cast<std::size_t>(2 * map.map.num_tokens), KeyState::Future);
  map.map.kept = {0, 3};
  KeyState* states = map.map.states.data() + map.map.num_tokens;
  states[0] = KeyState::Sink;
  states[1] = KeyState::Evicted;
  states[2] = KeyState::Evicted;
  states[3] = states[4] = KeyState::Dropped;
  states[15] = KeyState::Recent;
  states[16] = KeyState::Current;
  SelectedVsTrueQuestion::Answer verdicts;
  verdicts.cell.verdict.assign(16, KeyVerdict::Neither);
  verdicts.cell.verdict[2] = KeyVerdict::Miss;
  verdicts.cell.verdict[4] = KeyVerdict::Miss;
  EXPECT_EQ(look_of(&map, &verdicts, place, 0), TokenLook::Sink);
  EXPECT_EQ(look_of(&map, &verdicts, place, 1), TokenLook::Evicted);
  EXPECT_EQ(look_of(&map, &verdicts, place, 2), TokenLook::MissedEvicted);
  EXPECT_EQ(look_of(&map, nullptr, place, 2), TokenLook::Evicted);
  EXPECT_EQ(look_of(&map, &verdicts, place, 3), TokenLook::Plain);
  EXPECT_EQ(look_of(&map, &verdicts, place, 4), TokenLook::Missed);
  EXPECT_EQ(look_of(&map, &verdicts, place, 15), TokenLook::Recent);
  EXPECT_EQ(look_of(&map, &verdicts, place, 16), TokenLook::Current);
  EXPECT_EQ(look_of(&map, &verdicts, place, 32), TokenLook::Future);
  EXPECT_EQ(look_of(nullptr, nullptr, place, 3), TokenLook::Plain);
  // A map of fewer chunks than the place has: nothing is known of its keys.
  EXPECT_EQ(look_of(&map, nullptr, place_in(trace_, 0, 0, 3), 3), TokenLook::Plain);
}

TEST_F(MethodQuestionsTest, SummariesOfSomeChunksAreOfThoseAlone) {
  const Place place = place_in(trace_, 1, 0, 4);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const auto mean_of = [&](const std::vector<int>& chunks) {
    double sum = 0;
    for (const int chunk : chunks)
      for (const int q_head : {0, 2}) {
        const Place cell = place_in(trace_, 1, q_head, chunk);
        sum += recall(cell, row(cell, quoka).positions);
      }
    return sum / static_cast<double>(2 * chunks.size());
  };
  const auto summary = [&](const NumberScope& scope) {
    return answer(
        RunSummaryQuestion{place, quoka, number_chunks(scope, place, NumberScope::Kind::All)});
  };
  const auto prompt = summary({NumberScope::Kind::Range, 2, 3});
  EXPECT_EQ(prompt->cells, 4);
  EXPECT_NEAR(prompt->numbers[Number::MassRecall].value(), mean_of({2, 3}), 1e-5);
  // Of both phases the prompt's, of a decode step alone that one.
  EXPECT_NEAR(summary({NumberScope::Kind::Range, 3, 5})->numbers[Number::MassRecall].value(),
              mean_of({3}), 1e-5);
  const auto step = summary({NumberScope::Kind::Chunk});
  EXPECT_EQ(step->phase, "decode");
  EXPECT_NEAR(step->numbers[Number::MassRecall].value(), mean_of({4}), 1e-5);
}

TEST_F(MethodQuestionsTest, SummariesAreMeansOverTheCellsThatSelected) {
  const Place place = place_in(trace_, 1, 0, 0);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const auto summary = answer(RunSummaryQuestion{place, quoka});
  double sum = 0;
  int cells = 0;
  for (const int chunk : {1, 2, 3})  // 0 has no past; 4 and 5 are decode steps
    for (const int q_head : {0, 2}) {
      const Place cell = place_in(trace_, 1, q_head, chunk);
      sum += recall(cell, row(cell, quoka).positions);
      ++cells;
    }
  EXPECT_EQ(summary->cells, cells);
  EXPECT_NEAR(summary->numbers[Number::MassRecall].value(), sum / cells, 1e-5);
  EXPECT_EQ(summary->numbers[Number::EffectiveBudget], 8);
}

TEST_F(MethodQuestionsTest, MethodsThatTheTraceCannotServeSayWhy) {
  const auto reasons = answer(UnavailableQuestion{place_in(trace_, 0, 0, 0)});
  EXPECT_FALSE(reasons->count("oracle"));
  ASSERT_TRUE(reasons->count("infinipot"));  // no probe was recorded
  EXPECT_FALSE(reasons->at("infinipot").empty());
  EXPECT_EQ(UnavailableQuestion{}.obstacle(), "Open a trace");
}

TEST_F(MethodQuestionsTest, LatencyBelongsToItsCell) {
  const Place place = place_in(trace_, 0, 0, 2), other = place_in(trace_, 0, 0, 3);
  const MethodChoice quoka = method(place, "quoka:budget_tokens=8");
  const LatencyQuestion here{place, quoka};
  EXPECT_EQ(answers_.ask(here).state, ResultState::Empty);  // begun by hand only
  answers_.start(here);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (answers_.busy() && std::chrono::steady_clock::now() < deadline) {
    answers_.begin_frame();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto measured = answers_.ask(here);
  ASSERT_EQ(measured.state, ResultState::Ready) << measured.error;
  EXPECT_EQ(measured->chunk, 2);
  EXPECT_EQ(measured->past_len, 32);
  EXPECT_TRUE(measured->finished);
  EXPECT_FALSE(answers_.ask(LatencyQuestion{other, quoka}));
  EXPECT_FALSE(answers_.ask(LatencyQuestion{place_in(trace_, 0, 0, 2, 2), quoka}));
  EXPECT_FALSE(answers_.ask(LatencyQuestion{place, method(place, "oracle:budget_tokens=8")}));
  // Another head of the layer is in the same cell: all heads are timed together.
  EXPECT_TRUE(answers_.ask(LatencyQuestion{place_in(trace_, 0, 3, 2), quoka}));
}

TEST_F(MethodQuestionsTest, AnUnknownMethodIsNotTimed) {
  const MethodChoice unknown{"from_the_future:depth=3", 0, {}};
  const LatencyQuestion question{place_in(trace_, 0, 0, 2), unknown};
  EXPECT_THAT(question.obstacle(), HasSubstr("does not know the method from_the_future"));
  answers_.start(question);
  EXPECT_FALSE(answers_.busy());
  EXPECT_EQ(answers_.ask(question).state, ResultState::Empty);
}

TEST_F(MethodQuestionsTest, ChunksAndStepsHaveTheirNames) {
  const trace::TraceInfo& info = trace_.session().info();
  EXPECT_EQ(chunk_name(info, 3), "chunk 3");
  EXPECT_EQ(chunk_name(info, 4), "decode step 4");
  EXPECT_EQ(chunk_name(info, -1), "chunk -1");
}

}  // namespace
}  // namespace kvloupe::state
