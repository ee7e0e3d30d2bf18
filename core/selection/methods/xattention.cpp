// XAttention: strided antidiagonal sums of query-key products stand for attention; each query block
// keeps the fewest blocks that hold tau of it.
//   Qr[a] = concat over u < S of q[a S + S-1-u],  Kr[n] = concat of k[n S + u]   positions not in the
//           chunk (queries) or not before its end (keys) are zero
//   e[a,n] = softmax_scale <Qr[a], Kr[n]> / S,  n <= a;   A[a,:] = softmax over n
//   W[I,j] = sum of A over the strided rows of query block I and the strided keys of block j
//   keep[I,:] = {0, I}, then others by falling W while the mass kept, those two first, is below
//               tau sum_j W[I,j]
// (mit-han-lab/x-attention, xattn/src/Xattention.py and utils.py.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace kvloupe::selection {
namespace {

class XAttention final : public BlockMasker {
 public:
  explicit XAttention(const MethodSpec& spec)
      : block_size_(spec.integer("block_size")),
        stride_(spec.integer("stride")),
        tau_(spec.real("tau")) {}

  BlockChoice choose(const Cell& cell) override {
    const BlockGrid grid = grid_of(cell, block_size_);
    BlockChoice choice(grid, cell.num_q_heads());
    const at::Tensor keys = strided_keys(cell);
    // All are asked before the host waits for one of them.
    std::vector<at::Tensor> sums;
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      sums.push_back(sums_of_blocks(cell, keys, grid, i));
    const std::vector<std::vector<float>> on_host = all_on_host<float>(sums);
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      score(on_host[static_cast<std::size_t>(i)], i, choice);
      const std::int64_t first = first_block(grid, cell.softmax, i);
      const std::int64_t count = grid.block_of_query_block(i) + 1 - first;
      for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
        keep({choice.scores.row(head, i) + first, static_cast<std::size_t>(count)},
             choice.mask.row(head, i) + first, choice.forced.row(head, i) + first, first == 0);
    }
    return choice;
  }

 private:
  std::int64_t strides(std::int64_t positions) const { return (positions + stride_ - 1) / stride_; }

  // Kr: the keys with zeros after them to a whole stride, [num_kv_heads, strides, stride * head_dim].
  at::Tensor strided_keys(const Cell& cell) const {
    const std::int64_t dim = cell.k.size(2), count = strides(cell.kv_len());
    at::Tensor keys = cell.k;
    if (const std::int64_t missing = count * stride_ - cell.kv_len(); missing > 0)
      keys = at::constant_pad_nd(keys, {0, 0, 0, missing});
    return keys.view({cell.num_kv_heads(), count, stride_ * dim});
  }

  // W[I, :] of every head, [num_q_heads, blocks up to the query block's own].
  at::Tensor sums_of_blocks(const Cell& cell, const at::Tensor& keys, const BlockGrid& grid,
                            std::int64_t query_block) const {
    const std::int64_t begin = (grid.past_len + grid.row_begin(query_block)) / stride_;
    const std::int64_t end = strides(grid.past_len + grid.row_end(query_block));
    // A product stands for the mean of stride_ logits. The learned sink of a head is left out: it
    // is no such mean.
    SoftmaxForm form = cell.softmax;
    form.scale /= static_cast<double>(stride_);
    form.sink_logits.clear();
    RowSets sets = sets_of(form, strided_queries(cell, begin, end), 0);
    for (std::int64_t a = begin; a < end; ++a) {
      sets.visible.push_back(a + 1);
      if (form.window > 0)
        sets.first.push_back(form.first_visible(std::max(a * stride_, cell.past_len)) / stride_);
    }
    const at::Tensor mass = reduce_probabilities(sets, keys.narrow(1, 0, end), ColumnReduce::Sum);
    return of_blocks(mass, grid.block_of_query_block(query_block) + 1);
  }

  static void score(const std::vector<float>& sums, std::int64_t query_block, BlockChoice& choice) {
    const std::int64_t num_blocks = choice.grid.block_of_query_block(query_block) + 1;
    for (std::int64_t head = 0; head < choice.mask.num_q_heads(); ++head)
      std::copy_n(sums.begin() + head * num_blocks, num_blocks,
                  choice.scores.row(head, query_block));
  }

