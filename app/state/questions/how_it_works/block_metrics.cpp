#include "app/state/questions/how_it_works/block_metrics.h"

#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

namespace kvloupe::state {
namespace {

const replay::ReplayCell& cell_with_masks(const Place& place, const replay::ReplayResult& run) {
  const replay::ReplayCell* cell = run.find(place.layer, place.chunk);
  if (cell == nullptr && !place.info().has_queries(place.chunk))
    throw trace::lacks_queries(place.info(), place.chunk);
  KVLOUPE_CHECK(cell != nullptr && cell->blocks.has_value());
  return *cell;
}

}  // namespace

HeadRange united_heads(const Place& place, const replay::ReplayResult& run) {
  const int count = run.row_axis == trace::RowAxis::QHead ? place.info().model.gqa_group_size()
                                                          : run.q_heads_per_row;
  return {place.q_head / count * count, count};
}

std::string BlockMetricsQuestion::title() const {
  return fmt::format("Measuring unions of blocks in layer {}", place.layer);
}

BlockMetricsQuestion::Answer BlockMetricsQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  const HeadRange heads = united_heads(place, *run);
  return engine().block_metrics(*place.trace->session, cell_with_masks(place, *run), heads.first,
                                heads.count);
}

std::string BlockTimesQuestion::title() const {
  return fmt::format("Timing unions of blocks in layer {}, chunk {}", place.layer, place.chunk);
}

BlockTimesQuestion::Answer BlockTimesQuestion::work(Steps& steps) const {
  const auto run = steps.need(RunQuestion{place, method});
  const HeadRange heads = united_heads(place, *run);
  return engine().time_block_executions(*place.trace->session, cell_with_masks(place, *run),
                                        heads.first, heads.count, measure::LatencyOptions{},
                                        steps.context);
}

}  // namespace kvloupe::state
