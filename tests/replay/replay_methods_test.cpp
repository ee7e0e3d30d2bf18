// What replays add for methods that prune lanes, reuse other layers' sets, need a probe or a basis,
// and for several methods in one pass.
#include "core/base/error.h"
#include "core/base/work_count.h"
#include "core/replay/compare.h"
#include "core/replay/replay.h"
#include "core/trace/basis_file.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;
using testing::SmallTrace;
using testing::SmallTraceShape;
using testing::write_plain_basis;
using Ints = std::vector<std::int32_t>;

ReplayRequest request_of(const SmallTrace& trace, const std::string& spec) {
  ReplayRequest request;
  request.spec = MethodSpec::parse(spec).resolved(trace.session().shape());
  request.want_output_error = true;
  return request;
}

ReplayResult replay_of(const SmallTrace& trace, const std::string& spec) {
  return replay(trace.session(), request_of(trace, spec), {});
}

SmallTraceShape deep() { return {.num_layers = 6, .decoded = 2}; }

SmallTraceShape with_probe() { return {.decoded = 2, .probe_len = 3}; }

// Lanes of a query row: the `kept` of largest magnitude, or the leading ones.
std::set<int> lanes_of(const float* query, int dim, int kept, bool leading) {
  std::vector<int> order(static_cast<std::size_t>(dim));
  std::iota(order.begin(), order.end(), 0);
  if (!leading)
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return std::abs(query[a]) > std::abs(query[b]); });
  return {order.begin(), order.begin() + kept};
}

// Scaled dot product over some lanes.
double pruned_score(const float* query, const float* key, int dim, const std::set<int>& lanes) {
  double sum = 0;
  for (const int lane : lanes)
    sum += static_cast<double>(query[lane]) * static_cast<double>(key[lane]);
  return sum / std::sqrt(static_cast<double>(dim));
}

struct LaneErrors {
  double score = 0, output = 0;
  std::vector<int> counts;
};

// By the definitions, for one query head whose rows attend to `past` and to their own chunk.
LaneErrors errors_of(const SmallTrace& trace, const ReplayCell& cell, int head, int kept,
                     bool leading, const Ints& past) {
  const int dim = trace.shape().head_dim, group = trace.gqa_group_size();
  std::set<int> all_lanes;
  for (int lane = 0; lane < dim; ++lane) all_lanes.insert(lane);
  LaneErrors errors;
  errors.counts.assign(static_cast<std::size_t>(dim), 0);
  double lost = 0, whole = 0, moved = 0, size = 0;
  for (int row = cell.span.begin; row < cell.span.end(); ++row) {
    const float* query = trace.query(cell.layer, head, row);
    const std::set<int> lanes = lanes_of(query, dim, kept, leading);
    for (const int lane : lanes) ++errors.counts[static_cast<std::size_t>(lane)];
    std::vector<double> dense(dim, 0.0), sparse(dim, 0.0);
    double dense_sum = 0, sparse_sum = 0;
    for (int j = 0; j <= row; ++j) {
      const float* key = trace.key(cell.layer, head / group, j);
      const float* value = trace.value(cell.layer, head / group, j);
      const double s = pruned_score(query, key, dim, all_lanes);
      const double pruned = pruned_score(query, key, dim, lanes);
      lost += (s - pruned) * (s - pruned);
      whole += s * s;
      const bool seen = j >= cell.span.begin || std::binary_search(past.begin(), past.end(), j);
      dense_sum += std::exp(s);
      if (seen) sparse_sum += std::exp(pruned);
      for (int i = 0; i < dim; ++i) {
        dense[i] += std::exp(s) * static_cast<double>(value[i]);
        if (seen) sparse[i] += std::exp(pruned) * static_cast<double>(value[i]);
      }
    }
    for (int i = 0; i < dim; ++i) {
      moved += std::pow(dense[i] / dense_sum - sparse[i] / sparse_sum, 2);
      size += std::pow(dense[i] / dense_sum, 2);
    }
  }
  errors.score = std::sqrt(lost / whole);
  errors.output = std::sqrt(moved / size);
  return errors;
}

