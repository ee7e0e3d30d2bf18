// FlexPrefill: each head decides between vertical-slash blocks and query-aware blocks by whether
// pooled keys tell where its latest queries look. Sizes follow the coverage gamma.
//   p            = causal softmax of the chunk's last min(b, m) rows over [0, T)
//   vertical[j]  = mean over those rows of p[i,j];  slash[i] = that of the keys at distance T-1-i
//   n            = #(running sum, falling <= gamma) + 1 tokens, n // 128 + 1 blocks, at least
//                  ceil(min_budget / b), at most ceil(T / b); for vertical and slash apart
//   abar         = softmax over blocks of <mean row, softmax_scale mean key>;
//   D            = sqrt(JS(abar, vertical summed by blocks)); D < tau: the head is query-aware
//   all heads    = the best n vertical blocks, block 0 first: pairs (I, j); and the best n slash
//                  blocks, the nearest first: pairs (I, I - s). Slash blocks are cut from the far
//                  end, so block s of N_b - 1 - s is the partial one where T is no multiple of b
//   query-aware  = n = ceil(min_budget / b) for both, and of softmax over j <= I of
//                  <mean query of I, softmax_scale mean key j>, all pairs of the chunk together, the
//                  largest whose running sum is at most gamma times the number of query blocks
// (bytedance/FlexPrefill, flex_prefill/ops/flex_prefill_attention.py.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/blocks/block_means.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

namespace kvloupe::selection {
namespace {

// Sums of fp32 values that differ by less are equal but for rounding.
constexpr double kRounding = 2 * double{std::numeric_limits<float>::epsilon()};

// How many of the largest values, one after the other, sum up to at most `share` of all.
std::int64_t count_within(std::span<const float> values, std::span<const std::int32_t> falling,
                          double share) {
  double total = 0;
  for (const std::int32_t i : falling) total += static_cast<double>(values[i]);
  const double limit = share * total * (1 + kRounding);
  double sum = 0;
  std::int64_t count = 0;
  for (const std::int32_t i : falling) {
    sum += static_cast<double>(values[i]);
    if (sum > limit) break;
    ++count;
  }
  return count;
}

std::vector<std::int32_t> falling_order(std::span<const float> values) {
  return ranked(values, static_cast<std::int64_t>(values.size()));
}

std::vector<float> summed_by_blocks(std::span<const float> values, std::int64_t block_size) {
  std::vector<double> sums((values.size() + block_size - 1) / block_size, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i / block_size] += static_cast<double>(values[i]);
  return std::vector<float>(sums.begin(), sums.end());
}

void softmax(std::span<float> values) {
  const float largest = *std::max_element(values.begin(), values.end());
  double total = 0;
  for (float& value : values) {
    value = std::exp(value - largest);
    total += static_cast<double>(value);
  }
  for (float& value : values) value = static_cast<float>(static_cast<double>(value) / total);
}

// The square root of the Jensen-Shannon divergence, in nats; a term without mass is 0.
double divergence(std::span<const float> p, std::span<const float> q) {
  double sum = 0;
  const auto term = [](double x, double mean) { return x > 0 ? x * std::log(x / mean) : 0.0; };
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto a = static_cast<double>(p[i]);
    const auto b = static_cast<double>(q[i]);
    sum += 0.5 * (term(a, (a + b) / 2) + term(b, (a + b) / 2));
  }
  return std::sqrt(std::max(0.0, sum));
}

// What the cell's device computes, for all query heads.
struct Observed {
  // Of the chunk's last rows, as many as a block has, or of all of them.
  Observed(const Cell& cell, const BlockGrid& grid, const at::Tensor& means, Ablation ablation)
      : num_rows(ablation == Ablation::AllRows ? grid.chunk_len
                                               : std::min(grid.block_size, grid.chunk_len)),
        num_blocks(grid.num_key_blocks()) {
    const ColumnsAndSlashes sums = columns_and_slashes(
        sets_over_cell(cell, cell.q, latest_rows(num_rows, grid.chunk_len)), cell.k);
    const at::Tensor latest = cell.q.narrow(1, grid.chunk_len - num_rows, num_rows);
    std::vector<std::vector<float>> all =
        all_on_host<float>({sums.columns, sums.slashes,
                            key_products(block_means(latest, num_rows).squeeze(1), means)});
    vertical = std::move(all[0]);
    slash = std::move(all[1]);
    pooled = std::move(all[2]);
  }

