// Cases of attention of every kind, and what they are by the definition in fp64: for the kernels in the
// emulator and on a GPU, in fp32, fp16 and bf16. Free of Torch and of any test library. Which keys a query
// sees is said twice: key by key for the plain loops, as views for the kernels.
#pragma once

#include "core/cuda/key_mass.cuh"
#include "core/cuda/row_attention.cuh"
#include "tests/cuda/case_numbers.h"
#include "tests/cuda/typed_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kvloupe::cuda::testing {

enum class Kind {
  Dense,
  Gathered,  // positions of each KV head, the chunk's keys causally
  SelfOnly,  // the same, but only some of the chunk's keys are seen by later queries
  Packed,    // SelfOnly, K and V hold the listed keys alone
  Paged,     // pages of runs of heads_per_row query heads, the chunk's keys causally
  Blocks     // a mask of query head, query block and key block
};

struct Case {
  const char* name;
  Kind kind;
  int kv_heads, group, chunk_len, past, dim;
  int block_size = 1, heads_per_row = 1;
  int one_in = 3;  // of what could be listed, about so much is
  int window = 0;
  float softcap = 0;
  bool has_sinks = false;
  bool is_last_empty = false;  // the last KV head lists nothing
  NumberType type = NumberType::Fp32;

  int heads() const { return kv_heads * group; }
  int kv_len() const { return past + chunk_len; }
  int rows() const { return heads() * chunk_len; }
  float scale() const { return 1 / std::sqrt(static_cast<float>(dim)); }
  int first_query_block() const { return past / block_size; }

  // Drawn anew for each place.
  bool is_listed(int list, int of_list, int item) const {
    if (is_last_empty && list + 1 == kv_heads) return false;
    std::seed_seq seed = {list, of_list, item, static_cast<int>(kind)};
    return std::mt19937(seed)() % static_cast<unsigned>(one_in) == 0;
  }
  bool is_shared(int kv_head, int own) const { return is_listed(kv_head, 1, own); }

  bool sees(int head, int query, int position) const {
    const int at = past + query, own = position - past;
    if (position > at || (window > 0 && position <= at - window)) return false;
    switch (kind) {
      case Kind::Dense: return true;
      case Kind::Gathered: return own >= 0 || is_listed(head / group, 0, position);
      case Kind::SelfOnly:
      case Kind::Packed:
        return own == query ||
               (own >= 0 ? is_shared(head / group, own) : is_listed(head / group, 0, position));
      case Kind::Paged:
        return own >= 0 || is_listed(head / heads_per_row, 0, position / block_size);
      case Kind::Blocks:
        return position / block_size == at / block_size ||
               is_listed(head, at / block_size, position / block_size);
    }
    return false;
  }
};

inline std::size_t product(int a, int b, int c = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c);
}

// The case as views: all of them, what they attend to and the rows of K that a packed case has.
struct Views {
  std::vector<KeyView> views;
  std::vector<int> table;
  std::vector<int> packed;  // [rows] kv_head * kv_len + position

  explicit Views(const Case& c) {
    if (c.kind == Kind::Dense) return;
    if (c.kind == Kind::Paged)
      for (int row = 0; row < c.heads() / c.heads_per_row; ++row)
        add_blocks(c, row * c.heads_per_row, c.heads_per_row, row, 0, 0, c.chunk_len);
    if (c.kind == Kind::Blocks)
      for (int head = 0; head < c.heads(); ++head)
        for (int block = c.first_query_block(); block * c.block_size < c.kv_len(); ++block)
          add_blocks(c, head, 1, head, block, std::max(block * c.block_size - c.past, 0),
                     std::min((block + 1) * c.block_size - c.past, c.chunk_len));
    if (c.kind == Kind::Gathered || c.kind == Kind::SelfOnly || c.kind == Kind::Packed)
      for (int g = 0; g < c.kv_heads; ++g) add_positions(c, g);
  }

