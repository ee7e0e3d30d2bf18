#include "app/state/questions/how_it_works/head_points.h"

#include "core/engine/engine.h"
#include "core/selection/lanes/rotary_shape.h"

#include <fmt/format.h>

#include <optional>

namespace kvloupe::state {
namespace {

std::optional<int> chunk_of(const Place& place, bool all_chunks) {
  return all_chunks ? std::nullopt : std::optional<int>(place.chunk);
}

}  // namespace

std::string HeadPointsQuestion::obstacle() const {
  if (place.empty() || !before_rotary) return missing(place);
  const selection::ModelShape shape = place.trace->shape();
  if (!selection::has_rotary(shape, place.layer))
    return fmt::format(
        "Layer {} has no rotary embedding: its queries and keys are the same before and after",
        place.layer);
  const auto unknown = selection::rotary_unknown(shape);
  return unknown
             ? fmt::format("What was before the rotary embedding cannot be shown: {}", unknown->why)
             : std::string();
}

HeadPointsQuestion::Answer HeadPointsQuestion::work(Steps& steps) const {
  analysis::PointsRequest request;
  request.layer = place.layer;
  request.q_head = place.q_head;
  request.chunk = chunk_of(place, all_chunks);
  request.components = components;
  request.apart = apart;
  request.before_rotary = before_rotary;
  return engine().head_points(*place.trace->session, request, steps.context);
}

std::uint64_t HeadPointsQuestion::bytes(const Answer& answer) {
  constexpr std::uint64_t kPoint = sizeof(answer.queries[0]) + sizeof(std::int32_t);
  return answer.queries.size() * (kPoint + sizeof(float)) + answer.keys.size() * kPoint +
         (answer.mean_queries.size() + answer.every_key.size()) * sizeof(answer.every_key[0]) +
         2 * (answer.key_pca.axes.size() + answer.key_pca.mean.size()) * sizeof(double);
}

HeadAttentionQuestion::Answer HeadAttentionQuestion::work(Steps& steps) const {
  return engine().head_attention(*place.trace->session, place.layer, place.q_head,
                                 chunk_of(place, all_chunks), steps.context);
}

}  // namespace kvloupe::state
