// The suite `paged`, and the row paged_90 that it shares with the contract.
#include "app/bench/bench.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/measure/attention_bench.h"
#include "core/measure/paged_bench.h"
#include "core/measure/peaks.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::bench {
namespace {

using measure::PagedBench;
using measure::PagedSide;

struct Point {
  std::int64_t past_len, chunk_len;
};

// All lengths at the paper's chunk, all chunks at the length of paged_90.
constexpr std::array<Point, 7> kPoints = {{{8192, 1024},
                                           {16384, 1024},
                                           {32768, 1024},
                                           {65536, 512},
                                           {65536, 1024},
                                           {65536, 2048},
                                           {131072, 1024}}};
const std::vector<double> kSparsities = {0.7, 0.8, 0.9, 0.95};
constexpr int kPagedRepetitions = 5;

constexpr Point kGoalPoint = {65536, 1024};
constexpr double kGoalSparsity = 0.9;
constexpr double kGoal = 8.5;

Row empty_row(const Point& point, double sparsity, const SuiteRun& run) {
  const int percent = static_cast<int>(100 * sparsity + 0.5);
  Row row;
  row.id = fmt::format("paged_{}k_c{}_s{}", point.past_len / 1024, point.chunk_len, percent);
  row.meaning = fmt::format("dense / paged, {} keys, chunk {}, {} % of past blocks dropped",
                            format_count(point.past_len), format_count(point.chunk_len), percent);
  const bool has_goal = point.past_len == kGoalPoint.past_len &&
                        point.chunk_len == kGoalPoint.chunk_len && sparsity == kGoalSparsity;
  if (has_goal) row.threshold = run.goal(kGoal);
  return row;
}

// Methods with all that they do for a chunk: selection, block tables, attention. On keys in
// clusters, so that there is something to select.
struct MethodCase {
  const char* id;
  const char* spec;
};
constexpr Point kMethodPoint = {32768, 1024};
// Where a processor would take minutes a call.
constexpr Point kMethodPointOfGpus = {131072, 1024};
constexpr std::array<MethodCase, 3> kMethods = {
    {{"compact_flash_prefill", "compact_attention:selector=flash_prefill"},
     {"compact_xattention", "compact_attention:selector=xattention"},
     {"quest", "quest:budget_tokens=4096,page_size=16,gqa_reduce=max_score,skip_layers=0"}}};
constexpr int kMethodRepetitions = 3;

Row paged_row(const Point& point, const PagedBench& bench, std::size_t index, const SuiteRun& run) {
  const measure::Peaks& peaks = engine().peaks_of(run.device, run.machine.type);
  const PagedSide& side = bench.sides[index];
  Row row = empty_row(point, side.sparsity, run);
  row.dense_left_out = bench.dense_left_out;
  if (side.paged.samples == 0) {
    row.reason = "every round was disturbed by other threads";
    return row;
  }
  row.value = bench.speed_up(index);
  row.time = side.paged;
  row.numbers = {
      {"past_len", static_cast<double>(bench.past_len)},
      {"chunk_len", static_cast<double>(bench.chunk_len)},
      {"sparsity", side.sparsity},
      {"kept_past_len", static_cast<double>(side.kept_past)},
      {"dense_ms", bench.dense.median_ms},
      {"gathered_ms", side.gathered.median_ms},
      {"block_sparse_ms", side.block_sparse.median_ms},
      // What the machine needs at least: to read the kept K and V once, to multiply.
      {"floor_read_ms", 1000 * side.bytes / peaks.bytes_per_s},
      {"floor_arithmetic_ms", 1000 * side.flops / peaks.flops_per_s},
  };
  row.details = {{"dense_variant", bench.dense_variant},
                 {"dense", stats_text(bench.dense)},
                 {"gathered", stats_text(side.gathered)},
                 {"block_sparse", stats_text(side.block_sparse)},
                 {"discarded_rounds", std::to_string(bench.discarded)}};
  return row;
}

std::vector<Row> unmeasured(const Point& point, const std::vector<double>& sparsities,
                            const std::string& reason, const SuiteRun& run) {
  std::vector<Row> rows;
  for (const double sparsity : sparsities) {
    rows.push_back(empty_row(point, sparsity, run));
    rows.back().reason = reason;
  }
  return rows;
}

std::vector<Row> rows_of(const Point& point, const std::vector<double>& sparsities,
                         const SuiteRun& run) {
  const std::string reason = why_too_large(point.past_len, point.chunk_len, run);
  if (!reason.empty()) return unmeasured(point, sparsities, reason, run);
  try {
    const PagedBench bench = engine().bench_paged(point.past_len, point.chunk_len, sparsities,
                                                  kPagedRepetitions, run.device, run.quiet());
    std::vector<Row> rows;
    for (std::size_t i = 0; i < sparsities.size(); ++i)
      rows.push_back(paged_row(point, bench, i, run));
    return rows;
  } catch (const std::exception& thrown) {
    return unmeasured(point, sparsities, reason_of(thrown), run);
  }
}

Row method_row(const MethodCase& method, const Point& point, const SuiteRun& run) {
  const measure::AttentionBenchCase what = {point.past_len, point.chunk_len,
                                            selection::MethodSpec::parse(method.spec),
                                            measure::SyntheticKeys::Clustered, run.device};
  Row row;
  row.id = fmt::format("{}_{}k_c{}", method.id, what.past_len / 1024, what.chunk_len);
  row.meaning = fmt::format("dense / selection, tables and paged attention of {}", method.spec);
  row.reason = why_too_large(point.past_len, point.chunk_len, run);
  if (!row.reason.empty()) return row;
  try {
    set_measured(row, engine().bench_attention(what, kMethodRepetitions, run.quiet()));
  } catch (const std::exception& thrown) {
    row.reason = reason_of(thrown);
  }
  return row;
}

}  // namespace

std::string why_too_large(std::int64_t past_len, std::int64_t chunk_len, const SuiteRun& run) {
  const double needed = engine().paged_bench_bytes(past_len, chunk_len, run.device);
  const double available = engine().available_memory(run.device);
  if (needed <= available) return {};
  return fmt::format("needs {} of memory, {} can be had",
                     format_bytes(static_cast<std::uint64_t>(needed)),
                     format_bytes(static_cast<std::uint64_t>(available)));
}

Row paged_90(const SuiteRun& run) {
  Row row = rows_of(kGoalPoint, {kGoalSparsity}, run).front();
  row.id = "paged_90";
  return row;
}

void run_paged_suite(SuiteRun& run) {
  const std::size_t steps = kPoints.size() + kMethods.size();
  for (std::size_t i = 0; i < kPoints.size(); ++i) {
    run.step(i, steps,
             fmt::format("{} keys, chunk {}", format_count(kPoints[i].past_len),
                         format_count(kPoints[i].chunk_len)));
    for (Row& row : rows_of(kPoints[i], kSparsities, run)) run.add(std::move(row));
  }
  for (std::size_t i = 0; i < kMethods.size(); ++i) {
    run.step(kPoints.size() + i, steps, kMethods[i].spec);
    run.add(method_row(kMethods[i], kMethodPoint, run));
    if (!run.on_processor()) run.add(method_row(kMethods[i], kMethodPointOfGpus, run));
  }
  run.step(steps, steps, "done");
}

}  // namespace kvloupe::bench
