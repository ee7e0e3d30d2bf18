// Cases of probabilities reduced over rows, and what they are by the definition: for the kernels in the
// emulator and on a GPU, in fp32, fp16 and bf16. Free of Torch and of any test library.
#pragma once

#include "core/cuda/probabilities.cuh"
#include "tests/cuda/case_numbers.h"
#include "tests/cuda/typed_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvloupe::cuda::testing {

enum class Reduced { Sum, Largest, Slashes, Joint };

inline const char* name_of(Reduced reduced) {
  switch (reduced) {
    case Reduced::Sum: return "reduce_probabilities, sum";
    case Reduced::Largest: return "reduce_probabilities, largest";
    case Reduced::Slashes: return "columns_and_slashes";
    case Reduced::Joint: break;
  }
  return "joint_softmax_sums";
}

struct SoftmaxShape {
  Reduced reduced;
  int kv_heads, group, rows, keys, width;
  int unseen =
      0;  // keys at the end that the last row does not see; a row sees one more than that before
  int window = 0;  // keys that a row sees at most; 0: all
  float softcap = 0;
  bool has_sinks = false;
  int gap = 0;     // rows between the heads of K
  int offset = 0;  // numbers before the first key
  NumberType type = NumberType::Fp32;

  int sets() const { return kv_heads * group; }
  std::size_t num_rows() const { return static_cast<std::size_t>(sets()) * rows; }
  std::size_t num_results() const { return static_cast<std::size_t>(sets()) * keys; }
  std::int64_t head_stride() const { return std::int64_t{keys + gap} * width; }
  int visible(int row) const { return keys - unseen - (rows - 1 - row); }
  int first(int row) const { return window > 0 ? visible(row) - window : 0; }
  bool sees(int row, int key) const { return first(row) <= key && key < visible(row); }
};

// Queries and keys: numbers of the shape's type, as fp32.
struct SoftmaxInputs {
  std::vector<float> queries, keys, sinks;
  std::vector<std::int32_t> visible, first;
  explicit SoftmaxInputs(const SoftmaxShape& s)
      : queries(rounded(random_numbers(s.num_rows() * s.width, 11), s.type)),
        keys(rounded(
            random_numbers(static_cast<std::size_t>(s.offset + s.kv_heads * s.head_stride()), 12),
            s.type)),
        sinks(random_numbers(s.has_sinks ? s.num_rows() : 0, 13)) {
    for (int row = 0; row < s.rows; ++row) {
      visible.push_back(s.visible(row));
      if (s.window > 0) first.push_back(s.first(row));
    }
  }
};

struct SoftmaxResults {
  std::vector<float> columns, slashes;
  std::vector<double> joint_sums;
  bool operator==(const SoftmaxResults&) const = default;
};

// All of the problem but its pointers.
inline Probabilities problem_of(const SoftmaxShape& s) {
  Probabilities problem;
  problem.type = s.type;
  problem.key_head_stride = s.head_stride();
  problem.num_sets = s.sets();
  problem.num_kv_heads = s.kv_heads;
  problem.rows = s.rows;
  problem.num_keys = s.keys;
  problem.width = s.width;
  problem.begin = std::clamp(s.first(0), 0, s.keys);
  problem.end = std::max(s.visible(s.rows - 1), 0);
  problem.scale = 2 / std::sqrt(static_cast<float>(s.width));
  problem.softcap = s.softcap;
  problem.largest = s.reduced == Reduced::Largest;
  return problem;
}

