// Finding bases in files, and fitting them.
#include "core/selection/lanes/basis.h"

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/paths.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kvloupe::selection {
namespace {

namespace fs = std::filesystem;

// Changes with the default text, its length or the fit, so that files of an older recipe are not
// taken for this one's.
constexpr int kAutoRecipe = 1;
constexpr std::int64_t kPieceTokens = 1024;

// Runs work(item) on each item inside a parallel region, also for a single one: there the matrix
// library computes every item on one thread, so that the thread count does not change the bits.
template <typename Work>
void for_each_alone(std::int64_t count, const Work& work) {
  at::parallel_for(0, std::max<std::int64_t>(count, 2), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < std::min(end, count); ++i) work(i);
                   });
}

std::string calibrate_command(trace::BasisKind kind, const trace::ModelInfo& model) {
  return fmt::format("kvloupe calibrate {} --model FILE, with the file of {} (SHA-256 {}...)",
                     trace::name_of(kind), model.name.empty() ? "the model" : model.name,
                     model.file_hash.substr(0, 16));
}

trace::Basis find_auto_basis(const MethodSpec& spec, const trace::ModelInfo& model) {
  const trace::BasisKind kind = spec.traits().basis->kind;
  if (model.file_hash.empty())
    throw input_error(fmt::format("{} has no basis", spec.id()),
                      "the trace does not say which model file it is from (file_hash)",
                      "give basis=self or basis=PATH");
  const fs::path path = auto_basis_path(kind, model.file_hash);
  std::error_code code;
  // The sentence stands in figures too: it names no folder of the user's.
  if (!fs::exists(path, code))
    throw input_error(
        fmt::format("{} has no basis for the model {}", spec.id(), model.name),
        "none was calibrated on this computer",
        fmt::format("make it by {}; or give basis=self", calibrate_command(kind, model)));
  return trace::read_basis(path);
}

void check_fits(const MethodSpec& spec, const trace::Basis& basis, const trace::ModelInfo& model) {
  const trace::BasisKind kind = spec.traits().basis->kind;
  const auto refuse = [&](std::string why) {
    return input_error(
        fmt::format("{} cannot use the basis {}", spec.id(), spec.traits().basis->where),
        std::move(why), "make one by " + calibrate_command(kind, model));
  };
  if (basis.kind != kind)
    throw refuse(fmt::format("it was made for {}, not for {}", trace::name_of(basis.kind),
                             trace::name_of(kind)));
  if (basis.num_kv_heads != model.num_kv_heads || basis.head_dim != model.head_dim)
    throw refuse(fmt::format("it is for {} KV heads of {} channels, the model has {} of {}",
                             basis.num_kv_heads, basis.head_dim, model.num_kv_heads,
                             model.head_dim));
  if (model.file_hash.empty()) {
    log::warning("the trace does not name its model file, so {} may be of another model",
                 spec.traits().basis->where);
  } else if (basis.model_hash != model.file_hash) {
    throw refuse(fmt::format("it was made for another model, {}", basis.model_name));
  }
}

// Files before schema 1.1 hold no directions of values.
void check_values(const MethodSpec& spec, const trace::Basis& basis,
                  const trace::ModelInfo& model) {
  if (!spec.traits().lanes || !spec.traits().lanes->slices_values) return;
  for (const auto& [layer, directions] : basis.layers)
    if (directions.value_vectors.empty())
      throw input_error(fmt::format("{} cannot slice values by the basis {}", spec.id(),
                                    spec.traits().basis->where),
                        "an earlier version made it, of queries and keys alone",
                        fmt::format("make it again by {}; or give slice_values=0",
                                    calibrate_command(trace::BasisKind::Aqua, model)));
}

