// Block methods run by their native masks: what a row is worth, recorded runs, averages; against
// plain loops over single (query, key) pairs.
#include "core/base/error.h"
#include "core/replay/compare.h"
#include "core/session/session_tensors.h"
#include "core/trace/trace_writer.h"
#include "tests/replay/plain_output_error.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace kvloupe::replay::testing {
namespace {

using selection::MethodSpec;
using Sees = std::function<bool(int query, int key)>;

SmallTraceShape shape_of_tests() {
  return {.num_q_heads = 6, .num_kv_heads = 2, .chunk_lengths = {20, 24, 13, 16}, .decoded = 1};
}

const std::vector<std::string>& native_methods() {
  static const std::vector<std::string> methods = {
      "flash_prefill:block_size=4,alpha=0.9,sink_blocks=0,window_blocks=0,lowering=native",
      "flash_prefill:block_size=8,alpha=0.8,sink_blocks=1,window_blocks=1,last_full_blocks=1,"
      "lowering=native",
      "xattention:block_size=8,stride=4,tau=0.5,lowering=native",
      "flex_prefill:block_size=8,min_budget=8,lowering=native"};
  return methods;
}

ReplayResult replayed(const SmallTrace& trace, const std::string& method) {
  ReplayRequest request;
  request.spec = MethodSpec::parse(method).resolved(trace.session().shape());
  request.want_output_error = true;
  return replay(trace.session(), request, {});
}

// What a query head's masks let through.
Sees sees_of(const ReplayCell& cell, int head) {
  return [&cell, head](int query, int key) {
    const trace::BlockMasks& masks = cell.blocks.value();
    const int size = static_cast<int>(masks.grid.block_size);
    return masks.kept[masks.index(head, query / size - cell.span.begin / size, key / size)] != 0;
  };
}

// Mass over past keys of the pairs that are let through, and of all.
std::pair<double, double> masses(const SmallTrace& trace, const ReplayCell& cell, int head,
                                 const Sees& sees) {
  double kept = 0, whole = 0;
  for (int query = cell.span.begin; query < cell.span.end(); ++query)
    for (int key = 0; key < cell.span.begin; ++key) {
      const double p = trace.probability(cell.layer, head, query, key);
      whole += p;
      if (sees(query, key)) kept += p;
    }
  return {kept, whole};
}

// Mass of the best choice of as many past keys for each query block.
double best_mass(const SmallTrace& trace, const ReplayCell& cell, int head, const Sees& sees) {
  const int size = static_cast<int>(cell.blocks->grid.block_size);
  double best = 0;
  for (int begin = cell.span.begin; begin < cell.span.end();) {
    const int end = std::min(cell.span.end(), (begin / size + 1) * size);
    std::vector<double> mass(static_cast<std::size_t>(cell.span.begin), 0.0);
    int count = 0;
    for (int key = 0; key < cell.span.begin; ++key) {
      count += sees(begin, key) ? 1 : 0;
      for (int query = begin; query < end; ++query)
        mass[key] += trace.probability(cell.layer, head, query, key);
    }
    std::sort(mass.rbegin(), mass.rend());
    best += std::accumulate(mass.begin(), mass.begin() + count, 0.0);
    begin = end;
  }
  return best;
}

double overlap_of(const SmallTrace& trace, const ReplayCell& cell, int head) {
  const auto& selected = cell.rows[head].positions;
  if (selected.empty()) return 1;
  std::vector<double> mass(static_cast<std::size_t>(cell.span.begin), 0.0);
  for (int query = cell.span.begin; query < cell.span.end(); ++query)
    for (int key = 0; key < cell.span.begin; ++key)
      mass[key] += trace.probability(cell.layer, head, query, key);
  std::vector<int> order(mass.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return mass[a] > mass[b]; });
  int common = 0;
  for (std::size_t i = 0; i < selected.size(); ++i)
    common += std::binary_search(selected.begin(), selected.end(), order[i]) ? 1 : 0;
  return static_cast<double>(common) / static_cast<double>(selected.size());
}