TEST(Lanes, ErrorsAndCountsFollowTheirDefinitions) {
  const SmallTrace trace;
  const std::string basis = write_plain_basis(trace, "a book");
  struct Case {
    std::string spec;
    int kept;
    bool leading;
  };
  for (const auto& [spec, kept, leading] :
       std::vector<Case>{{"aqua:dim_ratio=0.5,basis=" + basis, 4, false},
                         {"static_slicing:dim_ratio=0.4,basis=" + basis, 3, true},
                         {"aqua_h2o:dim_ratio=0.5,basis=" + basis, 4, false}}) {
    SCOPED_TRACE(spec);
    const ReplayResult result = replay_of(trace, spec);
    ASSERT_TRUE(result.basis.has_value());
    EXPECT_EQ(result.basis->source, "a book");
    EXPECT_EQ(result.basis->num_tokens, 100);
    EXPECT_FALSE(result.basis->leakage);
    ASSERT_EQ(result.cells.size(), 8U);
    for (const ReplayCell& cell : result.cells) {
      ASSERT_EQ(cell.score_error.size(), 4U);
      for (int head = 0; head < 4; ++head) {
        const LaneErrors want =
            errors_of(trace, cell, head, kept, leading, cell.rows[head / 2].positions);
        const auto counts = cell.lane_counts_of(head, static_cast<int>(want.counts.size()));
        EXPECT_EQ(Ints(counts.begin(), counts.end()), want.counts);
        EXPECT_NEAR(cell.score_error[head], want.score, 1e-6);
        EXPECT_NEAR(cell.output_error[head], want.output, 1e-4);
      }
    }
  }
}

TEST(Lanes, ABasisOfThisTraceIsLeakageAndAllLanesLoseNothing) {
  const SmallTrace trace;
  const ReplayResult result = replay_of(trace, "aqua:dim_ratio=1,basis=self");
  ASSERT_TRUE(result.basis.has_value());
  EXPECT_TRUE(result.basis->leakage);
  for (const ReplayCell& cell : result.cells) {
    for (std::size_t head = 0; head < 4; ++head) {
      EXPECT_LT(cell.score_error[head], 1e-5);
      EXPECT_LT(cell.output_error[head], 1e-5);
    }
    for (const int count : cell.lane_counts) EXPECT_EQ(count, cell.span.length);
  }
}

TEST(Lanes, ComparedWithoutRecallAndWithTheBytesOfWhatIsKept) {
  const SmallTrace trace;  // fp32, head_dim 8
  const std::string basis = write_plain_basis(trace, "a book");
  const auto row_of = [&](const std::string& spec) {
    return summarise(replay_of(trace, spec), trace.session()).front();
  };
  const CompareRow aqua = row_of("aqua:basis=" + basis);
  EXPECT_EQ(aqua.cells, 2 * 2 * 3);
  EXPECT_EQ(aqua.fallback_cells, 2 * 2);
  EXPECT_FALSE(aqua.numbers[Number::MassRecall].has_value());
  EXPECT_FALSE(aqua.numbers[Number::TopkOverlap].has_value());
  EXPECT_DOUBLE_EQ(*aqua.numbers[Number::Density], 1);
  EXPECT_DOUBLE_EQ(*aqua.numbers[Number::KvBytes], (16 + 32 + 48) / 3.0 * 2 * 8 * 4);
  ASSERT_TRUE(aqua.basis.has_value());
  // floor(0.3 * 8) = 2 lanes of each key are gone.
  const CompareRow memory = row_of("aqua_memory:slice_ratio=0.3,basis=" + basis);
  EXPECT_DOUBLE_EQ(*memory.numbers[Number::KvBytes], (16 + 32 + 48) / 3.0 * (6 + 8) * 4);
  const MethodSpec whole = MethodSpec::parse("aqua");
  const MethodSpec sliced = MethodSpec::parse("aqua_memory:slice_ratio=0.99");
  EXPECT_EQ(bytes_per_key(whole, trace.session().info()), (8 + 8) * 4);
  EXPECT_EQ(bytes_per_key(std::nullopt, trace.session().info()), (8 + 8) * 4);
  EXPECT_EQ(bytes_per_key(sliced, trace.session().info()), (1 + 8) * 4);  // floor(7.92) are gone
  // The same leading floor(0.4 * 8) = 3 lanes for all queries: no others are read.
  const MethodSpec leading = MethodSpec::parse("static_slicing:dim_ratio=0.4");
  EXPECT_EQ(bytes_per_key(leading, trace.session().info()), (3 + 8) * 4);
  const CompareRow sinks = row_of("streaming_llm:budget_tokens=10");
  EXPECT_DOUBLE_EQ(*sinks.numbers[Number::KvBytes], 10.0 * 2 * 8 * 4);
  EXPECT_DOUBLE_EQ(*sinks.numbers[Number::Forced], 10);
  EXPECT_FALSE(sinks.basis.has_value());
}

