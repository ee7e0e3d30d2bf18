// FlashPrefill: blocks whose mean key holds a fair share of a query block's attention.
//   Kbar[g,j] = mean of block j's keys
//   z[i,j]    = softmax_scale <q_i, Kbar_j>,  valid where row i sees all of block j: p_i >= j b + b - 1
//   s[I,j]    = sum of exp(z[i,j] - m_I) over the rows i of query block I that see j, m_I the largest
//               valid z of I: one softmax over rows and blocks together; s / (sum_j s + 1e-9)
//   keep[I,j] = s[I,j] >= alpha max_j s[I,j]  or  j < sink_blocks  or  0 <= I - j < window_blocks,
//               and j <= I
// In the prompt's last chunk the last last_full_blocks query blocks see everything and do not vote;
// the chunk's first query block always votes.
// (qhfan/FlashPrefill; in chunks: jiwonsong-dev/CompactAttention.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/blocks/block_means.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace kvloupe::selection {
namespace {

class FlashPrefill final : public BlockMasker {
 public:
  explicit FlashPrefill(const MethodSpec& spec)
      : block_size_(spec.integer("block_size")),
        alpha_(spec.real("alpha")),
        sink_blocks_(spec.integer("sink_blocks")),
        window_blocks_(spec.integer("window_blocks")),
        last_full_blocks_(spec.integer("last_full_blocks")),
        means_(block_size_) {}

  BlockChoice choose(const Cell& cell) override {
    const BlockGrid grid = grid_of(cell, block_size_);
    BlockChoice choice(grid, cell.num_q_heads());
    choice.thresholds.resize(
        static_cast<std::size_t>(cell.num_q_heads() * grid.num_query_blocks()));
    const at::Tensor means = means_.of(cell);
    // All are asked before the host waits for one of them.
    std::vector<at::Tensor> sums;
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      sums.push_back(sums_of_blocks(cell, means, grid, i));
    const std::vector<std::vector<double>> on_host = all_on_host<double>(sums);
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      score(on_host[static_cast<std::size_t>(i)], i, choice);
      for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
        keep(first_block(grid, cell.softmax, i), head, i, choice);
    }
    if (cell.ends_prefill) open_last(choice);
    return choice;
  }

 private:
  // What s[I, :] is normalised from, [num_q_heads, blocks that some row of I sees whole].
  at::Tensor sums_of_blocks(const Cell& cell, const at::Tensor& means, const BlockGrid& grid,
                            std::int64_t query_block) const {
    const std::int64_t begin = grid.row_begin(query_block), end = grid.row_end(query_block);
    const std::int64_t blocks = (grid.past_len + end) / block_size_;
    if (blocks == 0) return at::empty({cell.num_q_heads(), 0}, at::kDouble);
    RowSets sets = sets_of(cell.softmax, cell.q.narrow(1, begin, end - begin), 0);
    for (std::int64_t position = grid.past_len + begin; position < grid.past_len + end;
         ++position) {
      sets.visible.push_back((position + 1) / block_size_);
      if (cell.softmax.window > 0)
        sets.first.push_back((cell.softmax.first_visible(position) + block_size_ - 1) /
                             block_size_);
    }
    return joint_softmax_sums(sets, means.narrow(1, 0, blocks));
  }

  // s[I, :] of every head; 0 for blocks that no row of I sees whole.
  static void score(const std::vector<double>& sums, std::int64_t query_block,
                    BlockChoice& choice) {
    const std::int64_t heads = choice.mask.num_q_heads();
    const std::int64_t blocks = std::ssize(sums) / heads;
    for (std::int64_t head = 0; head < heads; ++head) {
      const double* of_head = sums.data() + head * blocks;
      double total = 1e-9;
      for (std::int64_t j = 0; j < blocks; ++j) total += of_head[j];
      for (std::int64_t j = 0; j < blocks; ++j)
        choice.scores.row(head, query_block)[j] = static_cast<float>(of_head[j] / total);
    }
  }