// x^T x and the sum of x over rows of one KV head, added piece by piece.
void add_rows(const at::Tensor& rows, at::Tensor sum, at::Tensor squares) {
  const std::int64_t dim = rows.size(-1);
  for (std::int64_t begin = 0; begin < rows.size(1); begin += kPieceTokens) {
    const std::int64_t length = std::min(kPieceTokens, rows.size(1) - begin);
    const at::Tensor piece = rows.narrow(1, begin, length).to(at::kDouble).reshape({-1, dim});
    squares.addmm_(piece.t(), piece);
    sum.add_(piece.sum(0));
  }
}

// The same of all KV heads at once, on a device that has no threads of ours; rows [num_kv_heads, n, dim].
void add_rows_of_all(const at::Tensor& rows, at::Tensor sums, at::Tensor squares) {
  for (const at::Tensor& part : rows.split(kPieceTokens, 1)) {
    const at::Tensor piece = part.to(at::kDouble);
    squares.baddbmm_(piece.transpose(1, 2), piece);
    sums.add_(piece.sum(1));
  }
}

// Columns by falling eigenvalue, each with its largest component positive.
std::pair<at::Tensor, at::Tensor> principal_directions(const at::Tensor& symmetric) {
  auto [ascending, columns] = at::linalg_eigh(symmetric);
  const at::Tensor values = ascending.flip(0).clamp_min(0);
  at::Tensor vectors = columns.flip(1).contiguous();
  const std::int64_t dim = vectors.size(0);
  const auto entries = vectors.accessor<double, 2>();
  for (std::int64_t lane = 0; lane < dim; ++lane) {
    std::int64_t largest = 0;
    for (std::int64_t channel = 1; channel < dim; ++channel)
      if (std::abs(entries[channel][lane]) > std::abs(entries[largest][lane])) largest = channel;
    if (entries[largest][lane] < 0) vectors.select(1, lane).neg_();
  }
  return {values, vectors};
}

// The principal directions of second moments, as LayerBasis holds them, to `out`; their values.
at::Tensor store_directions(const at::Tensor& second, float* out) {
  const std::int64_t dim = second.size(0);
  auto [values, vectors] = principal_directions((second + second.t()) / 2);
  const at::Tensor deviation = vectors.t().mm(vectors) - at::eye(dim, at::kDouble);
  KVLOUPE_CHECK(deviation.abs().max().item<double>() < 1e-6);
  const at::Tensor rounded = vectors.to(at::kFloat).contiguous();
  std::copy_n(rounded.const_data_ptr<float>(), dim * dim, out);
  return values;
}

}  // namespace

fs::path auto_basis_path(trace::BasisKind kind, const std::string& model_hash) {
  return paths::cache_dir() / "bases" /
         fmt::format("{}-{}-{}.h5", trace::name_of(kind), model_hash.substr(0, 16), kAutoRecipe);
}

BasisPtr load_basis(const MethodSpec& spec, const trace::ModelInfo& model) {
  KVLOUPE_CHECK(spec.traits().basis.has_value());
  const BasisTrait& basis_trait = *spec.traits().basis;
  if (basis_trait.is_self())
    throw input_error(fmt::format("{} with basis=self cannot be used here", spec.id()),
                      "such a basis is fitted on a whole trace, which does not exist yet",
                      "use basis=auto, or select on the finished trace");
  auto basis = std::make_shared<trace::Basis>(
      basis_trait.is_auto() ? find_auto_basis(spec, model) : trace::read_basis(basis_trait.where));
  check_fits(spec, *basis, model);
  check_values(spec, *basis, model);
  return basis;
}

