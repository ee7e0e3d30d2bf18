// Principal components of rows of one head.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe::analysis {

struct Pca {
  int components = 0;             // 2 or 3
  std::vector<double> explained;  // share of variance of each component
  std::vector<double> axes;       // [components, head_dim], sign: largest |entry| positive
  std::vector<double> mean;       // [head_dim]
};
// Rows [n, dim]. fp64 covariance, exact eigenvectors. Fewer points than components give zero axes.
Pca fit_pca(const std::vector<float>& rows, std::int64_t dim, int components);
std::vector<float> project(const Pca& pca, const std::vector<float>& rows);  // [n, components]

}  // namespace kvloupe::analysis