TEST(ReusedLayers, AreRunButOnlyReportedWhenAskedFor) {
  const SmallTrace trace(deep());
  for (const char* spec : {"tidal_decode:budget_tokens=7,first_layer=1,correction_layer=3",
                           "tidal_decode:budget_tokens=7,first_layer=1,correction_layer=3,"
                           "sel_layers=set",
                           "less_is_more:budget_tokens=12,first_layer=1,correction_layer=3"}) {
    SCOPED_TRACE(spec);
    const ReplayResult all = replay_of(trace, spec);
    int reused = 0;
    for (const ReplayCell& cell : all.cells) {
      const std::optional<int> sources[] = {{}, {}, 1, {}, 3, 3};
      EXPECT_EQ(cell.source_layer, sources[cell.layer]);
      if (!cell.source_layer || cell.dense_reason) continue;
      const ReplayCell& source = *all.find(*cell.source_layer, cell.chunk);
      if (source.dense_reason) continue;  // chose for others, attended to all
      for (std::size_t row = 0; row < 2; ++row)
        EXPECT_EQ(cell.rows[row].positions, source.rows[row].positions);
      ++reused;
    }
    EXPECT_EQ(reused > 0, std::string(spec).find("sel_layers=set") != std::string::npos);
    for (int chunk = 0; chunk < 6; ++chunk) {
      ReplayRequest request = request_of(trace, spec);
      request.layers = {5, 2};
      request.chunks = {chunk};
      const ReplayResult some = replay(trace.session(), request, {});
      EXPECT_EQ(some.layers, (std::vector<int>{2, 5}));
      ASSERT_EQ(some.cells.size(), 2U);
      for (const ReplayCell& cell : some.cells)
        for (std::size_t row = 0; row < 2; ++row)
          EXPECT_EQ(cell.rows[row].positions, all.find(cell.layer, chunk)->rows[row].positions);
    }
  }
}

TEST(ReusedLayers, OneThatWasNotCapturedIsAnError) {
  SmallTraceShape shape = deep();
  shape.layers = {0, 1, 4, 5};
  const SmallTrace trace(shape);
  ReplayRequest request =
      request_of(trace, "tidal_decode:budget_tokens=7,first_layer=1,correction_layer=3");
  const auto error = why_unavailable(trace.session(), request, {});
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->exit_code(), 1);
  EXPECT_NE(std::string(error->what()).find("layer 3"), std::string::npos) << error->what();
  EXPECT_THROW(replay(trace.session(), request, {}), Error);
  request.layers = {0, 1};
  EXPECT_EQ(replay(trace.session(), request, {}).cells.size(), 2U * 6U);
}

// With all of the budget for novelty: the most novel keys of what is alive and the chunk.
TEST(Probe, TheNovelestKeysOfEachPotSurvive) {
  const SmallTrace trace(with_probe());
  const ReplayResult result = replay_of(trace, "infinipot:budget_tokens=7,novelty_ratio=1");
  Ints alive;
  for (int chunk = 0; chunk < 6; ++chunk) {
    const ReplayCell& cell = *result.find(1, chunk);
    EXPECT_EQ(cell.rows[0].positions, alive);
    for (int j = cell.span.begin; j < cell.span.end(); ++j) alive.push_back(j);
    if (cell.span.phase == trace::Phase::Decode || alive.size() <= 7) continue;
    std::stable_sort(alive.begin(), alive.end(), [&](int a, int b) {
      return trace.novelty()[static_cast<std::size_t>(a)] >
             trace.novelty()[static_cast<std::size_t>(b)];
    });
    alive.resize(7);
    std::sort(alive.begin(), alive.end());
  }
  EXPECT_EQ(result.final_alive[1][0], alive);
}

