#include "core/analysis/head_points.h"

#include "core/analysis/attention_map.h"
#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/lanes/rotary.h"
#include "core/selection/operators/operators.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::analysis {
namespace {

using Points = std::vector<std::array<float, 3>>;

// Evenly thinned positions of [begin, begin + count), the first always among them.
std::vector<std::int32_t> thinned(std::int32_t begin, std::int64_t count, std::int64_t most) {
  std::vector<std::int32_t> positions;
  const std::int64_t kept = std::min(count, std::max<std::int64_t>(most, 1));
  for (std::int64_t i = 0; i < kept; ++i) {
    positions.push_back(begin + static_cast<std::int32_t>(i * count / kept));
  }
  return positions;
}

Points points_of(const Pca& pca, const std::vector<float>& rows) {
  const std::vector<float> projected = project(pca, rows);
  Points points(projected.size() / pca.components);
  for (std::size_t i = 0; i < points.size(); ++i) {
    points[i] = {};
    for (int c = 0; c < pca.components; ++c) points[i][c] = projected[i * pca.components + c];
  }
  return points;
}

void check(const trace::TraceInfo& info, const PointsRequest& request) {
  KVLOUPE_CHECK(request.components == 2 || request.components == 3);
  const int chunks = static_cast<int>(info.chunks.size());
  const int chunk = request.chunk.value_or(0);
  if (chunk >= 0 && chunk < chunks && request.q_head >= 0 &&
      request.q_head < info.model.num_q_heads)
    return;
  throw input_error(
      fmt::format("chunk {}, query head {} cannot be shown", chunk, request.q_head),
      fmt::format("the trace has {} chunks and {} query heads", chunks, info.model.num_q_heads),
      "choose a chunk and a head inside the trace");
}

// Queries or keys as the model's attention sees them, or as they were before the rotary embedding.
class Form {
 public:
  Form(const selection::ModelShape& shape, const PointsRequest& request)
      : rotary_(selection::has_rotary(shape, request.layer)) {
    if (request.before_rotary)
      undo_.emplace(shape, "queries and keys before the rotary embedding cannot be shown");
  }
  // rows [n, head_dim] at consecutive positions.
  at::Tensor of(const at::Tensor& rows, std::int32_t first) const {
    if (!undo_) return rows;
    return undo_
        ->undo(rows.unsqueeze(0), rotary_ ? std::optional<std::int64_t>(first) : std::nullopt)
        .squeeze(0);
  }

 private:
  bool rotary_;
  std::optional<selection::RotaryUndo> undo_;
};

struct Queries {
  at::Tensor rows;   // of the positions shown, in the form asked for
  at::Tensor means;  // of each chunk
};

// Fills the positions and S_q, chunk by chunk: a chunk's mean takes all its queries.
Queries read_queries(const session::TraceSession& session, const PointsRequest& request,
                     const Form& form, HeadPoints& points, const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  const int first = request.chunk.value_or(0);
  const int last = request.chunk.value_or(static_cast<int>(info.chunks.size()) - 1);
  const std::int32_t begin = info.chunks[first].begin, end = info.chunks[last].end();
  points.first_chunk = first;
  points.query_positions =
      thinned(begin, end - begin, request.chunk ? end - begin : request.max_queries);
  std::vector<at::Tensor> rows, means;
  auto next = points.query_positions.begin();
  for (int chunk = first; chunk <= last; ++chunk) {
    context.cancel.throw_if_cancelled();
    const trace::ChunkInfo& here = info.chunks[chunk];
    at::Tensor q = at::empty({here.length, info.model.head_dim}, at::kFloat);
    session.reader().read_rows(trace::Stored::Q, request.layer, request.q_head, here.begin,
                               here.end(), q.mutable_data_ptr<float>());
    const std::vector<double> relevance =
        selection::on_host<double>(selection::query_relevance(q.unsqueeze(0)));
    std::vector<std::int64_t> shown;
    for (; next != points.query_positions.end() && *next < here.end(); ++next) {
      shown.push_back(*next - here.begin);
      points.relevance.push_back(static_cast<float>(relevance[shown.back()]));
    }
    q = form.of(q, here.begin);
    rows.push_back(q.index_select(0, at::tensor(shown, at::kLong)));
    means.push_back(q.to(at::kDouble).mean(0).to(at::kFloat));
  }
  return {at::cat(rows), at::stack(means)};
}

}  // namespace

HeadPoints head_points(const session::TraceSession& session, const PointsRequest& request,
                       const WorkContext& context) {
  check(session.info(), request);
  const trace::ModelInfo& model = session.info().model;
  const Form form(session.shape(), request);
  HeadPoints points;
  const Queries queries = read_queries(session, request, form, points, context);
  const std::int32_t end = request.chunk ? session.info().chunks[*request.chunk].end()
                                         : session.info().chunks.back().end();
  points.key_positions = thinned(0, end, request.max_keys);
  const at::Tensor every_k = form.of(session::layer_k(session, request.layer)
                                         .select(0, request.q_head / model.gqa_group_size())
                                         .narrow(0, 0, end),
                                     0);
  const at::Tensor k = every_k.index_select(0, at::tensor(points.key_positions, at::kInt));
  const std::vector<float> query_rows = selection::on_host<float>(queries.rows),
                           key_rows = selection::on_host<float>(k);
  if (request.apart) {
    points.query_pca = fit_pca(query_rows, model.head_dim, request.components);
    points.key_pca = fit_pca(key_rows, model.head_dim, request.components);
  } else {
    std::vector<float> all = query_rows;
    all.insert(all.end(), key_rows.begin(), key_rows.end());
    points.query_pca = points.key_pca = fit_pca(all, model.head_dim, request.components);
  }
  context.cancel.throw_if_cancelled();
  points.queries = points_of(points.query_pca, query_rows);
  points.keys = points_of(points.key_pca, key_rows);
  points.mean_queries = points_of(points.query_pca, selection::on_host<float>(queries.means));
  constexpr std::int64_t kRows = 4096;  // at a time
  for (const at::Tensor& rows : every_k.split(kRows)) {
    const Points some = points_of(points.key_pca, selection::on_host<float>(rows));
    points.every_key.insert(points.every_key.end(), some.begin(), some.end());
  }
  return points;
}

HeadAttention head_attention(const session::TraceSession& session, int layer, int q_head,
                             std::optional<int> chunk, const WorkContext& context) {
  const std::vector<trace::ChunkInfo>& chunks = session.info().chunks;
  const auto num_tokens = static_cast<std::size_t>(session.info().num_tokens);
  HeadAttention attention{std::vector<float>(num_tokens, 0), std::vector<float>(num_tokens, 0)};
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (chunk && static_cast<int>(c) != *chunk) continue;
    const trace::ChunkInfo& here = chunks[c];
    const Matrix rows = attention_rows(session, layer, q_head, here.begin, here.end(), context);
    for (std::int64_t r = 0; r < rows.rows; ++r)
      for (std::int64_t key = 1; key <= here.begin + r; ++key) {
        const float p = rows.at(r, key);
        if (std::isnan(p)) continue;
        float& given = attention.given[here.begin + r];
        given = std::max(given, p);
        attention.received[key] = std::max(attention.received[key], p);
      }
  }
  return attention;
}

}  // namespace kvloupe::analysis