  std::int64_t num_rows, num_blocks;
  std::vector<float> vertical, slash;  // [H, T] sums over the rows, by key and by distance
  std::vector<float> pooled;           // [H, N_b] <mean of the rows, mean key of j>
};

// One query head of one cell.
class Head {
 public:
  Head(const Cell& cell, const BlockGrid& grid, const MethodSpec& spec, const Observed& observed,
       std::int64_t head)
      : cell_(cell), grid_(grid), spec_(spec), observed_(observed), head_(head) {
    observe();
    is_query_aware_ = divergence(pooled_attention(), vertical_blocks_) < spec_.real("tau");
  }

  // If so, all queries of the chunk choose pairs; else only its last rows do.
  bool is_query_aware() const { return is_query_aware_; }

  // `products` are those of block_products() for the head, where it is query-aware.
  void choose(const std::vector<std::vector<float>>& products, BlockChoice& choice) const {
    const double gamma = spec_.real("gamma");
    const bool query_aware = is_query_aware();
    const std::int64_t least =
        (spec_.integer("min_budget") + grid_.block_size - 1) / grid_.block_size;
    const auto size = [&](const std::vector<float>& values) {
      return query_aware ? least : std::max(least, covering_blocks(values, gamma));
    };
    score(choice);
    keep_vertical(size(vertical_), choice);
    keep_slash(size(slash_), choice);
    if (query_aware) keep_pairs(products, gamma, choice);
  }

 private:
  // vertical and slash of the last rows.
  void observe() {
    const std::int64_t total = grid_.kv_len();
    const auto count = static_cast<float>(observed_.num_rows);
    const auto first = static_cast<std::ptrdiff_t>(head_ * total);
    vertical_.assign(observed_.vertical.begin() + first,
                     observed_.vertical.begin() + first + total);
    slash_.assign(observed_.slash.begin() + first, observed_.slash.begin() + first + total);
    for (float& value : vertical_) value /= count;
    for (float& value : slash_) value /= count;
    std::reverse(slash_.begin(), slash_.end());  // by distance until now; from the far end
    vertical_blocks_ = summed_by_blocks(vertical_, grid_.block_size);
    slash_blocks_ = summed_by_blocks(slash_, grid_.block_size);
  }

  // Logits of these products with mean keys; none of blocks that all rows from `begin` on are too far
  // from.
  std::vector<float> pooled_logits(std::span<const float> products, std::int64_t begin) const {
    std::vector<float> logits(products.begin(), products.end());
    const auto& softmax = cell_.softmax;
    for (float& logit : logits)
      logit = softmax.softcap > 0 ? static_cast<float>(softmax.logit(static_cast<double>(logit)))
                                  : logit * static_cast<float>(softmax.scale);
    const std::int64_t hidden = softmax.first_visible(cell_.past_len + begin) / grid_.block_size;
    std::fill_n(logits.begin(), hidden, -std::numeric_limits<float>::infinity());
    return logits;
  }

  // abar
  std::vector<float> pooled_attention() const {
    const std::int64_t blocks = observed_.num_blocks;
    std::vector<float> pooled =
        pooled_logits(std::span(observed_.pooled).subspan(head_ * blocks, blocks),
                      grid_.chunk_len - observed_.num_rows);
    softmax(pooled);
    return pooled;
  }

