#include "core/measure/attention_bench.h"

#include "core/device/device.h"
#include "core/device/scalar_type.h"
#include "core/device/torch_device.h"
#include "core/measure/cell_source.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/method_run.h"
#include "core/measure/timed_type.h"
#include "core/replay/prepared_method.h"
#include "core/selection/selector.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>
#include <vector>

namespace kvloupe::measure {
namespace {

constexpr std::int64_t kCluster = 128;
constexpr double kSoughtShare = 0.05;

selection::ModelShape shape_s() {
  selection::ModelShape shape;
  shape.num_layers = 1;
  shape.num_q_heads = 24;
  shape.num_kv_heads = 8;
  shape.head_dim = 128;
  return shape;
}

// Moves the keys of each block by a centre of its own, and the queries by the centres of a few
// blocks of their KV head: those keys, and few others, then have large products with the queries.
void cluster(const selection::ModelShape& shape, selection::Cell& cell) {
  const std::int64_t blocks = (cell.past_len + kCluster - 1) / kCluster;
  const at::Tensor centres = at::randn({shape.num_kv_heads, blocks, shape.head_dim});
  const at::Tensor sought =
      at::rand({shape.num_kv_heads, blocks, 1}).lt(kSoughtShare).to(at::kFloat);
  cell.k.narrow(1, 0, cell.past_len) +=
      centres.repeat_interleave(kCluster, 1).narrow(1, 0, cell.past_len);
  const at::Tensor aims = (centres * sought).sum(1, true);
  cell.q += aims.repeat_interleave(shape.num_q_heads / shape.num_kv_heads, 0);
}

selection::Cell synthetic_cell(const selection::ModelShape& shape, const AttentionBenchCase& what) {
  at::manual_seed(1);
  selection::Cell cell;
  cell.chunk = static_cast<int>(what.past_len / what.chunk_len);
  cell.past_len = what.past_len;
  cell.chunk_len = what.chunk_len;
  cell.softmax = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  cell.q = at::randn({shape.num_q_heads, what.chunk_len, shape.head_dim});
  cell.k = at::randn({shape.num_kv_heads, cell.kv_len(), shape.head_dim});
  cell.v = at::randn({shape.num_kv_heads, cell.kv_len(), shape.head_dim});
  if (what.keys == SyntheticKeys::Clustered) cluster(shape, cell);
  // The same numbers on every device.
  const c10::Device place = device::torch_device(what.device);
  const at::ScalarType type = scalar_type(timed_type(what.device));
  for (at::Tensor* numbers : {&cell.q, &cell.k, &cell.v}) *numbers = numbers->to(place, type);
  return cell;
}

// The synthetic cell, and before it chunks that ask with the same queries.
class SyntheticCells final : public CellSource {
 public:
  SyntheticCells(selection::Cell timed, std::string device)
      : timed_(std::move(timed)), device_(std::move(device)) {}
  int chunk() const override { return timed_.chunk; }
  int trace_chunk() const override { return timed_.chunk; }
  const std::string& device() const override { return device_; }
  selection::Cell load(int /*layer*/, int chunk) override {
    selection::Cell cell = timed_;
    cell.chunk = chunk;
    cell.past_len -= (timed_.chunk - chunk) * cell.chunk_len;
    cell.k = cell.k.narrow(1, 0, cell.kv_len());
    cell.v = cell.v.narrow(1, 0, cell.kv_len());
    return cell;
  }

 private:
  selection::Cell timed_;
  std::string device_;
};

double density_of(const selection::CellSelection& selected, std::int64_t past_len) {
  double kept = 0;
  for (const trace::SelectedRow& row : selected.rows)
    kept += static_cast<double>(row.positions.size());
  return kept / static_cast<double>(selected.rows.size()) / static_cast<double>(past_len);
}

}  // namespace

AttentionBench bench_attention(const AttentionBenchCase& what, int repetitions,
                               const WorkContext& context) {
  const selection::ModelShape shape = shape_s();
  const auto spec = what.method.resolved(shape);
  SyntheticCells cells(synthetic_cell(shape, what), what.device);
  MethodRun run({spec, shape, selection::row_layout(spec, shape), nullptr, what.device}, {}, cells,
                0);
  const selection::Cell& cell = run.cell();
  std::vector<TimedPart> parts = run.parts(context);
  const DenseBaseline baseline(cell.q, cell.k, cell.v, cell.softmax);
  for (TimedPart& part : baseline.parts()) parts.push_back(std::move(part));

  RoundOptions options;
  options.repetitions = repetitions;
  options.device = what.device;
  const RoundTimes times = time_rounds(parts, options, context, [&](const RoundTimes& so_far) {
    context.report(so_far.stats(kChain).samples, repetitions, "rounds");
  });
  const std::size_t dense = fastest_of(times, kFirstDense, parts.size() - kFirstDense);
  AttentionBench bench;
  bench.past_len = what.past_len;
  bench.method = spec.canonical();
  bench.density = density_of(run.selected(), what.past_len);
  bench.sparse = times.stats(kChain);
  bench.select = times.stats(kSelect);
  bench.dense = times.stats(dense);
  bench.dense_variant = parts[dense].name;
  bench.dense_left_out = baseline.left_out();
  bench.key_bytes = static_cast<double>(cell.k.nbytes());
  bench.past_key_numbers = static_cast<double>(shape.num_kv_heads * what.past_len * shape.head_dim);
  bench.discarded = times.discarded;
  bench.counts = run.counts(device::open_device(what.device), context);
  return bench;
}

}  // namespace kvloupe::measure