namespace detail {

// exp of what the row of all sets sees, each less than the row's largest logit by `shift`.
struct RowPowers {
  std::vector<double> powers;  // 0 where not seen
  double shift = -INFINITY;
  double total = 0;
};

inline RowPowers powers_of(const SoftmaxShape& s, const SoftmaxInputs& in, int set, int row) {
  RowPowers result{std::vector<double>(static_cast<std::size_t>(s.keys), 0)};
  const std::size_t of_all = static_cast<std::size_t>(set) * s.rows + row;
  const float *q = in.queries.data() + of_all * s.width,
              *keys = in.keys.data() + s.offset + set / s.group * s.head_stride();
  const auto scale = static_cast<double>(problem_of(s).scale);
  const auto softcap = static_cast<double>(s.softcap);
  const bool has_sink = s.has_sinks && s.reduced != Reduced::Joint;
  const double sink = has_sink ? static_cast<double>(in.sinks[of_all]) : -INFINITY;
  std::vector<double> logits(static_cast<std::size_t>(s.keys), -INFINITY);
  result.shift = sink;
  for (int key = 0; key < s.keys; ++key) {
    if (!s.sees(row, key)) continue;
    double sum = 0;
    for (int c = 0; c < s.width; ++c)
      sum += static_cast<double>(q[c]) * static_cast<double>(keys[std::int64_t{key} * s.width + c]);
    sum *= scale;
    logits[static_cast<std::size_t>(key)] = softcap > 0 ? softcap * std::tanh(sum / softcap) : sum;
    result.shift = std::max(result.shift, logits[static_cast<std::size_t>(key)]);
  }
  if (result.shift == -INFINITY) return result;
  result.total = std::exp(sink - result.shift);
  for (std::size_t key = 0; key < logits.size(); ++key)
    result.total += result.powers[key] = std::exp(logits[key] - result.shift);
  return result;
}

}  // namespace detail

struct WantedSoftmax {
  std::vector<double> columns, slashes;
};

inline WantedSoftmax wanted_of(const SoftmaxShape& s, const SoftmaxInputs& in) {
  WantedSoftmax want{std::vector<double>(s.num_results(), 0),
                     std::vector<double>(s.num_results(), 0)};
  for (int set = 0; set < s.sets(); ++set) {
    std::vector<detail::RowPowers> rows;
    double largest = -INFINITY;
    for (int row = 0; row < s.rows; ++row) {
      rows.push_back(detail::powers_of(s, in, set, row));
      largest = std::max(largest, rows.back().shift);
    }
    double* columns = want.columns.data() + static_cast<std::size_t>(set) * s.keys;
    double* slashes = want.slashes.data() + static_cast<std::size_t>(set) * s.keys;
    for (int row = 0; row < s.rows; ++row)
      for (int key = 0; key < s.keys; ++key) {
        if (!s.sees(row, key)) continue;
        const detail::RowPowers& of_row = rows[static_cast<std::size_t>(row)];
        const double weight =
            s.reduced == Reduced::Joint ? std::exp(of_row.shift - largest) : 1 / of_row.total;
        const double p = of_row.powers[static_cast<std::size_t>(key)] * weight;
        columns[key] = s.reduced == Reduced::Largest ? std::max(columns[key], p) : columns[key] + p;
        slashes[s.visible(row) - 1 - key] += p;
      }
  }
  return want;
}

// The largest difference from the definition, in parts of what is tolerated: what exp of a logit in fp32
// may be off. Infinite where a number is NaN.
inline double error_of(const SoftmaxShape& s, const SoftmaxInputs& in, const SoftmaxResults& got) {
  constexpr double kTolerated = 2e-5, kOfNothing = 1e-4;
  const WantedSoftmax want = wanted_of(s, in);
  double error = 0;
  const auto note = [&](double number, double wanted) {
    detail::note(number, wanted, error, kTolerated * (wanted + kOfNothing));
  };
  for (std::size_t i = 0; i < want.columns.size(); ++i) {
    if (s.reduced == Reduced::Joint)
      note(got.joint_sums[i], want.columns[i]);
    else
      note(static_cast<double>(got.columns[i]), want.columns[i]);
    if (s.reduced == Reduced::Slashes) note(static_cast<double>(got.slashes[i]), want.slashes[i]);
  }
  return error;
}

// The case with its numbers where kernels reach them: Array<T>(vector) and Array<T>(count) have data()
// and copy().
template <template <typename> typename Array>
class PlacedSoftmax {
 public:
  explicit PlacedSoftmax(const SoftmaxShape& shape) : PlacedSoftmax(shape, SoftmaxInputs(shape)) {}
  // The same numbers.
  PlacedSoftmax in_fp32() const { return {in_type(shape_, NumberType::Fp32), inputs_}; }

