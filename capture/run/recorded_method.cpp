#include "capture/run/recorded_method.h"

#include "core/base/error.h"
#include "core/selection/lanes/basis.h"

#include <fmt/format.h>

#include <numeric>

namespace kvloupe::capture {
namespace {

// The calibrated basis that a method needs; null without.
selection::BasisPtr basis_of(const selection::MethodSpec& spec, const trace::ModelInfo& model,
                             const std::vector<int>& layers) {
  if (!spec.traits().basis) return nullptr;
  const selection::BasisPtr basis = selection::load_basis(spec, model);
  for (const int layer : layers) {
    if (basis->layers.contains(layer)) continue;
    throw input_error(
        fmt::format("{} cannot use the basis {}", spec.id(), spec.traits().basis->where),
        fmt::format("it has no directions for layer {}, in which the method selects", layer),
        "use a basis of all layers, such as kvloupe calibrate makes, or record other --layers");
  }
  return basis;
}

}  // namespace

RecordedMethod recorded_method(const selection::MethodSpec& spec, const trace::ModelInfo& model,
                               const std::vector<int>& layers) {
  const selection::ModelShape shape = selection::shape_of(model);
  RecordedMethod method{spec.resolved(shape), nullptr};
  method.basis = basis_of(method.spec, model, layers);
  selection::make_selector(method.spec, shape, method.basis);
  return method;
}

std::vector<int> all_layers(const trace::ModelInfo& model) {
  std::vector<int> all(static_cast<std::size_t>(model.num_layers));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace kvloupe::capture