// With none of it: the keys that the probe's queries attend to most.
TEST(Probe, TheKeysThatTheProbeAttendsToSurvive) {
  const SmallTrace trace(with_probe());
  const ReplayResult result = replay_of(trace, "infinipot:budget_tokens=7,novelty_ratio=0");
  std::vector<double> votes(16, 0.0);  // chunk 0 of layer 1, KV head 1
  for (int head = 2; head < 4; ++head)
    for (int row = 0; row < 3; ++row) {
      std::vector<double> p(16);
      for (int j = 0; j < 16; ++j) {
        double sum = 0;
        for (int i = 0; i < 8; ++i)
          sum += static_cast<double>(trace.probe_query(1, 0, head, row)[i]) *
                 static_cast<double>(trace.key(1, 1, j)[i]);
        p[j] = std::exp(sum / std::sqrt(8.0));
      }
      const double total = std::accumulate(p.begin(), p.end(), 0.0);
      for (int j = 0; j < 16; ++j) votes[j] += p[j] / total;
    }
  Ints order(16);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return votes[a] > votes[b]; });
  order.resize(7);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(result.find(1, 1)->rows[1].positions, order);
}

std::string reason_of(const SmallTrace& trace, ReplayRequest request) {
  const auto error = why_unavailable(trace.session(), request, {});
  return error ? error->what() : "";
}

TEST(Probe, ATraceWithoutOneOrOtherChunksAreRefused) {
  const SmallTrace plain, probed(with_probe());
  const std::string spec = "infinipot:budget_tokens=7";
  EXPECT_NE(reason_of(plain, request_of(plain, spec)).find("no probe"), std::string::npos);
  EXPECT_THROW(replay_of(plain, spec), Error);
  EXPECT_EQ(reason_of(probed, request_of(probed, spec)), "");
  ReplayRequest rechunked = request_of(probed, spec);
  rechunked.chunk_size = 20;
  EXPECT_NE(reason_of(probed, rechunked).find("own chunks"), std::string::npos);
}

void expect_same(const ReplayCell& a, const ReplayCell& b) {
  EXPECT_EQ(a.layer, b.layer);
  EXPECT_EQ(a.chunk, b.chunk);
  EXPECT_EQ(a.dense_reason, b.dense_reason);
  EXPECT_EQ(a.output_error, b.output_error);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t row = 0; row < a.rows.size(); ++row) {
    EXPECT_EQ(a.rows[row].positions, b.rows[row].positions);
    EXPECT_EQ(a.rows[row].forced, b.rows[row].forced);
    EXPECT_EQ(a.metrics[row].mass_recall, b.metrics[row].mass_recall);
    EXPECT_EQ(a.metrics[row].topk_overlap, b.metrics[row].topk_overlap);
  }
  EXPECT_EQ(a.lane_counts, b.lane_counts);
  EXPECT_EQ(a.score_error, b.score_error);
}

TEST(OnePass, GivesEveryMethodWhatItGetsAlone) {
  SmallTraceShape shape = deep();
  shape.probe_len = 3;
  const SmallTrace trace(shape);
  std::vector<MethodSpec> specs;
  const MethodList all = parse_methods("all:budget_tokens=9,basis=self,num_queries=4");
  for (const MethodSpec& spec : all.required_specs())
    specs.push_back(spec.resolved(trace.session().shape()));
  ASSERT_EQ(specs.size() + all.unavailable.size(), selection::catalogue().size());
  ReplayRequest request;
  request.want_output_error = true;
  std::vector<std::vector<ReplayCell>> cells(specs.size());
  const auto together = replay_methods(
      trace.session(), specs, request,
      [&](std::size_t method, ReplayCell&& cell) { cells[method].push_back(std::move(cell)); }, {});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    SCOPED_TRACE(specs[i].canonical());
    const ReplayResult alone = replay_of(trace, specs[i].canonical());
    EXPECT_EQ(together[i].method, alone.method);
    EXPECT_EQ(together[i].final_alive, alone.final_alive);
    ASSERT_EQ(cells[i].size(), alone.cells.size());
    for (std::size_t c = 0; c < cells[i].size(); ++c) expect_same(cells[i][c], alone.cells[c]);
  }
}

// Products of selection alone: nothing is measured.
std::int64_t products_of(const SmallTrace& trace, const std::vector<std::string>& texts) {
  ReplayRequest request;
  request.want_mass = false;
  std::vector<MethodSpec> specs;
  for (const std::string& text : texts)
    specs.push_back(MethodSpec::parse(text).resolved(trace.session().shape()));
  const WorkCount work;
  replay_methods(trace.session(), specs, request, [](std::size_t, ReplayCell&&) {}, {});
  return work.key_products();
}

