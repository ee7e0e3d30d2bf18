#include "tests/gpu/selection_kernels.h"

#include "tests/cuda/keep_best_case.h"
#include "tests/cuda/pages_case.h"
#include "tests/cuda/score_keys_case.h"
#include "tests/gpu/device_memory.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace kvloupe::gpu {
namespace {

using namespace kvloupe::cuda;

class ScoreCase {
 public:
  explicit ScoreCase(const testing::ScoreShape& shape)
      : shape_(shape),
        inputs_(shape),
        problem_(testing::problem_of(shape)),
        q_(inputs_.q),
        k_(inputs_.k),
        chosen_(inputs_.chosen),
        rows_(problem_.room_for_rows()),
        scores_(static_cast<std::size_t>(shape.kv_heads) * shape.keys) {
    problem_.q = q_.data();
    problem_.k = k_.data() + shape.offset;
    problem_.chosen = chosen_.data();
    problem_.rows = rows_.data();
    problem_.scores = scores_.data();
  }
  cudaError_t launch() const { return launch_score_keys(problem_, nullptr); }
  std::vector<float> results() const { return scores_.copy(); }
  double error(const std::vector<float>& got) const {
    return testing::error_of(shape_, inputs_, got) / testing::kScoreTolerance;
  }
  std::size_t bytes() const { return 4 * inputs_.k.size(); }

 private:
  testing::ScoreShape shape_;
  testing::ScoreInputs inputs_;
  ScoreKeys problem_;
  DeviceNumbers<float> q_, k_;
  DeviceNumbers<std::int32_t> chosen_;
  DeviceNumbers<float> rows_, scores_;
};

class BestCase {
 public:
  explicit BestCase(const testing::BestShape& shape)
      : shape_(shape),
        inputs_(shape),
        problem_(testing::problem_of(shape)),
        scores_(inputs_.scores),
        forced_(inputs_.forced),
        indices_(static_cast<std::size_t>(shape.rows) * shape.kept),
        num_forced_(static_cast<std::size_t>(shape.rows)),
        ties_(static_cast<std::size_t>(shape.rows)) {
    problem_.scores = scores_.data();
    problem_.forced = inputs_.forced.empty() ? nullptr : forced_.data();
    problem_.indices = indices_.data();
    problem_.num_forced = num_forced_.data();
    problem_.ties_at_cut = ties_.data();
  }
  cudaError_t launch() const { return launch_keep_best(problem_, nullptr); }
  testing::BestResults results() const {
    return {indices_.copy(), num_forced_.copy(), ties_.copy()};
  }
  double error(const testing::BestResults& got) const {
    return got == testing::best_of(shape_, inputs_) ? 0 : INFINITY;
  }
  std::size_t bytes() const { return 4 * inputs_.scores.size(); }

 private:
  testing::BestShape shape_;
  testing::BestInputs inputs_;
  KeepBest problem_;
  DeviceNumbers<float> scores_;
  DeviceNumbers<std::uint8_t> forced_;
  DeviceNumbers<std::int32_t> indices_;
  DeviceNumbers<std::int64_t> num_forced_, ties_;
};

class PageCase {
 public:
  PageCase(const testing::PageShape& shape, bool bounds)
      : shape_(shape),
        bounds_(bounds),
        inputs_(testing::page_rows(shape)),
        problem_(testing::problem_of(shape)),
        rows_(inputs_),
        results_(static_cast<std::size_t>(shape.heads) * problem_.num_pages() * shape.dim *
                 (bounds ? 2 : 1)) {
    problem_.rows = rows_.data();
    problem_.results = results_.data();
  }
  cudaError_t launch() const {
    return bounds_ ? launch_page_bounds(problem_, nullptr) : launch_block_means(problem_, nullptr);
  }
  std::vector<float> results() const { return results_.copy(); }
  double error(const std::vector<float>& got) const {
    const testing::PageResults want = testing::pages_of(shape_, inputs_);
    return got == (bounds_ ? want.bounds : want.means) ? 0 : INFINITY;
  }
  std::size_t bytes() const { return 4 * inputs_.size() + 4 * results_.copy().size(); }

 private:
  testing::PageShape shape_;
  bool bounds_;
  std::vector<float> inputs_;
  PagesOfRows problem_;
  DeviceNumbers<float> rows_, results_;
};

class ProductCase {
 public:
  explicit ProductCase(const testing::ProductShape& shape)
      : shape_(shape),
        inputs_(shape),
        pack_(testing::pack_of(shape)),
        products_(testing::products_of(shape)),
        rows_(inputs_.rows),
        keys_(inputs_.keys),
        packed_(packed_floats(shape.kv_heads, shape.sets, shape.rows, shape.width())),
        results_(testing::num_products(shape)) {
    pack_.from = rows_.data();
    pack_.to = packed_.data();
    products_.rows = packed_.data();
    products_.keys = keys_.data();
    products_.results = results_.data();
  }
  cudaError_t launch() const {
    const cudaError_t status = launch_pack_rows(pack_, nullptr);
    return status == cudaSuccess ? launch_row_products(products_, nullptr) : status;
  }
  std::vector<float> results() const { return results_.copy(); }
  double error(const std::vector<float>& got) const {
    return testing::error_of(shape_, inputs_, got) / testing::kProductTolerance;
  }
  std::size_t bytes() const { return 4 * (inputs_.keys.size() + testing::num_products(shape_)); }