 private:
  static KeyView rows_of(const Case& c, int head, int heads, int first_query, int end_query) {
    KeyView view;
    view.kv_head = head / c.group;
    view.first_row = head * c.chunk_len + first_query;
    view.num_queries = end_query - first_query;
    view.num_rows = heads * view.num_queries;
    view.own_begin = c.past + first_query;
    return view;
  }

  void add_blocks(const Case& c, int head, int heads, int list, int of_list, int first_query,
                  int end_query) {
    KeyView view = rows_of(c, head, heads, first_query, end_query);
    view.past_list = static_cast<int>(table.size());
    for (int block = 0; block * c.block_size < view.own_begin; ++block) {
      const bool is_own = c.kind == Kind::Blocks && block == of_list;
      if (!is_own && !c.is_listed(list, of_list, block)) continue;
      table.push_back(block);
      view.past_keys += std::min(c.block_size, view.own_begin - block * c.block_size);
    }
    views.push_back(view);
  }

  void add_positions(const Case& c, int g) {
    KeyView view = rows_of(c, g * c.group, c.group, 0, c.chunk_len);
    view.past_list = static_cast<int>(table.size());
    if (c.kind == Kind::Packed) view.packed_rows = static_cast<int>(packed.size());
    for (int position = 0; position < c.kv_len(); ++position) {
      if (position < c.past && !c.is_listed(g, 0, position)) continue;
      packed.push_back(g * c.kv_len() + position);
      if (position >= c.past) continue;
      table.push_back(position);
      ++view.past_keys;
    }
    if (c.kind != Kind::Gathered) {
      view.shared = static_cast<int>(table.size());
      for (int own = 0; own < c.chunk_len; ++own) table.push_back(c.is_shared(g, own) ? 1 : 0);
    }
    views.push_back(view);
  }
};

// Numbers of the case's type, as fp32.
struct Inputs {
  std::vector<float> q;     // [heads, chunk_len, dim]
  std::vector<float> k, v;  // [kv_heads, kv_len, dim]
  std::vector<float> sinks;

  explicit Inputs(const Case& c)
      : q(random_numbers(product(c.rows(), c.dim), 1)),
        k(random_numbers(product(c.kv_heads, c.kv_len(), c.dim), 2)),
        v(random_numbers(product(c.kv_heads, c.kv_len(), c.dim), 3)),
        sinks(random_numbers(c.has_sinks ? c.heads() : 0, 4)) {
    for (auto* numbers : {&q, &k, &v}) *numbers = rounded(*numbers, c.type);
  }
};

inline std::vector<float> packed_rows(const Case& c, const Views& views,
                                      const std::vector<float>& all) {
  if (c.kind != Kind::Packed) return all;
  std::vector<float> rows;
  for (const int row : views.packed)
    rows.insert(rows.end(), all.begin() + static_cast<std::ptrdiff_t>(product(row, c.dim)),
                all.begin() + static_cast<std::ptrdiff_t>(product(row + 1, c.dim)));
  return rows;
}

// All of the problem but its pointers.
inline RowAttention problem_of(const Case& c, const Views& views) {
  RowAttention p;
  p.k_head_stride = p.v_head_stride = c.kind == Kind::Packed ? 0 : std::int64_t{c.kv_len()} * c.dim;
  p.type = c.type;
  p.num_rows = c.rows();
  p.chunk_len = c.chunk_len;
  p.head_dim = c.dim;
  p.scale = c.scale();
  p.softcap = c.softcap;
  p.window = c.window;
  p.block_size = c.kind == Kind::Paged || c.kind == Kind::Blocks ? c.block_size : 1;
  p.num_views = static_cast<int>(views.views.size());
  for (const KeyView& view : views.views) {
    p.most_rows = std::max(p.most_rows, view.num_rows);
    p.most_keys = std::max(p.most_keys, view.past_keys + view.num_queries);
  }
  if (c.kind == Kind::Dense) make_dense(&p, c.kv_heads, c.kv_len());
  return p;
}

struct Results {
  std::vector<float> output, lse;
  std::vector<float> key_mass;  // dense: [kv_heads, kv_len]; else empty
};

