// See pca.h.
#include "core/analysis/pca.h"

#include "core/base/error.h"

#include <ATen/ATen.h>

#include <cmath>

namespace kvloupe::analysis {
namespace {

// Finite rows as fp64 [n, dim]: one NaN would blank the whole picture.
at::Tensor finite_rows(const std::vector<float>& rows, std::int64_t dim) {
  const auto count = static_cast<std::int64_t>(rows.size()) / dim;
  std::vector<double> kept;
  kept.reserve(rows.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const float* row = rows.data() + i * dim;
    bool finite = true;
    for (std::int64_t c = 0; c < dim; ++c) finite = finite && std::isfinite(row[c]);
    if (finite) kept.insert(kept.end(), row, row + dim);
  }
  return at::tensor(kept, at::kDouble).reshape({-1, dim});
}

// An eigenvector's sign is arbitrary: its largest entry becomes positive.
void fix_sign(double* axis, std::int64_t dim) {
  std::int64_t largest = 0;
  for (std::int64_t c = 1; c < dim; ++c) {
    if (std::abs(axis[c]) > std::abs(axis[largest])) largest = c;
  }
  if (axis[largest] >= 0) return;
  for (std::int64_t c = 0; c < dim; ++c) axis[c] = -axis[c];
}

}  // namespace

Pca fit_pca(const std::vector<float>& rows, std::int64_t dim, int components) {
  KVLOUPE_CHECK(dim > 0 && components > 0 && static_cast<std::int64_t>(rows.size()) % dim == 0);
  Pca pca;
  pca.components = components;
  pca.explained.assign(components, 0);
  pca.axes.assign(components * dim, 0);
  pca.mean.assign(dim, 0);
  const at::Tensor points = finite_rows(rows, dim);
  if (points.size(0) == 0) return pca;
  const at::Tensor mean = points.mean(0);
  pca.mean.assign(mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + dim);
  if (points.size(0) < components) return pca;

  const at::Tensor centred = points - mean;
  const at::Tensor covariance = centred.t().matmul(centred) / static_cast<double>(points.size(0));
  const auto [values, vectors] = at::linalg_eigh(covariance);  // ascending; vectors in columns
  const double total = covariance.trace().item<double>();
  const at::Tensor axes = vectors.flip(1).t().contiguous();
  for (std::int64_t c = 0; c < std::min<std::int64_t>(components, dim); ++c) {
    const double* axis = axes.const_data_ptr<double>() + c * dim;
    std::copy(axis, axis + dim, pca.axes.begin() + c * dim);
    fix_sign(pca.axes.data() + c * dim, dim);
    const double value = std::max(values[dim - 1 - c].item<double>(), 0.0);
    pca.explained[c] = total > 0 ? value / total : 0;
  }
  return pca;
}

std::vector<float> project(const Pca& pca, const std::vector<float>& rows) {
  const auto dim = static_cast<std::int64_t>(pca.mean.size());
  const auto count = static_cast<std::int64_t>(rows.size()) / dim;
  std::vector<float> projected(count * pca.components);
  for (std::int64_t i = 0; i < count; ++i) {
    for (int component = 0; component < pca.components; ++component) {
      const double* axis = pca.axes.data() + component * dim;
      double sum = 0;
      for (std::int64_t c = 0; c < dim; ++c) {
        sum += axis[c] * (static_cast<double>(rows[i * dim + c]) - pca.mean[c]);
      }
      projected[i * pca.components + component] = static_cast<float>(sum);
    }
  }
  return projected;
}

}  // namespace kvloupe::analysis
