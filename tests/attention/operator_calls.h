// Every operator of core/attention on the same inputs, by way of the typed functions, with tensors
// wherever a test places them: to hold one set of implementations against another.
#pragma once

#include "core/attention/attention.h"
#include "core/attention/lane_attention.h"
#include "core/attention/lane_products.h"
#include "core/attention/paged_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::attention::testing {

struct CallShape {
  std::int64_t heads, kv_heads, m, past, dim;
  std::int64_t block_size;  // of pages and of masks
  std::int64_t group() const { return heads / kv_heads; }
  std::int64_t keys() const { return past + m; }
  std::int64_t blocks() const { return (keys() + block_size - 1) / block_size; }
};

// Groups and none; a decoding step; no past; an odd head; blocks that straddle the chunk's begin and
// blocks that meet it; more keys than a tile of the CPU's; a head that is too wide for our kernels.
inline std::vector<CallShape> call_shapes() {
  return {{6, 2, 20, 70, 64, 16}, {4, 4, 1, 133, 128, 32},  {8, 2, 37, 59, 33, 8},
          {3, 1, 9, 0, 16, 4},    {4, 2, 33, 620, 32, 128}, {2, 1, 5, 64, 260, 16}};
}

// Of 8 query heads at most.
inline std::vector<SoftmaxForm> call_forms(std::int64_t heads) {
  std::vector<float> sinks = {-1, 0.5F, 3, 6, 0, -4, 2, 1};
  sinks.resize(static_cast<std::size_t>(heads));
  return {SoftmaxForm(0.2),
          SoftmaxForm(0.2, 1, 0, {}),
          SoftmaxForm(0.2, 7, 0, {}),
          SoftmaxForm(0.2, 50, 0, {}),
          SoftmaxForm(0.2, 5000, 0, {}),
          SoftmaxForm(0.2, 0, 1.25, {}),
          SoftmaxForm(0.2, 0, 0, sinks),
          SoftmaxForm(0.2, 41, 1.25, sinks)};
}

using Place = std::function<at::Tensor(const at::Tensor&)>;

struct CallResult {
  std::string name;
  at::Tensor tensor;
};

// On the CPU until they are placed.
class OperatorCalls {
 public:
  explicit OperatorCalls(const CallShape& shape) : s_(shape) {
    at::manual_seed(5);
    q_ = at::randn({s_.heads, s_.m, s_.dim});
    // Views of a cache with room to grow, as in a running model.
    k_ = at::randn({s_.kv_heads, s_.keys() + 9, s_.dim});
    v_ = at::randn({s_.kv_heads, s_.keys() + 9, s_.dim});
    const at::Tensor order = at::randn({s_.heads, s_.m, s_.dim}).argsort(-1, false);
    lanes_ = std::get<0>(order.narrow(2, 0, kept()).contiguous().sort(-1)).to(at::kInt);
    lane_values_ = at::randn({s_.heads, s_.m, kept()}) * 2;
  }

  std::vector<CallResult> run(const SoftmaxForm& softmax, const Place& place) const {
    std::vector<CallResult> results;
    dense(softmax, place, results);
    gathered(softmax, place, results);
    kept_there(softmax, place, results);
    paged(softmax, place, results);
    block_sparse(softmax, place, results);
    lanes(softmax, place, results);
    return results;
  }

 private:
  using Selected = std::vector<std::vector<std::int32_t>>;

  std::int64_t kept() const { return std::max<std::int64_t>(s_.dim / 3, 1); }
  at::Tensor k(const Place& place) const { return place(k_).narrow(1, 0, s_.keys()); }
  at::Tensor v(const Place& place) const { return place(v_).narrow(1, 0, s_.keys()); }

  // Of `limit` positions about a third in the first KV head, fewer in each further one; none at all in
  // the last of several.
  Selected some_positions(std::int64_t limit) const {
    std::mt19937 random(3);
    Selected selected(static_cast<std::size_t>(s_.kv_heads));
    for (std::size_t g = 0; g < selected.size(); ++g)
      for (std::int64_t j = 0; j < limit; ++j)
        if (random() % (3 + g) == 0 && (g == 0 || g + 1 < selected.size()))
          selected[g].push_back(static_cast<std::int32_t>(j));
    return selected;
  }