void BasisFit::add(int layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const bool with_values = kind_ == trace::BasisKind::Aqua && v.defined();
  const std::int64_t heads = k.size(0), dim = k.size(2);
  const std::int64_t group = q.size(0) / heads;
  Moments& moments = layers_[layer];
  if (!moments.sum.defined()) {
    // A decoder calls from within InferenceMode, whose tensors the threads below may not change.
    const c10::InferenceMode plain_tensors(false);
    const auto doubles = at::dtype(at::kDouble).device(k.device());
    moments.sum = at::zeros({heads, dim}, doubles);
    moments.squares = at::zeros({heads, dim, dim}, doubles);
    if (with_values) moments.of_values = at::zeros({heads, dim, dim}, doubles);
  }
  KVLOUPE_CHECK(with_values == moments.of_values.defined());
  const bool with_queries = kind_ == trace::BasisKind::Aqua;
  if (k.device().is_cpu()) {
    for_each_alone(heads, [&](std::int64_t head) {
      const at::Tensor sum = moments.sum[head], squares = moments.squares[head];
      if (with_queries) add_rows(q.narrow(0, head * group, group), sum, squares);
      add_rows(k.narrow(0, head, 1), sum, squares);
      if (with_values)
        add_rows(v.narrow(0, head, 1), at::zeros({dim}, at::kDouble), moments.of_values[head]);
    });
  } else {
    if (with_queries) add_rows_of_all(q.reshape({heads, -1, dim}), moments.sum, moments.squares);
    add_rows_of_all(k, moments.sum, moments.squares);
    if (with_values) add_rows_of_all(v, at::zeros_like(moments.sum), moments.of_values);
  }
  moments.count += k.size(1) * (with_queries ? group + 1 : 1);
}

std::map<int, trace::LayerBasis> BasisFit::finish() const {
  std::vector<std::pair<int, Moments>> sources;
  for (const auto& [layer, moments] : layers_) {
    if (moments.count == 0)
      throw input_error("no basis can be fitted",
                        fmt::format("layer {} has no tokens to fit on", layer),
                        "use a longer text or trace");
    const Moments found{moments.count, moments.sum.cpu(), moments.squares.cpu(),
                        moments.of_values.defined() ? moments.of_values.cpu() : at::Tensor()};
    const auto check_finite = [layer = layer](const at::Tensor& squares, const char* what) {
      if (!squares.defined() || squares.isfinite().all().item<bool>()) return;
      throw input_error("no basis can be fitted",
                        fmt::format("a {} of layer {} is a NaN or an infinity", what, layer),
                        "use another text, trace or layer");
    };
    check_finite(found.squares, "query or key");
    check_finite(found.of_values, "value");
    sources.emplace_back(layer, found);
  }
  std::vector<trace::LayerBasis> fitted(sources.size());
  const std::int64_t heads = sources.empty() ? 0 : sources.front().second.sum.size(0);
  const std::int64_t dim = sources.empty() ? 0 : sources.front().second.sum.size(1);
  for (trace::LayerBasis& basis : fitted) {
    basis.vectors.resize(static_cast<std::size_t>(heads * dim * dim));
    basis.values.resize(static_cast<std::size_t>(heads * dim));
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].second.of_values.defined())
      fitted[i].value_vectors.resize(static_cast<std::size_t>(heads * dim * dim));
  for_each_alone(static_cast<std::int64_t>(sources.size()) * heads, [&](std::int64_t item) {
    const Moments& moments = sources[item / heads].second;
    trace::LayerBasis& basis = fitted[item / heads];
    const std::int64_t head = item % heads;
    const auto count = static_cast<double>(moments.count);
    at::Tensor second = moments.squares[head] / count;
    if (kind_ == trace::BasisKind::Loki) {
      const at::Tensor mean = moments.sum[head] / count;
      second -= at::outer(mean, mean);
    }
    const at::Tensor values = store_directions(second, basis.vectors.data() + head * dim * dim);
    std::copy_n(values.const_data_ptr<double>(), dim, basis.values.data() + head * dim);
    if (moments.of_values.defined())
      store_directions(moments.of_values[head], basis.value_vectors.data() + head * dim * dim);
  });
  std::map<int, trace::LayerBasis> result;
  for (std::size_t i = 0; i < sources.size(); ++i)
    result.emplace(sources[i].first, std::move(fitted[i]));
  return result;
}

}  // namespace kvloupe::selection