  static std::int64_t covering_blocks(const std::vector<float>& values, double gamma) {
    constexpr std::int64_t kTokens = 128;  // whatever the block size is, as in the code
    return (count_within(values, falling_order(values), gamma) + 1) / kTokens + 1;
  }

  // What lowering=budget ranks by: the attention of the block's keys and of its distance.
  void score(BlockChoice& choice) const {
    const std::int64_t blocks = grid_.num_key_blocks();
    for (std::int64_t i = 0; i < grid_.num_query_blocks(); ++i) {
      const std::int64_t own = grid_.block_of_query_block(i);
      float* scores = choice.scores.row(head_, i);
      for (std::int64_t j = 0; j <= own; ++j)
        scores[j] = vertical_blocks_[j] + slash_blocks_[blocks - 1 - (own - j)];
    }
  }

  // The best `size` of the blocks, `first` before all where there is one.
  static std::vector<std::int32_t> best(const std::vector<float>& values,
                                        std::optional<std::int64_t> first, std::int64_t size) {
    std::vector<std::uint8_t> forced(values.size(), 0);
    if (first) forced[*first] = 1;
    return keep_best(values, std::max<std::int64_t>(1, size), forced).indices;
  }

  void keep_vertical(std::int64_t size, BlockChoice& choice) const {
    std::optional<std::int64_t> first;
    if (first_block(grid_, cell_.softmax, 0) == 0) first = 0;
    for (const std::int32_t j : best(vertical_blocks_, first, size))
      for (std::int64_t i = 0; i < grid_.num_query_blocks(); ++i)
        if (j <= grid_.block_of_query_block(i)) keep(choice, i, j, j == 0);
  }

  void keep_slash(std::int64_t size, BlockChoice& choice) const {
    const std::int64_t last = grid_.num_key_blocks() - 1;
    for (const std::int32_t slash : best(slash_blocks_, last, size))
      for (std::int64_t i = 0; i < grid_.num_query_blocks(); ++i) {
        const std::int64_t j = grid_.block_of_query_block(i) - (last - slash);
        if (j >= 0) keep(choice, i, j, slash == last);
      }
  }

  void keep_pairs(const std::vector<std::vector<float>>& products, double gamma,
                  BlockChoice& choice) const {
    const std::int64_t blocks = grid_.num_key_blocks();
    std::vector<float> pairs(static_cast<std::size_t>(grid_.num_query_blocks() * blocks), 0.0F);
    for (std::int64_t i = 0; i < grid_.num_query_blocks(); ++i) {
      std::vector<float> row =
          pooled_logits(products[static_cast<std::size_t>(i)], grid_.row_begin(i));
      softmax(row);
      std::copy(row.begin(), row.end(), pairs.begin() + i * blocks);
    }
    const std::vector<std::int32_t> order = falling_order(pairs);
    const std::int64_t count = count_within(pairs, order, gamma);
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t j = order[n] % blocks;
      if (j <= grid_.block_of_query_block(order[n] / blocks))
        keep(choice, order[n] / blocks, j, false);
    }
  }

  void keep(BlockChoice& choice, std::int64_t query_block, std::int64_t block, bool forced) const {
    choice.mask.row(head_, query_block)[block] = 1;
    if (forced) choice.forced.row(head_, query_block)[block] = 1;
  }

  const Cell& cell_;
  const BlockGrid& grid_;
  const MethodSpec& spec_;
  const Observed& observed_;
  std::int64_t head_;
  std::vector<float> vertical_, slash_;                // [T]
  std::vector<float> vertical_blocks_, slash_blocks_;  // [N_b]
  bool is_query_aware_ = false;
};

class FlexPrefill final : public BlockMasker {
 public:
  explicit FlexPrefill(const Setup& setup)
      : spec_(setup.spec), ablation_(setup.ablation), means_(setup.spec.integer("block_size")) {}