  void dense(const SoftmaxForm& softmax, const Place& place, std::vector<CallResult>& to) const {
    const at::Tensor q = place(q_);
    const DenseResult all = dense_chunk_attention(q, k(place), v(place), softmax, true);
    to.insert(to.end(),
              {{"dense output", all.output}, {"dense lse", all.lse}, {"dense mass", all.key_mass}});
    const DenseResult alone = dense_chunk_attention(q, k(place), v(place), softmax, false);
    EXPECT_FALSE(alone.key_mass.defined());
    to.push_back({"dense output without mass", alone.output});
    const MassResult mass = chunk_mass(q, k(place), softmax);
    to.insert(to.end(), {{"mass lse", mass.lse}, {"mass", mass.key_mass}});
    for (const std::int64_t head : {std::int64_t{0}, s_.heads - 1}) {
      const at::Tensor k_head = k(place)[head / s_.group()];
      to.push_back({"rows of head " + std::to_string(head),
                    attention_rows(q[head], k_head, softmax, s_.past, mass.lse[head])});
    }
    // Keys to the middle of the chunk alone.
    to.push_back({"rows beyond the keys",
                  attention_rows(q[0], k(place)[0].narrow(0, 0, s_.past + s_.m / 2 + 1), softmax,
                                 s_.past, mass.lse[0])});
  }

  void gathered(const SoftmaxForm& softmax, const Place& place, std::vector<CallResult>& to) const {
    const at::Tensor q = place(q_);
    for (const auto visibility : {ChunkVisibility::OpenChunk, ChunkVisibility::SelfOnly}) {
      const bool open = visibility == ChunkVisibility::OpenChunk;
      for (const Selected& selected :
           {some_positions(open ? s_.past : s_.keys()), some_positions(0)}) {
        const GatheredKeys keys = gather_keys(k(place), v(place), s_.m, selected, visibility);
        const std::string name = std::string(open ? "open" : "self only") +
                                 (keys.k.size(0) > s_.m * s_.kv_heads ? "" : ", nothing selected");
        to.insert(to.end(),
                  {{"gathered, " + name,
                    gathered_chunk_attention(q, k(place), v(place), softmax, selected, visibility)},
                   {"gathered k, " + name, keys.k},
                   {"gathered v, " + name, keys.v},
                   {"attend gathered, " + name, attend_gathered(q, keys, softmax)}});
      }
    }
  }

  // As many of each KV head, of those that the first row sees.
  void kept_there(const SoftmaxForm& softmax, const Place& place,
                  std::vector<CallResult>& to) const {
    const std::int64_t first = softmax.first_visible(s_.past), seen = s_.past - first;
    at::manual_seed(11);
    for (const std::int64_t count : {std::int64_t{0}, seen / 3, seen}) {
      std::vector<at::Tensor> rows;
      for (std::int64_t g = 0; g < s_.kv_heads; ++g)
        rows.push_back(std::get<0>(at::randperm(seen).narrow(0, 0, count).sort()) + first);
      const at::Tensor kept = at::stack(rows).to(at::kInt);
      to.push_back({"kept there, " + std::to_string(count) + " keys",
                    kept_chunk_attention(place(q_), k(place), v(place), softmax, place(kept))});
    }
  }

  BlockTables tables(std::int64_t q_heads_per_row, unsigned one_in) const {
    std::mt19937 random(7);
    BlockTables tables;
    tables.page_size = s_.block_size;
    tables.q_heads_per_row = q_heads_per_row;
    tables.pages_per_head = s_.blocks() + 2;
    tables.kv_indptr = {0};
    for (std::int64_t row = 0; row < s_.heads / q_heads_per_row; ++row) {
      const std::int64_t page_0 = row * q_heads_per_row / s_.group() * tables.pages_per_head;
      for (std::int64_t page = 0; page < s_.blocks(); ++page)
        if (one_in > 0 && random() % one_in == 0)
          tables.kv_indices.push_back(static_cast<std::int32_t>(page_0 + page));
      tables.kv_indptr.push_back(static_cast<std::int32_t>(tables.kv_indices.size()));
    }
    return tables;
  }