TEST(OnePass, BudgetsShareTheScoresOfAMethod) {
  const SmallTrace trace;
  for (const std::string method : {"quoka", "oracle", "sparq", "uniform_queries"}) {
    const std::int64_t one = products_of(trace, {method + ":budget_tokens=4"});
    EXPECT_GT(one, 0) << method;
    EXPECT_EQ(products_of(trace, {method + ":budget_tokens=4", method + ":budget_ratio=0.1",
                                  method + ":budget_tokens=8"}),
              one)
        << method;
  }
  EXPECT_GT(products_of(trace, {"quoka:budget_tokens=4", "quoka:budget_tokens=4,num_queries=4"}),
            products_of(trace, {"quoka:budget_tokens=4"}));
}

TEST(OnePass, NamesTheMethodsThatTheTraceCannotServe) {
  const SmallTrace trace;
  const MethodList all = parse_methods("all:budget_tokens=9");
  const Comparison comparison = compare_methods(trace.session(), all.methods, {}, {}, {});
  std::set<std::string> missing, shown;
  for (const UnavailableMethod& entry : comparison.unavailable)
    missing.insert(entry.method.substr(0, entry.method.find(':')));
  for (const CompareRow& row : comparison.rows)
    shown.insert(row.method.substr(0, row.method.find(':')));
  // No probe, and no basis of a model that nobody has calibrated.
  EXPECT_EQ(missing, (std::set<std::string>{"infinipot", "loki", "aqua", "static_slicing",
                                            "aqua_h2o", "aqua_memory"}));
  EXPECT_EQ(shown.size() + missing.size() + all.unavailable.size(), selection::catalogue().size());
  EXPECT_THROW(compare_methods(trace.session(), {MethodSpec::parse("infinipot:budget_tokens=9")},
                               {}, {}, {}),
               Error);
}

// Saves a replay to the sidecar; gives the run's number.
int save(const SmallTrace& trace, const std::string& spec) {
  const ReplayResult made = replay_of(trace, spec);
  return save_run(trace.session(), made.spec.value(), made);
}

TEST(RecordedLanes, ReadBackWithErrorsOfAFreshSelection) {
  const SmallTrace trace({.decoded = 2});
  const std::string basis = write_plain_basis(trace, "a book");
  for (const char* id : {"aqua", "aqua_h2o"}) {
    const std::string spec = std::string(id) + ":basis=" + basis;
    SCOPED_TRACE(spec);
    const ReplayResult made = replay_of(trace, spec);
    const int run = save(trace, spec);
    const session::TraceSession again(trace.session().info().path);
    const ReplayResult read = recorded_run(again, run, {}, {}, true, true, {});
    ASSERT_EQ(read.cells.size(), made.cells.size());
    for (std::size_t i = 0; i < made.cells.size(); ++i) expect_same(read.cells[i], made.cells[i]);
    EXPECT_EQ(read.final_alive, made.final_alive);
    EXPECT_TRUE(read.notes.empty());
    ASSERT_TRUE(read.basis.has_value());
    EXPECT_EQ(read.basis->source, "a book");
    EXPECT_EQ(read.basis->hash, made.basis->hash);
  }
}

TEST(RecordedLanes, WithoutTheBasisTheErrorsAreUnknownAndItIsSaid) {
  const SmallTrace trace;
  const std::string basis = write_plain_basis(trace, "a book");
  const int run = save(trace, "aqua:basis=" + basis);
  const auto check = [&] {
    const session::TraceSession again(trace.session().info().path);
    const ReplayResult read = recorded_run(again, run, {}, {}, true, true, {});
    ASSERT_EQ(read.notes.size(), 1U);
    EXPECT_NE(read.notes[0].find("not known"), std::string::npos);
    for (const ReplayCell& cell : read.cells) {
      EXPECT_TRUE(cell.output_error.empty());
      EXPECT_TRUE(cell.score_error.empty());
      EXPECT_EQ(std::accumulate(cell.lane_counts.begin(), cell.lane_counts.end(), 0),
                4 * 6 * cell.span.length);
    }
  };
  // Another basis under the same name, then none.
  std::filesystem::rename(write_plain_basis(trace, "book b"), basis);
  check();
  std::filesystem::remove(basis);
  check();
}

}  // namespace
}  // namespace kvloupe::replay