  BlockChoice choose(const Cell& cell) override {
    const BlockGrid grid = grid_of(cell, spec_.integer("block_size"));
    BlockChoice choice(grid, cell.num_q_heads());
    const at::Tensor key_means = means_.of(cell);
    const Observed observed(cell, grid, key_means, ablation_);
    std::vector<std::optional<Head>> heads(static_cast<std::size_t>(cell.num_q_heads()));
    const auto for_each_head = [&](const auto& work) {
      for_each_item_on(cell.k.device(), cell.num_q_heads(), 32 * cell.kv_len(), work);
    };
    for_each_head([&](std::int64_t head) {
      heads[static_cast<std::size_t>(head)].emplace(cell, grid, spec_, observed, head);
    });
    std::vector<std::int64_t> aware;
    for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
      if (heads[static_cast<std::size_t>(head)]->is_query_aware()) aware.push_back(head);
    const auto products = block_products(cell, grid, key_means, aware);
    for_each_head([&](std::int64_t head) {
      const auto index = static_cast<std::size_t>(head);
      heads[index]->choose(products[index], choice);
    });
    return choice;
  }

  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    const BlockGrid grid = grid_of(cell, spec_.integer("block_size"));
    const Observed observed(cell, grid, means_.of(cell), ablation_);
    auto rows = in_every_head(cell, {});
    for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
      if (!Head(cell, grid, spec_, observed, head).is_query_aware())
        rows[static_cast<std::size_t>(head)] = latest_rows(observed.num_rows, grid.chunk_len);
    return rows;
  }

 private:
  MethodSpec spec_;
  Ablation ablation_;
  BlockMeans means_;
};

}  // namespace

std::unique_ptr<Selector> make_flex_prefill(const Setup& setup) {
  return make_block_selector(setup, std::make_unique<FlexPrefill>(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

void describe_flex_prefill(Method& method) {
  method.title = "FlexPrefill";
  method.paper_spec = "flex_prefill:gamma=0.9,tau=0.1,min_budget=512,lowering=native";
  method.deviation =
      "in every lowering the chunk's last rows are observed, over all keys, pairs are cut to the "
      "chunk's query blocks, and the query-aware pairs of a chunk are gathered together (the code "
      "refuses chunked prefill); dense only without a past, where the code is up to 2 blocks or "
      "min_budget; no max_budget; pairs left out do not stand for block 0; a block without "
      "attention "
      "adds 0 to the divergence (the code gets NaN: vertical-slash); decodes densely; "
      "lowering=union "
      "is KVLoupe's, after CompactAttention: a KV head sees the union over query blocks and the "
      "group's heads, and the whole chunk, where the kernel runs on each head's own blocks; "
      "lowering=budget is KVLoupe's: whole blocks by the attention of their keys plus that of "
      "their "
      "distance";
  method.summary =
      "Lets each head choose between columns and diagonals of the attention map and single blocks, "
      "as many as hold a share gamma of the attention.";
  method.paper =
      "Lai et al.: FlexPrefill: a context-aware sparse attention mechanism for efficient "
      "long-sequence inference, 2025, arXiv 2502.20766";
  method.evidence = "repository bytedance/FlexPrefill (flex_prefill/ops/flex_prefill_attention.py)";
  method.needs = {"q", "k"};
  ParamInfo gamma =
      float_param("gamma", 0.9, 0, 1, "share of the attention that sets the number of blocks");
  gamma.min_exclusive = true;
  method.params = {
      int_param("block_size", 128, 1, 1 << 20, "tokens of a block"), gamma,
      float_param("tau", 0.1, 0, 1, "divergence below which a head is query-aware; 0: none is"),
      int_param("min_budget", 512, 0, 1 << 30,
                "tokens of columns, and of diagonals, that a head keeps at least")};
  add_lowering(method);
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
    traits.samples_rows = true;
  };
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes_per_page = shape.head_dim};
  };
}

}  // namespace kvloupe::selection

#endif