  void keep(std::int64_t first_block, std::int64_t head, std::int64_t query_block,
            BlockChoice& choice) const {
    const std::int64_t own_block = choice.grid.block_of_query_block(query_block);
    const float* scores = choice.scores.row(head, query_block);
    std::uint8_t* mask = choice.mask.row(head, query_block);
    std::uint8_t* forced = choice.forced.row(head, query_block);
    const double threshold =
        alpha_ * static_cast<double>(*std::max_element(scores, scores + own_block + 1));
    choice.thresholds[head * choice.grid.num_query_blocks() + query_block] =
        static_cast<float>(threshold);
    for (std::int64_t j = first_block; j <= own_block; ++j) {
      forced[j] = j < sink_blocks_ || own_block - j < window_blocks_;
      mask[j] = forced[j] != 0 || static_cast<double>(scores[j]) >= threshold;
    }
  }

  void open_last(BlockChoice& choice) const {
    const std::int64_t query_blocks = choice.grid.num_query_blocks();
    const std::int64_t first = query_blocks - std::min(last_full_blocks_, query_blocks - 1);
    choice.abstains.assign(static_cast<std::size_t>(query_blocks), 0);
    for (std::int64_t i = first; i < query_blocks; ++i) {
      choice.abstains[i] = 1;
      const std::int64_t causal = choice.grid.block_of_query_block(i) + 1;
      for (std::int64_t head = 0; head < choice.mask.num_q_heads(); ++head) {
        std::fill_n(choice.mask.row(head, i), causal, std::uint8_t{1});
        std::fill_n(choice.forced.row(head, i), causal, std::uint8_t{1});
      }
    }
  }

  std::int64_t block_size_;
  double alpha_;
  std::int64_t sink_blocks_, window_blocks_, last_full_blocks_;
  BlockMeans means_;
};

}  // namespace

std::unique_ptr<BlockMasker> make_flash_prefill_masker(const Setup& setup) {
  return std::make_unique<FlashPrefill>(setup.spec);
}

std::unique_ptr<Selector> make_flash_prefill(const Setup& setup) {
  return make_block_selector(setup, make_flash_prefill_masker(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

std::vector<ParamInfo> flash_prefill_params() {
  return {int_param("block_size", 128, 1, 1 << 20, "tokens of a block"),
          float_param("alpha", 0.01, 0, 1,
                      "share of a query block's highest score that a block needs to be kept"),
          int_param("sink_blocks", 2, 0, 1 << 20, "first blocks, always kept"),
          int_param("window_blocks", 4, 0, 1 << 20,
                    "latest blocks before and with the query block's own, always kept"),
          int_param("last_full_blocks", 0, 0, 1 << 20,
                    "query blocks at the end of the prompt's last chunk, never its first, that see "
                    "everything and do not vote in the union")};
}

void describe_flash_prefill(Method& method) {
  method.title = "FlashPrefill";
  method.paper_spec = "flash_prefill:alpha=0.01,lowering=native";
  method.deviation =
      "in every lowering blocks and query blocks are cut from position 0 (the code cuts query "
      "blocks "
      "from the chunk's begin and fills them with zeros); mean keys in fp32, not in the type of "
      "the "
      "cache; last_full_blocks is 0, not 2, and speaks of the prompt's last chunk only; no top-k "
      "floor (min_budget); alpha=0.01 is what CompactAttention's comparison gives FlashPrefill on "
      "Llama (its own scripts use 0.08 to 0.18); decodes densely; lowering=union is "
      "CompactAttention's: a KV head sees the "
      "union over the chunk's query blocks and the group's heads, and the whole chunk, where the "
      "kernel runs on each head's own mask (CompactAttention has alpha=0.06 there); "
      "lowering=budget "
      "is KVLoupe's: whole blocks by mean score";
  method.summary =
      "Keeps the blocks whose mean key holds a fair share of what a block of queries attends to, "
      "beside the first and the latest blocks.";
  method.paper =
      "Fan et al.: FlashPrefill: instantaneous pattern discovery and thresholding for ultra-fast "
      "long-context prefilling, 2026, arXiv 2603.06199";
  method.evidence =
      "repository qhfan/FlashPrefill and its chunked form in jiwonsong-dev/CompactAttention "
      "(flashprefill_native_forward.py, flashprefill_prefill.py), the selector of CompactAttention";
  method.needs = {"q", "k"};
  method.params = flash_prefill_params();
  add_lowering(method);
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
  };
  method.metadata = [](const MethodSpec&, const ModelShape& shape) {
    return Metadata{.lanes_per_page = shape.head_dim};
  };
}

}  // namespace kvloupe::selection

#endif
