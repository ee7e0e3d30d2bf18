#include "tests/selection/sequences.h"

#include "tests/selection/method_files.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace kvloupe::selection::testing {
namespace {

// Columns of a random matrix made orthonormal one after the other (Gram and Schmidt), in fp64.
std::vector<double> random_directions(int dim, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<double> matrix(static_cast<std::size_t>(dim * dim));
  for (double& value : matrix) value = normal(random);
  const auto at = [&](int row, int column) -> double& { return matrix[row * dim + column]; };
  for (int column = 0; column < dim; ++column) {
    // Twice: once leaves rounding errors that the second pass removes.
    for (int before = 0; before < 2 * column; ++before) {
      double along = 0;
      for (int i = 0; i < dim; ++i) along += at(i, column) * at(i, before % column);
      for (int i = 0; i < dim; ++i) at(i, column) -= along * at(i, before % column);
    }
    double squares = 0;
    for (int i = 0; i < dim; ++i) squares += at(i, column) * at(i, column);
    for (int i = 0; i < dim; ++i) at(i, column) /= std::sqrt(squares);
  }
  return matrix;
}

trace::Basis random_basis(const SequenceShape& shape, unsigned seed) {
  trace::Basis basis;
  basis.model_name = "random";
  basis.num_kv_heads = shape.num_kv_heads;
  basis.head_dim = shape.head_dim;
  basis.source = "random";
  std::mt19937 random(seed + 1000);
  trace::LayerBasis& layer = basis.layers[shape.layer];
  for (int head = 0; head < shape.num_kv_heads; ++head) {
    for (const double value : random_directions(shape.head_dim, random))
      layer.vectors.push_back(static_cast<float>(value));
    for (int i = 0; i < shape.head_dim; ++i) layer.values.push_back(1.0 / (1 + i));
  }
  // After all of the keys', whose numbers other tests depend on.
  for (int head = 0; head < shape.num_kv_heads; ++head)
    for (const double value : random_directions(shape.head_dim, random))
      layer.value_vectors.push_back(static_cast<float>(value));
  return basis;
}

}  // namespace

double Sequence::scale() const { return 1.0 / std::sqrt(static_cast<double>(shape.head_dim)); }

ModelShape Sequence::model() const {
  ModelShape model{std::max(shape.num_layers, shape.layer + 1), shape.num_q_heads,
                   shape.num_kv_heads, shape.head_dim};
  model.rope_theta = 100;
  return model;
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
  for (int position = 0; position < begin; ++position)
    sequence.novelty.push_back(position == 0 ? std::numeric_limits<float>::infinity()
                                             : 3 * std::abs(normal(random)));
  sequence.basis = random_basis(shape, seed);
  return sequence;
}

Sequence in_layer(const Sequence& sequence, int layer) {
  Sequence other = sequence;
  other.shape.layer = layer;
  const auto dim = static_cast<std::ptrdiff_t>(sequence.shape.head_dim);
  // Channels turned round in the keys only: q and k meet otherwise than before.
  for (auto key = other.k.begin(); key != other.k.end(); key += dim) std::reverse(key, key + dim);
  return other;
}

Sequence rounded_to(Sequence sequence, c10::ScalarType type) {
  for (std::vector<float>* numbers : {&sequence.q, &sequence.k}) {
    at::Tensor all =
        at::from_blob(numbers->data(), {static_cast<std::int64_t>(numbers->size())}, at::kFloat);
    all.copy_(all.to(type));
  }
  return sequence;
}

std::vector<float> probe_query(const Sequence& sequence, int chunk, int head, int row) {
  // A query of the past read backwards: as large as the others, and looking elsewhere.
  const int past = sequence.chunks[static_cast<std::size_t>(chunk)].end();
  const float* query = sequence.query(head, (2 * row + 1) * past / (2 * kProbeLength));
  std::vector<float> probe(query, query + sequence.shape.head_dim);
  std::reverse(probe.begin(), probe.end());
  return probe;
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
  const auto next = static_cast<std::size_t>(chunk) + 1;
  cell.ends_prefill =
      span.phase == trace::Phase::Prefill &&
      (next == sequence.chunks.size() || sequence.chunks[next].phase == trace::Phase::Decode);
  cell.softmax = sequence.softmax.value_or(SoftmaxForm(sequence.scale()));
  cell.q = whole(sequence.q, shape.num_q_heads)
               .narrow(1, span.begin, span.length)
               .clone(at::MemoryFormat::Contiguous);
  const at::Tensor keys = whole(sequence.k, shape.num_kv_heads).narrow(1, 0, span.end());
  const at::Tensor buffer =
      at::full({shape.num_kv_heads, span.end() + slack, shape.head_dim}, 1e9, at::kFloat);
  cell.k = buffer.narrow(1, 0, span.end());
  cell.k.copy_(keys);
  cell.v = cell.k;
  cell.novelty = at::tensor(
      at::ArrayRef<float>(sequence.novelty.data(), static_cast<std::size_t>(span.end())));
  if (span.phase == trace::Phase::Prefill) {
    cell.probe_q = at::empty({shape.num_q_heads, kProbeLength, shape.head_dim}, at::kFloat);
    for (int head = 0; head < shape.num_q_heads; ++head)
      for (int row = 0; row < kProbeLength; ++row)
        std::ranges::copy(probe_query(sequence, chunk, head, row),
                          cell.probe_q[head][row].mutable_data_ptr<float>());
  }
  for (at::Tensor* tensor : {&cell.q, &cell.k, &cell.v, &cell.probe_q})
    if (tensor->defined()) *tensor = tensor->to(sequence.device, sequence.type);
  return cell;
}

std::unique_ptr<Selector> selector_for(const Sequence& sequence, const std::string& spec) {
  const auto resolved = MethodSpec::parse(with_files(spec, sequence)).resolved(sequence.model());
  BasisPtr basis;
  if (resolved.traits().basis) {
    auto own = std::make_shared<trace::Basis>(sequence.basis);
    own->kind = resolved.traits().basis->kind;
    basis = std::move(own);
  }
  return make_selector(resolved, sequence.model(), basis);
}

MethodRun run_method(const Sequence& sequence, const std::string& spec, int slack) {
  const auto selector = selector_for(sequence, spec);
  const auto resolved = MethodSpec::parse(spec).resolved(sequence.model());
  const std::optional<int> source = source_layer(resolved, sequence.model(), sequence.shape.layer);
  const Sequence below = source ? in_layer(sequence, *source) : Sequence{};
  MethodRun run;
  for (std::size_t chunk = 0; chunk < sequence.chunks.size(); ++chunk) {
    if (source) selector->select(cell_of(below, static_cast<int>(chunk), slack));
    const Cell cell = cell_of(sequence, static_cast<int>(chunk), slack);
    run.cells.push_back(selector->select(cell));
    run.evicted.push_back(selector->evict(cell));
  }
  run.alive = selector->alive(sequence.shape.layer);
  return run;
}

std::vector<std::vector<std::int32_t>> positions_of(const CellSelection& cell) {
  std::vector<std::vector<std::int32_t>> positions;
  for (const SelectedRow& row : cell.rows) positions.push_back(row.positions);
  return positions;
}

std::vector<std::vector<std::vector<std::int32_t>>> positions_of(const MethodRun& run) {
  std::vector<std::vector<std::vector<std::int32_t>>> positions;
  for (const CellSelection& cell : run.cells) positions.push_back(positions_of(cell));
  return positions;
}

}  // namespace kvloupe::selection::testing