  // What the strided keys of each block have: of mass [num_q_heads, strides], [num_q_heads, num_blocks].
  at::Tensor of_blocks(const at::Tensor& mass, std::int64_t num_blocks) const {
    const std::int64_t of_block = block_size_ / stride_,
                       missing = num_blocks * of_block - mass.size(1);
    return at::constant_pad_nd(mass, {0, missing})
        .view({mass.size(0), num_blocks, of_block})
        .sum({2}, false, at::kDouble)
        .to(at::kFloat);
  }

  // Qr[a] for a of [begin, end), [num_q_heads, end - begin, stride * head_dim].
  at::Tensor strided_queries(const Cell& cell, std::int64_t begin, std::int64_t end) const {
    const std::int64_t heads = cell.num_q_heads(), dim = cell.q.size(2);
    // Rows of the chunk among the positions of the strides.
    const std::int64_t first = std::max(begin * stride_, cell.past_len);
    const std::int64_t last = std::min(end * stride_, cell.kv_len());
    at::Tensor rows = at::zeros({heads, (end - begin) * stride_, dim}, cell.q.options());
    rows.narrow(1, first - begin * stride_, last - first)
        .copy_(cell.q.narrow(1, first - cell.past_len, last - first));
    return rows.view({heads, end - begin, stride_, dim})
        .flip(2)
        .view({heads, end - begin, stride_ * dim});
  }

  // `scores` of the blocks seen; the last one is the query block's own. The text's first block is
  // kept by rule where it is seen.
  void keep(std::span<const float> scores, std::uint8_t* mask, std::uint8_t* forced,
            bool from_first) const {
    double total = 0;
    for (const float score : scores) total += static_cast<double>(score);
    // Sums of fp32 values that would be equal but for rounding are; all of the mass is all blocks.
    constexpr double kRounding = 2 * double{std::numeric_limits<float>::epsilon()};
    const double required = tau_ * total * (1 - kRounding);
    if (from_first) forced[0] = mask[0] = 1;
    forced[scores.size() - 1] = mask[scores.size() - 1] = 1;
    double held = static_cast<double>(scores.back());
    if (from_first && scores.size() > 1) held += static_cast<double>(scores.front());
    for (const std::int32_t block : ranked(scores, static_cast<std::int64_t>(scores.size()))) {
      if (forced[block] != 0) continue;
      if (tau_ < 1 && held >= required) break;
      mask[block] = 1;
      held += static_cast<double>(scores[block]);
    }
  }

  std::int64_t block_size_, stride_;
  double tau_;
};

}  // namespace

std::unique_ptr<BlockMasker> make_xattention_masker(const Setup& setup) {
  return std::make_unique<XAttention>(setup.spec);
}

std::unique_ptr<Selector> make_xattention(const Setup& setup) {
  return make_block_selector(setup, make_xattention_masker(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it

namespace kvloupe::selection {

std::vector<ParamInfo> xattention_params() {
  ParamInfo block_size =
      int_param("block_size", 128, 1, 1 << 20, "tokens of a block, a multiple of stride");
  block_size.multiple_of = "stride";
  return {block_size,
          int_param("stride", 16, 1, 1 << 12,
                    "tokens of a strided row: one product stands for stride x stride of them"),
          float_param("tau", 0.9, 0, 1,
                      "share of a query block's estimated attention that its blocks must hold")};
}

void describe_xattention(Method& method) {
  method.title = "XAttention";
  method.paper_spec = "xattention:stride=16,tau=0.9,lowering=native";
  method.deviation =
      "in every lowering strides and blocks begin at position 0 and missing queries and keys are "
      "zero (the code pads queries and keys apart, which is right only where the chunk begins on "
      "its "
      "working size); one tau for all heads, no table per head; softmax and sums are not rounded "
      "to "
      "16 bits; no keep_sink or keep_recent; decodes densely; lowering=union is KVLoupe's, after "
      "CompactAttention: a KV head sees the union over the chunk's query blocks and the group's "
      "heads, and the whole chunk, where the kernel runs on each head's own mask; lowering=budget "
      "is "
      "KVLoupe's: whole blocks by mean score";
  method.summary =
      "Samples the attention map along antidiagonals and keeps the fewest blocks that hold a share "
      "tau of it.";
  method.paper =
      "Xu et al.: XAttention: block sparse attention with antidiagonal scoring, 2025, arXiv "
      "2503.16428";
  method.evidence = "repository mit-han-lab/x-attention (xattn/src/Xattention.py, utils.py)";
  method.needs = {"q", "k"};
  method.params = xattention_params();
  add_lowering(method);
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
  };
}

}  // namespace kvloupe::selection

#endif
