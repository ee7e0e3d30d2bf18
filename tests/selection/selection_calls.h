// The operators of core/selection that have a CUDA kernel, on the same inputs, with tensors wherever a
// test places them: to hold one set of implementations against another.
#pragma once

#include "core/selection/operators/operators.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {

using Place = std::function<at::Tensor(const at::Tensor&)>;

struct SelectionResult {
  std::string name;
  at::Tensor tensor;
  bool to_the_bit = false;  // else to what fp32 sums may be off
};

struct SelectionShape {
  std::int64_t heads, kv_heads, m, keys, dim;
};

// Groups and none, a decoding step, an odd head, rows beyond sixteen, a head too wide for our kernels.
inline std::vector<SelectionShape> selection_shapes() {
  return {{6, 2, 20, 190, 64},
          {4, 4, 1, 133, 128},
          {8, 2, 37, 96, 33},
          {2, 1, 5, 70, 256},
          {2, 1, 5, 64, 260}};
}

// On the CPU until they are placed.
class SelectionCalls {
 public:
  explicit SelectionCalls(const SelectionShape& shape) : s_(shape) {
    at::manual_seed(6);
    q_ = at::randn({s_.heads, s_.m, s_.dim});
    // A view of a cache with room to grow, as in a running model.
    k_ = at::randn({s_.kv_heads, s_.keys + 7, s_.dim});
    scores_ = (at::randn({s_.heads, s_.keys}) * 16).round() / 4;
    scores_.narrow(1, 3, 1).fill_(-0.0);
    scores_.narrow(1, s_.keys / 2, 2).fill_(std::numeric_limits<double>::quiet_NaN());
    scores_.narrow(1, s_.keys / 3, 1).fill_(-std::numeric_limits<double>::infinity());
  }

  std::vector<SelectionResult> run(const Place& place) const {
    std::vector<SelectionResult> results;
    scores(place, results);
    best(place, results);
    products(place, results);
    pages(place, results);
    probabilities(place, results);
    ranks(place, results);
    return results;
  }

 private:
  at::Tensor k(const Place& place) const { return place(k_).narrow(1, 0, s_.keys); }

  void scores(const Place& place, std::vector<SelectionResult>& to) const {
    for (const std::int64_t slots : {std::int64_t{1}, std::int64_t{19}}) {
      const at::Tensor chosen =
          (at::arange(s_.heads * slots, at::kInt) * 5).remainder(s_.m).view({s_.heads, slots});
      for (const KeyMetric metric : {KeyMetric::Cosine, KeyMetric::Dot})
        for (const QueryReduce query : {QueryReduce::Max, QueryReduce::Mean})
          for (const GroupReduce group : {GroupReduce::RowsFirst, GroupReduce::ScoresFirst})
            to.push_back({"scores by " + std::to_string(slots) + " queries, options " +
                              std::to_string(static_cast<int>(metric)) +
                              std::to_string(static_cast<int>(query)) +
                              std::to_string(static_cast<int>(group)),
                          score_keys(place(q_), k(place), place(chosen), s_.keys - 3,
                                     {metric, query, group})});
    }
  }

  // Ties, both zeros, infinities and NaNs; forced ones here or there.
  void best(const Place& place, std::vector<SelectionResult>& to) const {
    const std::int64_t n = s_.keys;
    at::Tensor marks = at::zeros({n - 1}, at::kByte);
    marks.narrow(0, n / 2 - 5, 9).fill_(1);
    for (const std::int64_t budget : {std::int64_t{0}, std::int64_t{4}, n / 3, n + 5})
      for (const at::Tensor& forced : {at::Tensor(), marks}) {
        const KeptRows kept = keep_best_rows(place(scores_).narrow(1, 1, n - 1), budget,
                                             forced.defined() ? place(forced) : forced);
        const std::string name =
            "best " + std::to_string(budget) + (forced.defined() ? " with forced" : "");
        to.push_back({name, kept.indices, true});
        to.push_back({name + ", forced", kept.forced, true});
        to.push_back({name + ", ties", kept.ties, true});
      }
  }