  cudaError_t launch() const { return launch_probabilities(problem(), nullptr); }
  SoftmaxResults results() const { return {columns_.copy(), slashes_.copy(), joint_sums_.copy()}; }
  double error(const SoftmaxResults& got) const { return error_of(shape_, inputs_, got); }
  // K in both sweeps, and the results.
  std::size_t bytes() const {
    return 2 * size_of(shape_.type) * inputs_.keys.size() +
           sizeof(float) *
               (shape_.reduced == Reduced::Sum || shape_.reduced == Reduced::Largest ? 1 : 2) *
               shape_.num_results();
  }

 private:
  PlacedSoftmax(const SoftmaxShape& shape, const SoftmaxInputs& inputs)
      : shape_(shape),
        inputs_(inputs),
        queries_(inputs.queries, shape.type),
        keys_(inputs.keys, shape.type),
        sinks_(inputs.sinks),
        visible_(inputs.visible),
        first_(inputs.first),
        columns_(shape.reduced == Reduced::Joint ? 0 : shape.num_results()),
        slashes_(shape.reduced == Reduced::Slashes ? shape.num_results() : 0),
        joint_sums_(shape.reduced == Reduced::Joint ? shape.num_results() : 0),
        scratch_(scratch_floats(results_placed())) {}

  Probabilities results_placed() const {
    Probabilities p = problem_of(shape_);
    if (shape_.reduced == Reduced::Joint)
      p.joint_sums = joint_sums_.data();
    else
      p.columns = columns_.data();
    if (shape_.reduced == Reduced::Slashes) p.slashes = slashes_.data();
    return p;
  }
  Probabilities problem() const {
    Probabilities p = results_placed();
    p.queries = queries_.data();
    p.keys = keys_.data(static_cast<std::size_t>(shape_.offset));
    p.visible = visible_.data();
    p.first = shape_.window > 0 ? first_.data() : nullptr;
    p.sinks = shape_.has_sinks && shape_.reduced != Reduced::Joint ? sinks_.data() : nullptr;
    p.scratch = scratch_.data();
    return p;
  }

  SoftmaxShape shape_;
  SoftmaxInputs inputs_;
  Numbers<Array> queries_, keys_;
  Array<float> sinks_;
  Array<std::int32_t> visible_, first_;
  Array<float> columns_, slashes_;
  Array<double> joint_sums_;
  Array<float> scratch_;
};

// Tiles of rows and of keys that are full and that are not, sets that share one and sets of several;
// several parts of the keys, slices of channels and those that no vector holds, keys that lie askew; rows
// and sets that see nothing, more rows than keys; every form of softmax. In all types.
inline std::vector<SoftmaxShape> softmax_shapes() {
  using enum Reduced;
  return in_all_types<SoftmaxShape>({{Sum, 1, 1, 1, 1, 2},
                                     {Sum, 2, 3, 20, 190, 64, 3},
                                     {Sum, 1, 4, 1, 601, 128},
                                     {Sum, 2, 1, 8, 130, 300, 0, 0, 0, true, 3},
                                     {Sum, 1, 3, 5, 600, 40, 20, 290, 1.5F, true},
                                     {Sum, 1, 1, 33, 20, 16, 7},
                                     {Sum, 1, 2, 3, 70, 8, 75},
                                     {Largest, 1, 2, 70, 333, 33, 5, 0, 2, false, 0, 1},
                                     {Largest, 1, 5, 30, 64, 24, 0, 40, 0, true, 0, 0},
                                     {Slashes, 1, 2, 24, 260, 64, 0, 0, 0, true},
                                     {Slashes, 2, 1, 150, 290, 16, 2, 0, 3},
                                     {Slashes, 1, 3, 30, 500, 80, 70, 100, 0, false, 1},
                                     {Slashes, 1, 1, 40, 25, 9, 4},
                                     {Slashes, 1, 2, 1, 129, 17, 0, 0, 0, true, 0, 3},
                                     {Joint, 2, 2, 70, 300, 80, 10},
                                     {Joint, 1, 3, 9, 40, 12, 35, 30, 1.5F},
                                     {Joint, 2, 2, 4, 20, 6, 30}});
}

}  // namespace kvloupe::cuda::testing
