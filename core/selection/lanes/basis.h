// Finds, checks and fits the bases that loki and the AQUA methods rotate queries and keys by.
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace kvloupe::selection {

// Where the basis of a model is kept that `basis=auto` means; there may be no file yet.
std::filesystem::path auto_basis_path(trace::BasisKind kind, const std::string& model_hash);

// The basis of a resolved spec whose method needs one and whose parameter is `auto` or a path.
// Throws Error{Input}: no file (naming the `kvloupe calibrate` command that makes it), made for
// another method, another model or other shapes. `self` is Error{Input} too: only a whole trace can
// be fitted (replay::basis_for).
BasisPtr load_basis(const MethodSpec& spec, const trace::ModelInfo& model);

// Second moments in fp64, gathered piece by piece; then the directions.
// Loki: covariance of the keys about their mean. Aqua: sum of x x^T over the group's queries and
// the keys, about zero (AQUA, sections 6.1 and 6.3); and, of the values alone, sum of v v^T.
class BasisFit {
 public:
  explicit BasisFit(trace::BasisKind kind) : kind_(kind) {}
  // q [num_q_heads, n, head_dim], k [num_kv_heads, n, head_dim], fp32, on any one device: n more tokens
  // of a layer. v, of k's shape, makes the value_vectors of Aqua; undefined: there are none.
  void add(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v = {});
  // Eigenvectors by falling eigenvalue, each with its largest component positive (the first of
  // equals), of every layer added. Throws Error{Input} for a layer without tokens.
  std::map<int, trace::LayerBasis> finish() const;

 private:
  struct Moments {
    std::int64_t count = 0;
    at::Tensor sum;        // [num_kv_heads, head_dim] fp64
    at::Tensor squares;    // [num_kv_heads, head_dim, head_dim] fp64
    at::Tensor of_values;  // the same of v, whose count is that of the tokens; undefined: none
  };
  trace::BasisKind kind_;
  std::map<int, Moments> layers_;
};

}  // namespace kvloupe::selection
