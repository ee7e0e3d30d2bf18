#include "core/analysis/lane_loss.h"

#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

namespace kvloupe::analysis {
namespace {

// Squares of the lanes in the order in which they are kept, summed up: [n, d].
at::Tensor running_norms(const at::Tensor& lanes, bool leading) {
  const at::Tensor squares = lanes.to(at::kDouble).square();
  return (leading ? squares : std::get<0>(squares.sort(1, /*descending=*/true))).cumsum(1);
}

// 1 where a query keeps the lane: [m, d]. Ties go to the lowest lane.
at::Tensor lane_mask(const at::Tensor& order, int kept) {
  at::Tensor mask = at::zeros_like(order, at::kFloat);
  return mask.scatter_(1, order.narrow(1, 0, kept), 1.0);
}

// Row t sees the keys [0, P + t], and of those the last `window`.
at::Tensor visibility_mask(std::int64_t m, std::int64_t num_keys, std::int64_t window) {
  const at::Tensor causal = at::ones({m, num_keys}, at::kBool).tril(num_keys - m);
  return window > 0 ? causal.triu(num_keys - m - window + 1) : causal;
}

}  // namespace

std::vector<double> own_lane_loss(const at::Tensor& lanes, const std::vector<int>& kept,
                                  bool leading) {
  const std::int64_t d = lanes.size(1);
  const at::Tensor norms = running_norms(lanes, leading).sqrt();
  const at::Tensor whole = norms.select(1, d - 1);
  std::vector<double> loss;
  for (const int k : kept) {
    const at::Tensor lost = (whole - norms.select(1, k - 1)).abs() / whole;
    loss.push_back(at::where(whole == 0, at::zeros_like(lost), lost).mean().item<double>());
  }
  return loss;
}

std::vector<std::int64_t> leading_counts(const at::Tensor& lanes, int largest, int leading) {
  const at::Tensor order =
      std::get<1>(lanes.abs().sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  const at::Tensor counts = order.narrow(1, 0, largest).lt(leading).sum(1);
  return selection::on_host<std::int64_t>(at::bincount(counts, {}, largest + 1));
}

std::vector<double> query_lane_loss(const at::Tensor& queries, const at::Tensor& keys,
                                    const std::vector<int>& kept, const CancelToken& cancel,
                                    std::int64_t window) {
  const at::Tensor order =
      std::get<1>(queries.abs().sort(/*stable=*/true, /*dim=*/1, /*descending=*/true));
  const at::Tensor squares = keys.square().to(at::kFloat);
  // Shares of a key's squared norm. A zero key loses nothing: its pairs count as such.
  const at::Tensor whole = squares.sum(1, /*keepdim=*/true);
  const at::Tensor shares = (squares / whole).t();
  const at::Tensor is_zero = (whole == 0).t();
  const at::Tensor visible = visibility_mask(queries.size(0), keys.size(0), window);
  const auto num_pairs = visible.sum().item<double>();
  std::vector<double> loss;
  for (const int k : kept) {
    cancel.throw_if_cancelled();
    const at::Tensor held = at::matmul(lane_mask(order, k), shares);
    const at::Tensor lost =
        (1 - held.clamp_min(0).sqrt()).abs().masked_fill(is_zero.logical_or(~visible), 0);
    loss.push_back(lost.sum(at::kDouble).item<double>() / num_pairs);
  }
  return loss;
}

}  // namespace kvloupe::analysis
