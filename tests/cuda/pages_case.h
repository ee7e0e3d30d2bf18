// Cases of pages of rows and of products of rows with keys, and what they are by the definition: for the
// kernels in the emulator and on a GPU, in fp32, fp16 and bf16. Free of Torch and of any test library.
#pragma once

#include "core/cuda/pack_rows.cuh"
#include "core/cuda/pages.cuh"
#include "tests/cuda/case_numbers.h"
#include "tests/cuda/typed_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace kvloupe::cuda::testing {

struct PageShape {
  int heads, count, dim, page_size, cut = 0;
  int gap = 0;  // rows between heads
  NumberType type = NumberType::Fp32;
  std::int64_t head_stride() const { return std::int64_t{count + gap} * dim; }
};

// Numbers of the shape's type, as fp32.
inline std::vector<float> page_rows(const PageShape& s) {
  return rounded(random_numbers(static_cast<std::size_t>(s.heads * s.head_stride()), 8), s.type);
}

// All of the problem but its pointers.
inline PagesOfRows problem_of(const PageShape& s) {
  PagesOfRows problem;
  problem.type = s.type;
  problem.head_stride = s.head_stride();
  problem.heads = s.heads;
  problem.count = s.count;
  problem.dim = s.dim;
  problem.page_size = s.page_size;
  problem.cut = s.cut;
  return problem;
}

struct PageResults {
  std::vector<float> bounds, means;
};

inline PageResults pages_of(const PageShape& s, const std::vector<float>& rows) {
  PageResults all;
  for (int head = 0; head < s.heads; ++head)
    for (int begin = -s.cut; begin < s.count; begin += s.page_size) {
      std::vector<float> largest, smallest;
      for (int channel = 0; channel < s.dim; ++channel) {
        std::vector<float> column;
        for (int row = std::max(begin, 0); row < std::min(begin + s.page_size, s.count); ++row)
          column.push_back(rows[static_cast<std::size_t>(head * s.head_stride()) +
                                static_cast<std::size_t>(row * s.dim + channel)]);
        largest.push_back(*std::max_element(column.begin(), column.end()));
        smallest.push_back(*std::min_element(column.begin(), column.end()));
        double sum = 0;
        for (const float value : column) sum += static_cast<double>(value);
        all.means.push_back(static_cast<float>(sum / static_cast<double>(column.size())));
      }
      all.bounds.insert(all.bounds.end(), largest.begin(), largest.end());
      all.bounds.insert(all.bounds.end(), smallest.begin(), smallest.end());
    }
  return all;
}

// Bounds or means of the case with its rows where kernels reach them: Array<T>(vector) and
// Array<T>(count) have data() and copy().
template <template <typename> typename Array>
class PlacedPages {
 public:
  PlacedPages(const PageShape& shape, bool bounds) : PlacedPages(shape, bounds, page_rows(shape)) {}
  // The same numbers.
  PlacedPages in_fp32() const { return {in_type(shape_, NumberType::Fp32), bounds_, inputs_}; }

  cudaError_t launch() const {
    PagesOfRows problem = problem_of(shape_);
    problem.rows = rows_.data();
    problem.results = results_.data();
    return bounds_ ? launch_page_bounds(problem, nullptr) : launch_block_means(problem, nullptr);
  }
  std::vector<float> results() const { return results_.copy(); }
  // Infinite where a bit is wrong.
  double error(const std::vector<float>& got) const {
    const PageResults want = pages_of(shape_, inputs_);
    return got == (bounds_ ? want.bounds : want.means) ? 0 : INFINITY;
  }
  std::size_t bytes() const {
    return size_of(shape_.type) * inputs_.size() + size_of(type_of_results()) * num_results();
  }

 private:
  PlacedPages(const PageShape& shape, bool bounds, const std::vector<float>& inputs)
      : shape_(shape),
        bounds_(bounds),
        inputs_(inputs),
        rows_(inputs, shape.type),
        results_(num_results(), type_of_results()) {}
  NumberType type_of_results() const { return bounds_ ? shape_.type : NumberType::Fp32; }
  std::size_t num_results() const {
    return static_cast<std::size_t>(shape_.heads) * problem_of(shape_).num_pages() * shape_.dim *
           (bounds_ ? 2 : 1);
  }

  PageShape shape_;
  bool bounds_;
  std::vector<float> inputs_;
  Numbers<Array> rows_, results_;
};

// Whole pages and parts of them, a cut, channels that no vector holds, a page larger than all. In all
// types.
inline std::vector<PageShape> page_shapes() {
  return in_all_types<PageShape>(
      {{2, 160, 128, 16, 0, 3}, {1, 77, 33, 16, 5}, {3, 50, 80, 128}, {1, 9, 6, 4, 3}});
}

struct ProductShape {
  int kv_heads, sets, rows, keys, dim;
  bool split, largest;
  bool rows_in_fp32 = false;
  NumberType type = NumberType::Fp32;  // of the keys, and of the rows unless these are in fp32
  NumberType type_of_rows() const { return rows_in_fp32 ? NumberType::Fp32 : type; }
  int width() const { return split ? 2 * dim : dim; }
  int all_sets() const { return kv_heads * sets; }
};

