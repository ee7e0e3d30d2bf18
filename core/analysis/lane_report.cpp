#include "core/analysis/lane_report.h"

#include "core/analysis/lane_loss.h"
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/replay/cell_metrics.h"
#include "core/replay/trace_basis.h"
#include "core/selection/lanes/lane_counts.h"
#include "core/selection/lanes/lanes.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace kvloupe::analysis {
namespace {

using selection::MethodSpec;

// At most this many points on a curve.
constexpr int kCurvePoints = 64;

MethodSpec with_lanes(const char* method, double dim_ratio, const std::string& basis,
                      const session::TraceSession& session) {
  return MethodSpec::parse(method)
      .with({{"dim_ratio", format_shortest(dim_ratio)}, {"basis", basis}})
      .resolved(session.shape());
}

// The method whose lanes are those of `spec` in one cell without state: aqua_h2o also evicts keys,
// which its lanes do not depend on.
MethodSpec stateless(const MethodSpec& spec, const session::TraceSession& session) {
  const selection::Traits& traits = spec.traits();
  if (!traits.evicts()) return spec;
  return with_lanes("aqua", traits.lanes->kept, traits.basis->where, session);
}

selection::CellSelection pruned_by(const MethodSpec& spec, const session::TraceSession& session,
                                   const selection::BasisPtr& basis, const selection::Cell& cell) {
  auto chosen = selection::make_selector(spec, session.shape(), basis)->select(cell);
  KVLOUPE_CHECK(chosen.lanes.has_value());
  return chosen;
}

// 1 to head_dim in even steps, with the method's own number among them.
std::vector<int> curve_points(int head_dim, int kept_lanes) {
  const int step = std::max(1, head_dim / kCurvePoints);
  std::vector<int> points{kept_lanes, head_dim};
  for (int k = step; k < head_dim; k += step) points.push_back(k);
  std::sort(points.begin(), points.end());
  points.erase(std::unique(points.begin(), points.end()), points.end());
  return points;
}

// Direction i of the basis is column i.
at::Tensor directions(const trace::Basis& basis, int layer, int kv_head) {
  const std::vector<float>& vectors = basis.layers.at(layer).vectors;
  const std::int64_t d = basis.head_dim;
  return at::from_blob(const_cast<float*>(vectors.data()) + kv_head * d * d, {d, d}, at::kFloat)
      .to(at::kDouble);
}

std::vector<LossCurve> curves_in(const trace::Basis& basis, const selection::Cell& cell,
                                 const LaneReport& report, const WorkContext& context) {
  const at::Tensor p = directions(basis, report.layer, report.kv_head);
  const at::Tensor keys = at::matmul(cell.k[report.kv_head].to(at::kDouble), p);
  std::vector<LossCurve> curves;
  for (const LaneChoice choice : {LaneChoice::Magnitude, LaneChoice::Leading})
    curves.push_back(
        {true, -1, choice, own_lane_loss(keys, report.kept, choice == LaneChoice::Leading)});
  for (int i = 0; i < report.q_heads_per_kv_head; ++i) {
    const int head = report.kv_head * report.q_heads_per_kv_head + i;
    const at::Tensor queries = at::matmul(cell.q[head].to(at::kDouble), p);
    for (const LaneChoice choice : {LaneChoice::Magnitude, LaneChoice::Leading})
      curves.push_back({false, head, choice,
                        own_lane_loss(queries, report.kept, choice == LaneChoice::Leading)});
    curves.push_back(
        {true, head, LaneChoice::QueryLanes,
         query_lane_loss(queries, keys, report.kept, context.cancel, cell.softmax.window)});
  }
  return curves;
}

// The basis fitted on the trace, and the calibrated one: that of the method where it has one.
BasisLoss loss_against(bool matched, const MethodSpec& spec, const session::TraceSession& session,
                       const selection::Cell& cell, const LaneReport& report,
                       const WorkContext& context) {
  BasisLoss result;
  result.matched = matched;
  const selection::BasisTrait& own = *spec.traits().basis;
  const std::string wanted = matched ? "self" : own.is_self() ? "auto" : own.where;
  try {
    const MethodSpec like =
        MethodSpec::parse("aqua").with({{"basis", wanted}}).resolved(session.shape());
    const selection::BasisPtr basis = replay::basis_for(session, like, {report.layer}, context);
    result.note = replay::basis_note(session, basis);
    result.curves = curves_in(*basis, cell, report, context);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input) throw;
    result.missing = error.what();
  }
  return result;
}

