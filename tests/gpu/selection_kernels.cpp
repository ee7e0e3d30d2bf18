#include "tests/gpu/selection_kernels.h"

#include "tests/cuda/keep_best_case.h"
#include "tests/cuda/pages_case.h"
#include "tests/cuda/query_choice_case.h"
#include "tests/cuda/score_keys_case.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/kernel_lines.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace kvloupe::gpu {
namespace {

using namespace kvloupe::cuda;
using testing::name_of;  // NOLINT(misc-unused-using-decls)
using ScoreCase = testing::PlacedScores<DeviceNumbers>;
using PageCase = testing::PlacedPages<DeviceNumbers>;
using ProductCase = testing::PlacedProducts<DeviceNumbers>;
using RelevanceCase = testing::PlacedRelevance<DeviceNumbers>;
using RankCase = testing::PlacedRanks<DeviceNumbers>;

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
        ties_(static_cast<std::size_t>(shape.rows)),
        scratch_(keep_best_scratch(problem_)) {
    problem_.scores = scores_.data();
    problem_.forced = inputs_.forced.empty() ? nullptr : forced_.data();
    problem_.indices = indices_.data();
    problem_.num_forced = num_forced_.data();
    problem_.ties_at_cut = ties_.data();
    problem_.scratch = scratch_.data();
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
  DeviceNumbers<std::uint8_t> scratch_;
};

std::string number(int value) { return std::to_string(value); }

#ifdef __CUDACC__

class Times {
 public:
  template <typename Case>
  void print(const char* kernel, NumberType type, const Case& one) {
    const double ms = median_ms([&] { return one.launch(); }, 20), least = floor_ms(one.bytes());
    std::printf(
        "%s\n    {\"kernel\": \"%s\", \"type\": \"%s\", \"ms\": %.4f, \"floor_ms\": %.4f, "
        "\"megabytes\": %.3f}",
        first_ ? "" : ",", kernel, name_of(type), ms, least,
        static_cast<double>(one.bytes()) / 1e6);
    first_ = false;
  }

 private:
  bool first_ = true;
};

// The cases of docs/cuda.md: 8 KV heads of 128 with 30,720 keys, groups of 4.
void print_times() {
  std::printf(",\n  \"selection_times\": [");
  Times times;
  for (const NumberType type : {NumberType::Fp32, NumberType::Fp16}) {
    const auto print = [&](const char* kernel, const auto& one) { times.print(kernel, type, one); };
    const auto typed = [&](auto shape) { return testing::in_type(shape, type); };
    testing::ScoreShape scores = typed(testing::ScoreShape{8, 4, 16, 128, 30720, 128});
    print("score_keys", ScoreCase(scores));
    scores.scores_first = true;
    print("score_keys, scores first", ScoreCase(scores));
    const testing::PageShape pages = {8, 30720, 128, 16}, blocks = {8, 30720, 128, 128};
    print("page_bounds, pages of 16", PageCase(typed(pages), true));
    print("block_means, blocks of 128", PageCase(typed(blocks), false));
    const testing::ProductShape bounds = {8, 1, 4, 1920, 128, true, false},
                                keys = {8, 1, 4, 30720, 128, false, false};
    print("page_scores, one row", ProductCase(typed(bounds)));
    print("key_products", ProductCase(typed(keys)));
    const testing::RelevanceShape queries = {32, 128, 128};
    print("query_relevance, 32 heads of 128 queries", RelevanceCase(typed(queries)));
  }
  times.print("ranked_rows, 16 of 128, 32 rows", NumberType::Fp32, RankCase({32, 128, 16, true}));
  times.print("keep_best_rows, 8 rows of 30720", NumberType::Fp32, BestCase({8, 30720, 1024}));
  times.print("keep_best_rows, 8 rows of 131072", NumberType::Fp32, BestCase({8, 131072, 4096}));
  times.print("keep_best_rows, 8 rows of 131072, 13107 kept", NumberType::Fp32,
              BestCase({8, 131072, 13107}));
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
      lines.check_case("score_keys", with.type,
                       number(with.keys) + " keys of " + number(with.dim) + ", options " +
                           number(with.cosine) + number(with.mean_of_queries) +
                           number(with.scores_first),
                       ScoreCase(with));
  for (const testing::BestShape& shape : testing::best_shapes())
    lines.check_case("keep_best_rows", NumberType::Fp32,
                     number(shape.kept) + " of " + number(shape.count), BestCase(shape));
  for (const testing::PageShape& shape : testing::page_shapes())
    for (const bool bounds : {true, false})
      lines.check_case(bounds ? "page_bounds" : "block_means", shape.type,
                       number(shape.count) + " rows of " + number(shape.dim),
                       PageCase(shape, bounds));
  for (const testing::ProductShape& shape : testing::product_shapes())
    lines.check_case(shape.split ? "page_scores" : "key_products", shape.type,
                     number(shape.keys) + " keys of " + number(shape.width()), ProductCase(shape));
  for (const testing::RelevanceShape& shape : testing::relevance_shapes())
    lines.check_case("query_relevance", shape.type,
                     number(shape.rows) + " queries of " + number(shape.dim), RelevanceCase(shape));
  for (const testing::RankedShape& shape : testing::ranked_shapes())
    lines.check_case("ranked_rows", NumberType::Fp32,
                     number(shape.kept) + " of " + number(shape.count), RankCase(shape));
  std::printf("\n  ]");
  return lines.right();
}

void print_selection_times() { print_times(); }

}  // namespace kvloupe::gpu