TEST(NativeRuns, CountThePairsThatTheMasksLetThrough) {
  const SmallTrace trace(shape_of_tests());
  for (const std::string& method : native_methods()) {
    SCOPED_TRACE(method);
    const ReplayResult result = replayed(trace, method);
    EXPECT_EQ(result.row_axis, trace::RowAxis::QHead);
    bool thinner = false;  // than the union
    for (const ReplayCell& cell : result.cells) {
      if (cell.dense_reason) {
        EXPECT_FALSE(cell.reads_masks);
        EXPECT_EQ(cell.metrics[0].mass_recall, 1.0);
        continue;
      }
      ASSERT_EQ(cell.rows.size(), 6U);
      for (int head = 0; head < 6; ++head) {
        const Sees sees = sees_of(cell, head);
        const auto [kept, whole] = masses(trace, cell, head, sees);
        const auto& selected = cell.rows[head].positions;
        std::vector<std::int32_t> together;
        for (int key = 0; key < cell.span.begin; ++key)
          for (int query = cell.span.begin; query < cell.span.end(); ++query)
            if (sees(query, key) && (together.empty() || together.back() != key))
              together.push_back(key);
        EXPECT_EQ(selected, together);
        EXPECT_NEAR(cell.metrics[head].mass_recall, kept / whole, 1e-5);
        EXPECT_NEAR(cell.metrics[head].gap, (best_mass(trace, cell, head, sees) - kept) / whole,
                    1e-5);
        EXPECT_NEAR(cell.metrics[head].topk_overlap, overlap_of(trace, cell, head), 1e-12);
        EXPECT_NEAR(cell.output_error[head], plain_output_error(trace, cell, head, sees), 1e-4);
        const auto united = [&](int query, int key) {
          return key >= cell.span.begin || sees(query, key) ||
                 std::binary_search(selected.begin(), selected.end(), key);
        };
        thinner |= masses(trace, cell, head, united).first > kept + 1e-3;
      }
    }
    EXPECT_TRUE(thinner);
  }
}

// What a window hides of a kept block is not read: the best choice gets no key for it. How dense reading is,
// is counted by blocks, and not known there.
TEST(NativeRuns, InAWindowOnlyWhatIsSeenCounts) {
  SmallTraceShape shape = shape_of_tests();
  shape.window = 17;
  const SmallTrace trace(shape);
  for (const std::string& method : native_methods()) {
    SCOPED_TRACE(method);
    const ReplayResult result = replayed(trace, method);
    bool hides = false;
    for (const ReplayCell& cell : result.cells) {
      if (cell.dense_reason) continue;
      for (int head = 0; head < 6; ++head) {
        const Sees mask = sees_of(cell, head);
        const Sees sees = [&](int query, int key) {
          hides |= mask(query, key) && !trace.sees(query, key);
          return mask(query, key) && trace.sees(query, key);
        };
        const auto [kept, whole] = masses(trace, cell, head, sees);
        EXPECT_NEAR(cell.metrics[head].mass_recall, kept / whole, 1e-5);
        EXPECT_NEAR(cell.metrics[head].gap, (best_mass(trace, cell, head, sees) - kept) / whole,
                    1e-5);
      }
    }
    EXPECT_TRUE(hides);
    EXPECT_FALSE(summarise(result, trace.session()).front().numbers[Number::Density]);
  }
}

