#include "core/analysis/query_geometry.h"

#include "core/analysis/query_relevance.h"
#include "core/base/error.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::analysis {
namespace {

// Evenly thinned positions of [0, count), the first (the sink) always among them.
std::vector<std::int32_t> thinned(std::int64_t count, std::int64_t most) {
  std::vector<std::int32_t> positions;
  const std::int64_t kept = std::min(count, std::max<std::int64_t>(most, 1));
  for (std::int64_t i = 0; i < kept; ++i) {
    positions.push_back(static_cast<std::int32_t>(i * count / kept));
  }
  return positions;
}

std::vector<float> values_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<float>(), flat.const_data_ptr<float>() + flat.numel()};
}

std::vector<std::array<float, 3>> points_of(const Pca& pca, const std::vector<float>& rows) {
  const std::vector<float> projected = project(pca, rows);
  std::vector<std::array<float, 3>> points(projected.size() / pca.components);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = {};
    for (int c = 0; c < pca.components; ++c) points[i][c] = projected[i * pca.components + c];
  }
  return points;
}

void mark_chosen(const selection::Cell& cell, const selection::MethodSpec& method,
                 const selection::ModelShape& shape, QueryGeometry& geometry) {
  try {
    geometry.chosen = chosen_queries(cell, geometry.q_head, method, shape);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    geometry.chosen_missing = error.what();
  }
}

}  // namespace

QueryGeometry query_geometry(const session::TraceSession& session, int layer, int chunk, int q_head,
                             int components, const std::optional<selection::MethodSpec>& method,
                             int max_keys, const WorkContext& context) {
  KVLOUPE_CHECK(components == 2 || components == 3);
  const trace::TraceInfo& info = session.info();
  if (chunk < 0 || chunk >= static_cast<int>(info.chunks.size()) || q_head < 0 ||
      q_head >= info.model.num_q_heads) {
    throw input_error(fmt::format("chunk {}, query head {} cannot be shown", chunk, q_head),
                      fmt::format("the trace has {} chunks and {} query heads", info.chunks.size(),
                                  info.model.num_q_heads),
                      "choose a chunk and a head inside the trace");
  }
  const selection::Cell cell = session::load_cell(session, layer, chunk, info.chunks[chunk]);
  context.cancel.throw_if_cancelled();

  QueryGeometry geometry;
  geometry.layer = layer;
  geometry.chunk = chunk;
  geometry.q_head = q_head;
  geometry.key_positions = thinned(cell.kv_len(), max_keys);
  const at::Tensor q = cell.q.select(0, q_head);
  const at::Tensor shown = at::tensor(geometry.key_positions, at::kInt);
  const at::Tensor k = cell.k.select(0, q_head / cell.gqa_group_size()).index_select(0, shown);
  const std::vector<float> query_rows = values_of(q), key_rows = values_of(k);
  std::vector<float> all = query_rows;
  all.insert(all.end(), key_rows.begin(), key_rows.end());
  geometry.pca = fit_pca(all, q.size(1), components);
  geometry.queries = points_of(geometry.pca, query_rows);
  geometry.keys = points_of(geometry.pca, key_rows);
  geometry.mean_query =
      points_of(geometry.pca, values_of(q.to(at::kDouble).mean(0).to(at::kFloat)))[0];
  context.cancel.throw_if_cancelled();

  QueryRelevance relevance = query_relevance_of(cell, q_head);
  if (method) mark_chosen(cell, *method, session.shape(), geometry);
  geometry.pearson_r = pearson(relevance.relevance, relevance.max_attention);
  geometry.relevance = std::move(relevance.relevance);
  geometry.max_attention = std::move(relevance.max_attention);
  geometry.alpha = std::move(relevance.alpha);
  geometry.beta = std::move(relevance.beta);
  return geometry;
}

}  // namespace kvloupe::analysis
