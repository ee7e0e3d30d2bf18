#include "tests/selection/sequences.h"

#include <ATen/ATen.h>

#include <cmath>
#include <random>

namespace kvloupe::selection::testing {

double Sequence::scale() const { return 1.0 / std::sqrt(static_cast<double>(shape.head_dim)); }

ModelShape Sequence::model() const {
  return {shape.layer + 1, shape.num_q_heads, shape.num_kv_heads, shape.head_dim};
}

Sequence random_sequence(const SequenceShape& shape, unsigned seed) {
  Sequence sequence;
  sequence.shape = shape;
  std::int32_t begin = 0;
  for (const int length : shape.chunk_lengths) {
    sequence.chunks.push_back({begin, length, trace::Phase::Prefill});
    begin += length;
  }
  for (int i = 0; i < shape.decoded; ++i)
    sequence.chunks.push_back({begin++, 1, trace::Phase::Decode});
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const int dim = shape.head_dim;
  std::vector<float> centre(static_cast<std::size_t>(dim));
  for (float& value : centre) value = normal(random);
  for (int head = 0; head < shape.num_q_heads; ++head)
    for (int position = 0; position < begin; ++position)
      for (int i = 0; i < dim; ++i)
        sequence.q.push_back(1.5F * normal(random) +
                             (position % 5 == 0 ? -0.6F : 0.5F) * centre[i]);
  for (int head = 0; head < shape.num_kv_heads; ++head)
    for (int position = 0; position < begin; ++position)
      for (int i = 0; i < dim; ++i)
        sequence.k.push_back(normal(random) + (position == 0 ? 2.0F : 0.6F) * centre[i]);
  return sequence;
}

Cell cell_of(const Sequence& sequence, int chunk, int slack) {
  const trace::ChunkInfo& span = sequence.chunks[static_cast<std::size_t>(chunk)];
  const SequenceShape& shape = sequence.shape;
  const std::int64_t total = sequence.num_tokens();
  const auto whole = [&](const std::vector<float>& values, int heads) {
    return at::from_blob(const_cast<float*>(values.data()), {heads, total, shape.head_dim},
                         at::kFloat);
  };
  Cell cell;
  cell.layer = shape.layer;
  cell.chunk = chunk;
  cell.past_len = span.begin;
  cell.chunk_len = span.length;
  cell.phase = span.phase;
  cell.softmax_scale = sequence.scale();
  cell.q = whole(sequence.q, shape.num_q_heads)
               .narrow(1, span.begin, span.length)
               .clone(at::MemoryFormat::Contiguous);
  const at::Tensor keys = whole(sequence.k, shape.num_kv_heads).narrow(1, 0, span.end());
  const at::Tensor buffer =
      at::full({shape.num_kv_heads, span.end() + slack, shape.head_dim}, 1e9, at::kFloat);
  cell.k = buffer.narrow(1, 0, span.end());
  cell.k.copy_(keys);
  cell.v = cell.k;
  return cell;
}

MethodRun run_method(const Sequence& sequence, const std::string& spec, int slack) {
  const auto resolved = MethodSpec::parse(spec).resolved(sequence.model());
  const auto selector = make_selector(resolved, sequence.model());
  MethodRun run;
  for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
    const Cell cell = cell_of(sequence, static_cast<int>(chunk), slack);
    run.cells.push_back(selector->select(cell));
    run.evicted.push_back(selector->evict(cell));
  }
  run.alive = selector->alive(sequence.shape.layer);
  return run;
}

std::vector<std::vector<std::int32_t>> positions_of(const CellSelection& cell) {
  std::vector<std::vector<std::int32_t>> positions;
  for (const RowSelection& row : cell.rows) positions.push_back(row.positions);
  return positions;
}

}  // namespace kvloupe::selection::testing