  void paged(const SoftmaxForm& softmax, const Place& place, std::vector<CallResult>& to) const {
    for (std::int64_t per_row = 1; per_row <= s_.group(); ++per_row) {
      if (s_.group() % per_row != 0) continue;
      for (const unsigned one_in : {0U, 1U, 3U})  // none, all, some
        to.push_back({"paged, " + std::to_string(per_row) + " heads a row, one page in " +
                          std::to_string(one_in),
                      paged_chunk_attention(place(q_), k(place), v(place), softmax,
                                            tables(per_row, one_in))});
    }
  }

  void block_sparse(const SoftmaxForm& softmax, const Place& place,
                    std::vector<CallResult>& to) const {
    const std::int64_t first = s_.past / s_.block_size;
    std::mt19937 random(9);
    for (const unsigned one_in : {1U, 3U, 1000U}) {
      const at::Tensor mask =
          at::zeros({s_.heads, s_.blocks() - first, s_.blocks()}, at::dtype(at::kByte));
      auto bits = mask.accessor<std::uint8_t, 3>();
      for (std::int64_t head = 0; head < mask.size(0); ++head)
        for (std::int64_t i = 0; i < mask.size(1); ++i)
          for (std::int64_t j = 0; j <= first + i; ++j)
            bits[head][i][j] = j == first + i || random() % one_in == 0;
      to.push_back({"block-sparse, one block in " + std::to_string(one_in),
                    block_sparse_chunk_attention(place(q_), k(place), v(place), softmax,
                                                 s_.block_size, mask)});
    }
  }

  // From position `first` on; what no key fills is NaN.
  LaneKeys tiles(std::int64_t first, const Place& place) const {
    const std::int64_t count = s_.keys() - first;
    at::Tensor rows = at::full({s_.kv_heads, num_lane_tiles(count) * kLaneTileKeys, s_.dim},
                               std::numeric_limits<float>::quiet_NaN());
    rows.narrow(1, 0, count).copy_(k_.narrow(1, first, count));
    const at::Tensor by_lane =
        rows.view({s_.kv_heads, -1, kLaneTileKeys, s_.dim}).transpose(2, 3).contiguous();
    return {place(by_lane), first};
  }

  void lanes(const SoftmaxForm& softmax, const Place& place, std::vector<CallResult>& to) const {
    const LaneQueries q{place(lane_values_), place(lanes_)};
    const std::int64_t seen = softmax.first_visible(s_.past);
    for (const std::int64_t first : {std::int64_t{0}, seen, seen / 2})
      to.push_back({"lanes of keys from " + std::to_string(first),
                    lane_chunk_attention(q, tiles(first, place), v(place), softmax)});
    const at::Tensor leading = k_.narrow(1, seen, s_.keys() - seen).narrow(2, 0, kept());
    to.push_back({"leading lanes",
                  lane_chunk_attention({place(lane_values_), {}},
                                       {place(leading.contiguous()), seen}, v(place), softmax)});
    for (const Selected& selected : {some_positions(s_.past), some_positions(0)}) {
      const GatheredKeys keys = gather_lanes(tiles(0, place), v(place), s_.m, selected);
      const std::string name = std::to_string(keys.begin.back()) + " gathered keys";
      to.insert(to.end(), {{"lanes of " + name, attend_gathered(q, keys, softmax)},
                           {"values of " + name, keys.v}});
      const auto mass = gathered_mass(q, keys, softmax);
      for (std::size_t g = 0; g < mass.size(); ++g)
        to.push_back({"mass of " + name + ", KV head " + std::to_string(g),
                      place(at::tensor(mass[g], at::kFloat))});
    }
  }

  CallShape s_;
  at::Tensor q_, k_, v_, lanes_, lane_values_;
};

// What fp32 sums over some hundred rows and keys may be off.
inline void expect_same(const std::vector<CallResult>& got, const std::vector<CallResult>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].name, want[i].name);
    ASSERT_EQ(got[i].tensor.sizes(), want[i].tensor.sizes()) << got[i].name;
    EXPECT_EQ(got[i].tensor.scalar_type(), want[i].tensor.scalar_type()) << got[i].name;
    EXPECT_TRUE(at::allclose(got[i].tensor.cpu(), want[i].tensor.cpu(), 1e-5, 2e-5))
        << got[i].name << ": off by "
        << (got[i].tensor.cpu() - want[i].tensor.cpu()).abs().max().item<double>();
  }
}

}  // namespace kvloupe::attention::testing