 private:
  testing::ProductShape shape_;
  testing::ProductInputs inputs_;
  PackRows pack_;
  RowProducts products_;
  DeviceNumbers<float> rows_, keys_, packed_, results_;
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}
bool same_bits(const testing::BestResults& a, const testing::BestResults& b) { return a == b; }

// One line of the list; `error` in parts of what is tolerated.
class Lines {
 public:
  template <typename Case>
  void check_case(const char* kernel, const std::string& shape, const Case& one) {
    const bool started = one.launch() == cudaSuccess;
    const auto first = one.results();
    const bool again = one.launch() == cudaSuccess;
    const bool same = same_bits(first, one.results());
    const double error = one.error(first);
    const bool right = started && again && same && error < 1;
    std::printf(
        "%s\n    {\"kernel\": \"%s\", \"shape\": \"%s\", \"error\": %.3g, "
        "\"same_bits\": %s, \"right\": %s}",
        first_ ? "" : ",", kernel, shape.c_str(), std::isfinite(error) ? error : 1e9,
        same ? "true" : "false", right ? "true" : "false");
    first_ = false;
    right_ = right_ && right;
  }
  bool right() const { return right_; }

 private:
  bool first_ = true, right_ = true;
};

std::string number(int value) { return std::to_string(value); }

#ifdef __CUDACC__

template <typename Case>
void print_time(const char* kernel, bool first, const Case& one) {
  const double ms = median_ms([&] { return one.launch(); }, 20), least = floor_ms(one.bytes());
  std::printf("%s\n    {\"kernel\": \"%s\", \"ms\": %.4f, \"floor_ms\": %.4f, \"megabytes\": %.3f}",
              first ? "" : ",", kernel, ms, least, static_cast<double>(one.bytes()) / 1e6);
}

// The cases of docs/cuda.md: 8 KV heads of 128 with 30,720 keys, groups of 4.
void print_times() {
  testing::ScoreShape scores = {8, 4, 16, 128, 30720, 128};
  std::printf(",\n  \"selection_times\": [");
  print_time("score_keys", true, ScoreCase(scores));
  scores.scores_first = true;
  print_time("score_keys, scores first", false, ScoreCase(scores));
  print_time("keep_best_rows, 8 rows of 30720", false, BestCase({8, 30720, 1024}));
  print_time("keep_best_rows, 8 rows of 131072", false, BestCase({8, 131072, 4096}));
  print_time("page_bounds, pages of 16", false, PageCase({8, 30720, 128, 16}, true));
  print_time("block_means, blocks of 128", false, PageCase({8, 30720, 128, 128}, false));
  print_time("page_scores, one row", false, ProductCase({8, 1, 4, 1920, 128, true, false}));
  print_time("key_products", false, ProductCase({8, 1, 4, 30720, 128, false, false}));
  std::printf("\n  ]");
}

#else

void print_times() {}

#endif

}  // namespace

bool print_selection() {
  std::printf(",\n  \"selection\": [");
  Lines lines;
  for (const testing::ScoreShape& shape : testing::score_shapes())
    for (const testing::ScoreShape& with : testing::with_all_options(shape))
      lines.check_case("score_keys",
                       number(with.keys) + " keys of " + number(with.dim) + ", options " +
                           number(with.cosine) + number(with.mean_of_queries) +
                           number(with.scores_first),
                       ScoreCase(with));
  for (const testing::BestShape& shape : testing::best_shapes())
    lines.check_case("keep_best_rows", number(shape.kept) + " of " + number(shape.count),
                     BestCase(shape));
  for (const testing::PageShape& shape : testing::page_shapes())
    for (const bool bounds : {true, false})
      lines.check_case(bounds ? "page_bounds" : "block_means",
                       number(shape.count) + " rows of " + number(shape.dim),
                       PageCase(shape, bounds));
  for (const testing::ProductShape& shape : testing::product_shapes())
    lines.check_case(shape.split ? "page_scores" : "key_products",
                     number(shape.keys) + " keys of " + number(shape.width()), ProductCase(shape));
  std::printf("\n  ]");
  print_times();
  return lines.right();
}

}  // namespace kvloupe::gpu
