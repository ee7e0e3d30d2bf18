// XAttention: strided antidiagonal sums of query-key products stand for attention; each query block
// keeps the fewest blocks that hold tau of it.
//   Qr[a] = concat over u < S of q[a S + S-1-u],  Kr[n] = concat of k[n S + u]   positions not in the
//           chunk (queries) or not before its end (keys) are zero
//   e[a,n] = softmax_scale <Qr[a], Kr[n]> / S,  n <= a;   A[a,:] = softmax over n
//   W[I,j] = sum of A over the strided rows of query block I and the strided keys of block j
//   keep[I,:] = {0, I}, then others by falling W while the mass kept, those two first, is below
//               tau sum_j W[I,j]
// (mit-han-lab/x-attention, xattn/src/Xattention.py and utils.py.)
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/selection/block_selector.h"
#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"
#include "core/selection/ranking.h"

#include <algorithm>
#include <limits>
#include <utility>

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
    const std::vector<std::vector<float>> padded = padded_keys(cell);
    const std::int64_t query_blocks = grid.num_query_blocks();
    const std::int64_t operations =
        std::max(kRowBlock, block_size_ / stride_) * cell.kv_len() * cell.k.size(2);
    for_each_item(cell.num_q_heads() * query_blocks, operations, [&](std::int64_t item) {
      const std::int64_t head = item / query_blocks;
      const std::int64_t query_block = item % query_blocks;
      float* scores = choice.scores.row(head, query_block);
      const std::int64_t kv_head = head / cell.gqa_group_size();
      score(cell, grid, padded[kv_head].empty() ? keys_of(cell, kv_head) : padded[kv_head].data(),
            head, query_block, scores);
      const std::int64_t first = first_block(grid, cell.softmax, query_block);
      const std::int64_t count = grid.block_of_query_block(query_block) + 1 - first;
      keep({scores + first, static_cast<std::size_t>(count)},
           choice.mask.row(head, query_block) + first, choice.forced.row(head, query_block) + first,
           first == 0);
    });
    return choice;
  }

 private:
  std::int64_t strides(std::int64_t positions) const { return (positions + stride_ - 1) / stride_; }

  // Per KV head the keys with zeros after them to a whole stride; nothing where none are missing.
  std::vector<std::vector<float>> padded_keys(const Cell& cell) const {
    std::vector<std::vector<float>> padded(static_cast<std::size_t>(cell.num_kv_heads()));
    if (cell.kv_len() % stride_ == 0) return padded;
    const std::int64_t dim = cell.k.size(2);
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head) {
      const float* keys = keys_of(cell, head);
      padded[head].assign(keys, keys + cell.kv_len() * dim);
      padded[head].resize(static_cast<std::size_t>(strides(cell.kv_len()) * stride_ * dim), 0.0F);
    }
    return padded;
  }

  // W[I, :] of one head.
  void score(const Cell& cell, const BlockGrid& grid, const float* keys, std::int64_t head,
             std::int64_t query_block, float* scores) const {
    const std::int64_t width = stride_ * cell.q.size(2);
    const std::int64_t begin = (grid.past_len + grid.row_begin(query_block)) / stride_;
    const std::int64_t end = strides(grid.past_len + grid.row_end(query_block));
    const std::vector<float> queries = strided_queries(cell, head, begin, end);
    // A product stands for the mean of stride_ logits. The learned sink of a head has no place among
    // such means.
    SoftmaxForm form = cell.softmax;
    form.scale /= static_cast<double>(stride_);
    form.sink_logits.clear();
    ChunkRows rows;
    for (std::int64_t a = begin; a < end; ++a) {
      const std::int64_t first_row = std::max(a * stride_, cell.past_len);
      rows.add(queries.data() + (a - begin) * width, form, head,
               form.first_visible(first_row) / stride_, a + 1);
    }
    std::vector<float> mass(static_cast<std::size_t>(end), 0.0F);
    reduce_probabilities(pack_rows(rows.pointers, width), rows.visible, keys, end,
                         rows.softmax(form), ColumnReduce::Sum, mass.data());
    const std::int64_t strides_per_block = block_size_ / stride_;
    std::vector<double> sums(static_cast<std::size_t>(grid.num_key_blocks()), 0.0);
    for (std::int64_t n = 0; n < end; ++n)
      sums[n / strides_per_block] += static_cast<double>(mass[n]);
    for (std::size_t j = 0; j < sums.size(); ++j) scores[j] = static_cast<float>(sums[j]);
  }

  // Qr[a] for a of [begin, end).
  std::vector<float> strided_queries(const Cell& cell, std::int64_t head, std::int64_t begin,
                                     std::int64_t end) const {
    const std::int64_t dim = cell.q.size(2);
    std::vector<float> queries(static_cast<std::size_t>((end - begin) * stride_ * dim), 0.0F);
    for (std::int64_t a = begin; a < end; ++a)
      for (std::int64_t u = 0; u < stride_; ++u) {
        const std::int64_t row = a * stride_ + stride_ - 1 - u - cell.past_len;
        if (row < 0 || row >= cell.chunk_len) continue;
        std::copy_n(query_row(cell, head, row), dim,
                    queries.data() + ((a - begin) * stride_ + u) * dim);
      }
    return queries;
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
  return make_block_selector(setup.spec, row_layout(setup.spec, setup.shape),
                             make_xattention_masker(setup));
}

}  // namespace kvloupe::selection

#else  // what is known of it

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

Method xattention_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "xattention";
  info.title = "XAttention";
  info.paper =
      "Xu et al.: XAttention: block sparse attention with antidiagonal scoring, 2025, arXiv "
      "2503.16428";
  info.evidence = "repository mit-han-lab/x-attention (xattn/src/Xattention.py, utils.py)";
  info.deviation =
      "a KV head sees the union over the chunk's query blocks and the group's heads, and the whole "
      "chunk, where the kernel runs on each head's own mask (so does lowering=native); true "
      "positions: strides and blocks "
      "begin at position 0 and missing queries and keys are zero (the code pads queries and keys "
      "apart, which is right only where the chunk begins on its working size); one tau for all "
      "heads, no table per head; softmax and sums are not rounded to 16 bits; no keep_sink or "
      "keep_recent; decodes densely; with lowering=budget whole blocks by mean score";
  info.summary =
      "Samples the attention map along antidiagonals and keeps the fewest blocks that hold a share "
      "tau of it.";
  info.needs = {"q", "k"};
  info.granularity = trace::Granularity::Block;
  info.budget = BudgetUse::Optional;
  info.active_in_decode = false;
  info.params = xattention_params();
  info.params.push_back(lowering_param());
  method.traits = [](const MethodSpec& spec, Traits& traits) {
    traits.page_size = spec.integer("block_size");
  };
  return method;
}

}  // namespace kvloupe::selection

#endif