// The case with its numbers where kernels reach them: Array<T>(vector) and Array<T>(count) have data()
// and copy().
template <template <typename> typename Array>
class PlacedCase {
 public:
  explicit PlacedCase(const Case& c)
      : case_(c),
        views_(c),
        inputs_(c),
        q_(inputs_.q, c.type),
        k_(packed_rows(c, views_, inputs_.k), c.type),
        v_(packed_rows(c, views_, inputs_.v), c.type),
        sinks_(inputs_.sinks),
        table_(views_.table),
        placed_views_(views_.views),
        output_(inputs_.q.size(), c.type),
        lse_(product(c.rows(), 1)),
        mass_(c.kind == Kind::Dense ? product(c.kv_heads, c.kv_len()) : 0),
        scratch_(scratch_floats(problem_of(c, views_))) {}

  // One or the other: attention, and key mass of what was attended to last.
  cudaError_t attend(bool with_values = true) const {
    return launch_row_attention(problem(with_values), nullptr);
  }
  cudaError_t add_mass() const { return launch_key_mass(problem(false), mass_.data(), nullptr); }

  Results results() const {
    return {output_.copy(), lse_.copy(),
            case_.kind == Kind::Dense ? mass_.copy() : std::vector<float>()};
  }
  const Inputs& inputs() const { return inputs_; }
  const Views& views() const { return views_; }

 private:
  RowAttention problem(bool with_values) const {
    RowAttention p = problem_of(case_, views_);
    p.q = q_.data();
    p.k = k_.data();
    p.v = with_values ? v_.data() : nullptr;
    p.sinks = case_.has_sinks ? sinks_.data() : nullptr;
    p.table = table_.data();
    p.views = case_.kind == Kind::Dense ? nullptr : placed_views_.data();
    p.output = output_.data();
    p.lse = lse_.data();
    p.scratch = scratch_.data();
    return p;
  }

  Case case_;
  Views views_;
  Inputs inputs_;
  Numbers<Array> q_, k_, v_;
  Array<float> sinks_;
  Array<int> table_;
  Array<KeyView> placed_views_;
  Numbers<Array> output_;
  Array<float> lse_, mass_, scratch_;
};

// Largest differences from the definition, and the largest in parts of what is tolerated; infinite where
// a number is NaN.
struct Errors {
  double output = 0, lse = 0, key_mass = 0;
  double of_tolerated = 0;
};

inline bool are_small(const Errors& errors) { return errors.of_tolerated < 1; }

namespace detail {

// The row's probabilities, of all positions; its log-sum-exp through `lse`.
inline std::vector<double> probabilities(const Case& c, const Inputs& in, int head, int query,
                                         double& lse) {
  const float* q = in.q.data() + product(head * c.chunk_len + query, c.dim);
  std::vector<double> p(static_cast<std::size_t>(c.kv_len()), 0);
  double sum = c.has_sinks ? std::exp(static_cast<double>(in.sinks[head])) : 0;
  for (int position = 0; position < c.kv_len(); ++position) {
    if (!c.sees(head, query, position)) continue;
    const float* k = in.k.data() + product(head / c.group * c.kv_len() + position, c.dim);
    double s = 0;
    for (int i = 0; i < c.dim; ++i) s += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    s *= static_cast<double>(c.scale());
    const auto softcap = static_cast<double>(c.softcap);
    if (c.softcap > 0) s = softcap * std::tanh(s / softcap);
    sum += p[static_cast<std::size_t>(position)] = std::exp(s);
  }
  for (double& each : p) each /= sum;
  lse = std::log(sum);
  return p;
}

}  // namespace detail

// What fp32 sums over some thousand keys may be off, in the sum of p over some hundred rows too.
inline constexpr double kTolerated = 2e-5, kToleratedMass = 1e-4;