  void ranks(const Place& place, std::vector<SelectionResult>& to) const {
    const std::int64_t n = std::min<std::int64_t>(s_.keys - 1, 900);
    const at::Tensor some = place(scores_).narrow(1, 1, n);
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{7}, n + 3}) {
      const std::string name = "ranks of " + std::to_string(count);
      to.push_back({name, ranked_rows(some, count), true});
      to.push_back({name + ", fp64", ranked_rows(some.to(at::kDouble), count), true});
    }
    to.push_back({"relevance", query_relevance(place(q_))});
    to.push_back({"relevance of heads apart", query_relevance(place(q_).narrow(0, 1, 1))});
  }

  void products(const Place& place, std::vector<SelectionResult>& to) const {
    to.push_back({"products", key_products(place(q_.select(1, 0)), k(place))});
    to.push_back({"products of rows apart", key_products(place(q_).select(1, s_.m / 2), k(place))});
  }

  void pages(const Place& place, std::vector<SelectionResult>& to) const {
    for (const std::int64_t cut : {0, 5}) {
      const at::Tensor bounds = page_bounds(k(place), 16, cut);
      to.push_back({"page bounds", bounds, true});
      to.push_back({"page scores", page_scores(place(q_), bounds)});
      to.push_back(
          {"page scores of one row", page_scores(place(q_).narrow(1, s_.m / 2, 1), bounds)});
      to.push_back({"block means", block_means(k(place), 32, cut), true});
    }
  }

  // Consecutive rows, the last of which sees all keys; with every form of softmax, or a plain one.
  RowSets sets(const Place& place, bool plain) const {
    RowSets sets;
    sets.queries = place(q_);
    sets.scale = 1 / std::sqrt(static_cast<double>(s_.dim));
    for (std::int64_t row = 0; row < s_.m; ++row) {
      sets.visible.push_back(s_.keys - s_.m + row + 1);
      if (!plain) sets.first.push_back(std::max<std::int64_t>(sets.visible.back() - 60, 0));
    }
    if (plain) return sets;
    sets.softcap = 1.5;
    for (std::int64_t row = 0; row < s_.heads * s_.m; ++row)
      sets.sinks.push_back(static_cast<float>(row % 7) / 4);
    return sets;
  }

  void probabilities(const Place& place, std::vector<SelectionResult>& to) const {
    for (const bool plain : {true, false}) {
      const std::string form = plain ? ", plain" : ", every form";
      RowSets rows = sets(place, plain);
      const ColumnsAndSlashes both = columns_and_slashes(rows, k(place));
      to.push_back({"columns" + form, both.columns});
      to.push_back({"slashes" + form, both.slashes});
      // Rows from anywhere, the first of which sees nothing.
      rows.visible.front() = 0;
      rows.visible.back() = s_.keys / 2;
      to.push_back({"sums of p" + form, reduce_probabilities(rows, k(place), ColumnReduce::Sum)});
      to.push_back({"largest p" + form, reduce_probabilities(rows, k(place), ColumnReduce::Max)});
      rows.sinks.clear();
      to.push_back({"joint sums" + form, joint_softmax_sums(rows, k(place))});
    }
  }

  SelectionShape s_;
  at::Tensor q_, k_, scores_;
};

inline void expect_same(const std::vector<SelectionResult>& got,
                        const std::vector<SelectionResult>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const at::Tensor a = got[i].tensor.cpu(), b = want[i].tensor.cpu();
    EXPECT_EQ(got[i].name, want[i].name);
    ASSERT_EQ(a.sizes(), b.sizes()) << got[i].name;
    ASSERT_EQ(a.scalar_type(), b.scalar_type()) << got[i].name;
    if (want[i].to_the_bit)
      EXPECT_TRUE(at::equal(a, b)) << got[i].name;
    else {
      // A device that fuses multiplication and addition rounds each term of a sum once. What the terms are off
      // is in proportion to them, not to the sum, in which they may cancel.
      const double of_terms = 1e-6 * b.abs().max().item<double>();
      EXPECT_TRUE(at::allclose(a, b, 1e-5, std::max(1e-5, of_terms)))
          << got[i].name << ": off by " << (a - b).abs().max().item<double>();
    }
  }
}

}  // namespace kvloupe::selection::testing