// In the paper's steps of an eighth, a quarter, a half and three quarters of the lanes.
std::vector<LaneOverlap> overlaps_in(const trace::Basis& basis, const selection::Cell& cell,
                                     const LaneReport& report) {
  const at::Tensor p = directions(basis, report.layer, report.kv_head);
  const std::int64_t d = report.head_dim, group = report.q_heads_per_kv_head;
  const at::Tensor keys = cell.k[report.kv_head].to(at::kDouble);
  const at::Tensor queries =
      cell.q.narrow(0, report.kv_head * group, group).reshape({-1, d}).to(at::kDouble);
  std::vector<LaneOverlap> overlaps;
  for (const bool rotated : {true, false})
    for (const bool of_keys : {true, false}) {
      const at::Tensor& vectors = of_keys ? keys : queries;
      const at::Tensor lanes = rotated ? at::matmul(vectors, p) : vectors;
      for (const double largest : {0.125, 0.25, 0.5, 0.75})
        for (const double leading : {0.125, 0.25, 0.5, 0.75}) {
          LaneOverlap& added = overlaps.emplace_back();
          added.of_keys = of_keys;
          added.rotated = rotated;
          added.largest = std::max(1, static_cast<int>(largest * static_cast<double>(d)));
          added.leading = std::max(1, static_cast<int>(leading * static_cast<double>(d)));
          added.counts = leading_counts(lanes, added.largest, added.leading);
        }
    }
  return overlaps;
}

}  // namespace

LaneReport lane_report(const session::TraceSession& session, const MethodSpec& wanted, int layer,
                       int chunk, int kv_head, const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  LaneReport report;
  report.layer = layer;
  report.chunk = chunk;
  report.kv_head = kv_head;
  report.span = info.chunks.at(static_cast<std::size_t>(chunk));
  report.head_dim = info.model.head_dim;
  report.num_q_heads = info.model.num_q_heads;
  report.q_heads_per_kv_head = info.model.gqa_group_size();

  const selection::Cell cell = session::load_cell(session, layer, chunk, report.span);
  MethodSpec spec = wanted;
  selection::BasisPtr basis;
  try {
    basis = replay::basis_for(session, spec, {layer}, context);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Input || spec.traits().basis->is_self()) throw;
    report.basis_missing = error.what();
    spec = spec.with({{"basis", "self"}}).resolved(session.shape());
    basis = replay::basis_for(session, spec, {layer}, context);
  }
  report.method = spec.canonical();
  report.basis = replay::basis_note(session, basis).value_or(replay::BasisNote{});
  selection::CellSelection pruned = pruned_by(stateless(spec, session), session, basis, cell);
  report.counts = std::move(pruned.lane_counts);
  // Every row uses k lanes.
  const auto head = report.counts.begin();
  report.kept_lanes = static_cast<int>(
      std::accumulate(head, head + report.head_dim, std::int64_t{0}) / report.span.length);
  const selection::LaneTrait& lanes = *spec.traits().lanes;
  report.slice_ratio = lanes.sliced;
  report.slices_values = lanes.slices_values;
  report.effective_ratio = lanes.effective_ratio();
  report.stored_lanes = static_cast<int>(selection::lanes_stored(lanes.sliced, report.head_dim));

  const MethodSpec twin = with_lanes(lanes.leading ? "aqua" : "static_slicing",
                                     static_cast<double>(report.kept_lanes) / report.head_dim,
                                     spec.traits().basis->where, session);
  report.twin = twin.canonical();
  replay::CellTruth truth(cell, {});
  const auto score_errors = [&](const selection::CellSelection& selection) {
    return truth.score_errors(selection::whole_queries(cell, *selection.lanes));
  };
  report.score_error = score_errors(pruned);
  report.twin_score_error = score_errors(pruned_by(twin, session, basis, cell));

  report.overlaps = overlaps_in(*basis, cell, report);
  report.kept = curve_points(report.head_dim, report.kept_lanes);
  for (const bool matched : {true, false}) {
    context.cancel.throw_if_cancelled();
    report.bases.push_back(loss_against(matched, spec, session, cell, report, context));
  }
  return report;
}

}  // namespace kvloupe::analysis