TEST(NativeRuns, AreReadBackExactlyAndMeasuredAlike) {
  for (const std::string& method : native_methods()) {
    SCOPED_TRACE(method);
    const SmallTrace trace(shape_of_tests());
    const ReplayResult made = replayed(trace, method);
    const auto& path = trace.session().info().path;
    const int run = save_run(trace.session(), made.spec.value(), made);
    const session::TraceSession session(path);
    EXPECT_EQ(session.info().runs.back().row_axis, trace::RowAxis::QHead);
    const ReplayResult recorded = recorded_run(session, run, {}, {}, true, true, {});
    ASSERT_EQ(recorded.cells.size(), made.cells.size());
    for (std::size_t i = 0; i < made.cells.size(); ++i) {
      const ReplayCell &a = recorded.cells[i], &b = made.cells[i];
      EXPECT_EQ(a.blocks, b.blocks);
      EXPECT_EQ(a.reads_masks, b.reads_masks);
      EXPECT_EQ(a.output_error, b.output_error);
      for (std::size_t row = 0; row < b.rows.size(); ++row) {
        EXPECT_EQ(a.rows[row].positions, b.rows[row].positions);
        EXPECT_EQ(a.rows[row].forced, b.rows[row].forced);
        EXPECT_EQ(a.metrics[row].mass_recall, b.metrics[row].mass_recall);
        EXPECT_EQ(a.metrics[row].gap, b.metrics[row].gap);
      }
    }
    EXPECT_TRUE(trace::validate_trace(path).empty());
  }
}

// Defects that a union's masks may have and native ones may not.
TEST(NativeRuns, ValidationKnowsTheirMasks) {
  const std::string& method = native_methods()[2];
  for (const bool own_block : {true, false}) {
    const SmallTrace trace(shape_of_tests());
    ReplayResult made = replayed(trace, method);
    trace::CellRecord& cell = made.cells[made.chunks.size() + 2];  // layer 1, chunk 2
    ASSERT_TRUE(cell.blocks.has_value());
    trace::BlockMasks& masks = *cell.blocks;
    if (own_block) {
      const std::size_t at = masks.index(4, 0, masks.grid.num_past_blocks());
      masks.kept[at] = masks.forced[at] = 0;
    } else {  // selected by nobody's row
      cell.rows[4].positions.clear();
      cell.rows[4].forced.clear();
    }
    save_run(trace.session(), made.spec.value(), made);
    const auto defects = trace::validate_trace(trace.session().info().path);
    ASSERT_EQ(defects.size(), 1U);
    EXPECT_NE(defects[0].find("layer 1, chunk 2"), std::string::npos) << defects[0];
  }
}

TEST(NativeRuns, CompareCountsPairs) {
  const SmallTrace trace(shape_of_tests());
  for (const std::string& method : native_methods()) {
    SCOPED_TRACE(method);
    const ReplayResult result = replayed(trace, method);
    double past = 0, causal = 0, effective = 0;
    int rows = 0;
    for (const ReplayCell& cell : result.cells) {
      if (cell.dense_reason) continue;
      for (int head = 0; head < 6; ++head, ++rows) {
        const Sees sees = sees_of(cell, head);
        double read_past = 0, read = 0, all = 0;
        for (int query = cell.span.begin; query < cell.span.end(); ++query)
          for (int key = 0; key <= query; ++key) {
            ++all;
            read += sees(query, key) ? 1 : 0;
            read_past += key < cell.span.begin && sees(query, key) ? 1 : 0;
          }
        past += read_past / cell.span.length / cell.span.begin;
        causal += read / all;
        effective += static_cast<double>(cell.rows[head].positions.size());
      }
    }
    const CompareRow all = summarise(result, trace.session()).front();
    ASSERT_EQ(all.cells, rows);
    EXPECT_NEAR(*all.numbers[Number::Density], past / rows, 1e-12);
    EXPECT_NEAR(*all.numbers[Number::NativeDensity], past / rows, 1e-12);
    EXPECT_NEAR(*all.numbers[Number::DensityCausal], causal / rows, 1e-12);
    EXPECT_NEAR(*all.numbers[Number::EffectiveBudget], effective / rows, 1e-9);
  }
}

}  // namespace
}  // namespace kvloupe::replay::testing
