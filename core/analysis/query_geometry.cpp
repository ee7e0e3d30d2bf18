#include "core/analysis/query_geometry.h"

#include "core/analysis/query_relevance.h"
#include "core/base/error.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

namespace kvloupe::analysis {
namespace {

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
                             const std::optional<selection::MethodSpec>& method,
                             const WorkContext& context) {
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