// Numbers of the shape's types, as fp32.
struct ProductInputs {
  std::vector<float> rows, keys;
  explicit ProductInputs(const ProductShape& s)
      : rows(rounded(random_numbers(static_cast<std::size_t>(s.all_sets() * s.rows * s.dim), 9),
                     s.type_of_rows())),
        keys(rounded(random_numbers(static_cast<std::size_t>(s.kv_heads) * s.keys * s.width(), 10),
                     s.type)) {}
};

inline PackRows pack_of(const ProductShape& s) {
  PackRows pack;
  pack.type = s.type_of_rows();
  pack.set_stride = std::int64_t{s.rows} * s.dim;
  pack.row_stride = s.dim;
  pack.sets = s.all_sets();
  pack.rows_per_set = s.rows;
  pack.dim = s.dim;
  pack.split = s.split;
  return pack;
}

inline RowProducts products_of(const ProductShape& s) {
  RowProducts products;
  products.type = s.type;
  products.key_head_stride = std::int64_t{s.keys} * s.width();
  products.num_kv_heads = s.kv_heads;
  products.num_keys = s.keys;
  products.width = s.width();
  products.sets = s.sets;
  products.rows_per_set = s.rows;
  products.reduce = s.largest ? RowReduce::Largest : RowReduce::None;
  return products;
}

inline std::size_t num_products(const ProductShape& s) {
  return static_cast<std::size_t>(s.all_sets()) * (s.largest ? 1 : s.rows) * s.keys;
}

// The largest difference from the definition; infinite where a number is NaN.
inline double error_of(const ProductShape& s, const ProductInputs& in,
                       const std::vector<float>& got) {
  double error = 0;
  for (int set = 0; set < s.all_sets(); ++set)
    for (int key = 0; key < s.keys; ++key) {
      const float* k =
          in.keys.data() + (static_cast<std::size_t>(set / s.sets) * s.keys + key) * s.width();
      double best = -INFINITY;
      for (int row = 0; row < s.rows; ++row) {
        const std::size_t at = static_cast<std::size_t>(set) * s.rows + row;
        const float* q = in.rows.data() + at * s.dim;
        double sum = 0;
        for (int c = 0; c < s.dim; ++c) {
          const auto value = static_cast<double>(q[c]);
          const double times = static_cast<double>(s.split && value < 0 ? k[s.dim + c] : k[c]);
          sum += value * times;
        }
        best = std::max(best, sum);
        if (!s.largest) detail::note(got[at * s.keys + key], sum, error);
      }
      if (s.largest) detail::note(got[static_cast<std::size_t>(set) * s.keys + key], best, error);
    }
  return error;
}

inline constexpr double kProductTolerance = 5e-5;

// The case with its numbers where kernels reach them, as PlacedPages.
template <template <typename> typename Array>
class PlacedProducts {
 public:
  explicit PlacedProducts(const ProductShape& shape)
      : PlacedProducts(shape, ProductInputs(shape)) {}
  // The same numbers.
  PlacedProducts in_fp32() const { return {in_type(shape_, NumberType::Fp32), inputs_}; }

  cudaError_t launch() const {
    PackRows pack = pack_of(shape_);
    pack.from = rows_.data();
    pack.to = packed_.data();
    RowProducts products = products_of(shape_);
    products.rows = packed_.data();
    products.keys = keys_.data();
    products.results = results_.data();
    const cudaError_t status = launch_pack_rows(pack, nullptr);
    return status == cudaSuccess ? launch_row_products(products, nullptr) : status;
  }
  std::vector<float> results() const { return results_.copy(); }
  // In parts of what is tolerated.
  double error(const std::vector<float>& got) const {
    return error_of(shape_, inputs_, got) / kProductTolerance;
  }
  std::size_t bytes() const {
    return size_of(shape_.type) * inputs_.keys.size() + sizeof(float) * num_products(shape_);
  }

 private:
  PlacedProducts(const ProductShape& shape, const ProductInputs& inputs)
      : shape_(shape),
        inputs_(inputs),
        rows_(inputs.rows, shape.type_of_rows()),
        keys_(inputs.keys, shape.type),
        packed_(packed_floats(shape.kv_heads, shape.sets, shape.rows, shape.width())),
        results_(num_products(shape)) {}

  ProductShape shape_;
  ProductInputs inputs_;
  Numbers<Array> rows_, keys_;
  Array<float> packed_, results_;
};

// In all types.
inline std::vector<ProductShape> product_shapes() {
  return in_all_types<ProductShape>({{2, 1, 4, 300, 64, true, false},
                                     {2, 3, 21, 70, 128, true, true},
                                     {1, 1, 17, 90, 256, false, false, true},
                                     {3, 2, 1, 40, 33, false, false, true},
                                     {1, 1, 3, 50, 12, false, false},
                                     {1, 2, 5, 30, 9, true, true}});
}

}  // namespace kvloupe::cuda::testing