inline Errors errors_of(const Case& c, const Inputs& in, const Results& got) {
  Errors errors;
  const double rounding = rounding_of(c.type);
  std::vector<double> mass(product(c.kv_heads, c.kv_len()), 0);
  for (int row = 0; row < c.rows(); ++row) {
    const int head = row / c.chunk_len, g = head / c.group;
    double lse = 0;
    const std::vector<double> p = detail::probabilities(c, in, head, row % c.chunk_len, lse);
    detail::note(got.lse[static_cast<std::size_t>(row)], lse, errors.lse);
    // sums: of p |v|.
    std::vector<double> output(static_cast<std::size_t>(c.dim), 0), sums = output;
    for (int position = 0; position < c.kv_len(); ++position) {
      const double weight = p[static_cast<std::size_t>(position)];
      if (weight == 0) continue;
      const std::size_t key = product(g, c.kv_len()) + static_cast<std::size_t>(position);
      mass[key] += weight;
      for (std::size_t i = 0; i < output.size(); ++i) {
        const auto v = static_cast<double>(in.v[key * output.size() + i]);
        output[i] += weight * v;
        sums[i] += weight * std::abs(v);
      }
    }
    for (std::size_t i = 0; i < output.size(); ++i) {
      const double number = got.output[product(row, c.dim) + i];
      detail::note(number, output[i], errors.output);
      // Rounded are each weight before it meets v, and the sum. Both errors are at most `rounding` of
      // what is rounded; weights below the normal numbers of fp16 are far below kTolerated in all.
      detail::note(number, output[i], errors.of_tolerated,
                   kTolerated + rounding * (sums[i] + std::abs(output[i])));
    }
  }
  for (std::size_t key = 0; key < got.key_mass.size(); ++key)
    detail::note(got.key_mass[key], mass[key], errors.key_mass);
  errors.of_tolerated =
      std::max({errors.of_tolerated, errors.lse / kTolerated, errors.key_mass / kToleratedMass});
  return errors;
}

// Rows and keys that fill tiles and that do not; one query, no past, an odd head and each size of it;
// keys in several parts, of which some views have fewer; blocks that straddle the chunk's begin and
// tiles; every form of softmax.
inline const std::vector<Case>& cases() {
  using enum Kind;
  static const std::vector<Case> all = {
      {"dense", Dense, 2, 3, 40, 170, 64},
      {"dense, no past", Dense, 1, 1, 32, 0, 16},
      {"dense, one query", Dense, 2, 8, 1, 577, 128},
      {"dense, odd head", Dense, 1, 2, 9, 30, 33, 1, 1, 3, 0, 1.5F},
      {"dense, wide head", Dense, 1, 1, 33, 95, 256},
      {"dense, window", Dense, 1, 4, 20, 500, 64, 1, 1, 3, 290, 2, true},
      {"gathered", Gathered, 3, 2, 20, 130, 128, 1, 1, 3, 0, 0, false, true},
      {"gathered, in parts", Gathered, 2, 2, 3, 900, 64, 1, 1, 2, 0, 0, true, true},
      {"gathered, window", Gathered, 1, 3, 25, 100, 64, 1, 1, 3, 41, 1.25F},
      {"self only", SelfOnly, 2, 3, 37, 59, 64},
      {"self only, padded head", SelfOnly, 2, 2, 5, 90, 80},
      {"packed", Packed, 3, 2, 18, 120, 64, 1, 1, 3, 77, 0, false, true},
      {"paged", Paged, 2, 4, 20, 150, 64, 16, 4},
      {"paged, sub-groups", Paged, 1, 4, 17, 333, 128, 48, 2, 2, 0, 0, true},
      {"paged, one head a row", Paged, 1, 3, 1, 600, 64, 32, 1, 1, 550},
      {"paged, wide head, one query", Paged, 1, 4, 1, 300, 256, 16, 4, 2, 0, 2, true},
      {"blocks", Blocks, 2, 2, 70, 90, 64, 32},
      {"blocks, straddling", Blocks, 1, 2, 150, 75, 128, 100, 1, 2, 0, 3, true}};
  return all;
}

// All of them in all types.
inline const std::vector<Case>& cases_of_all_types() {
  static const std::vector<Case> all = in_all_types(cases());
  return all;
}

}  // namespace kvloupe::cuda::testing
