// MInference: each query head has a pattern, found offline; the chunk's last queries say where it
// lies. p: causal softmax of the last n = min(64, m) rows over [0, T).
//   vertical_and_slash  vertical[j] = sum of p[i,j], the first 30 keys before all; the best
//                       min(T, max(v, 30)) columns. slash[o] = sum of p[i,i-o], distances 0..99
//                       before all; the best min(T, max(s, 50)). Over the rows of a chunk distance o
//                       covers the keys [P-o, P+m-1-o].
//   stream_llm          the first v keys and the distances below s
//   block_sparse        in blocks of 64, for each query block the best 100 blocks J <= I by
//                       <mean query of I, mean key of J>
// (MInference 1.0, section 3 and Algorithms 1 to 3; microsoft/MInference,
// minference/modules/minference_forward.py, ops/block_sparse_flash_attention.py.)
#include "core/selection/spec/method.h"

#ifdef KVLOUPE_SELECTORS  // compiled with Torch: how it selects
#include "core/selection/blocks/attention_patterns.h"
#include "core/selection/blocks/block_means.h"
#include "core/selection/blocks/block_selector.h"
#include "core/selection/cell_rows.h"

namespace kvloupe::selection {
namespace {

class MInference final : public BlockMasker {
 public:
  explicit MInference(const Setup& setup)
      : config_(read_patterns(setup.spec.text("config"), setup.shape)),
        ablation_(setup.ablation),
        means_(kBlockSizeOfPatterns) {}

  BlockChoice choose(const Cell& cell) override {
    const BlockGrid grid = grid_of(cell, kBlockSizeOfPatterns);
    BlockChoice choice(grid, cell.num_q_heads());
    choice.past_keys.resize(static_cast<std::size_t>(cell.num_q_heads()));
    choice.forced_keys.resize(static_cast<std::size_t>(cell.num_q_heads()));
    const at::Tensor key_means = means_.of(cell);
    const std::vector<ObservedAttention> observed = observe_attention(cell, ablation_);
    const auto products = block_products(cell, grid, key_means, heads_of_blocks(cell));
    const auto decide = [&](std::int64_t head) {
      const HeadPattern pattern = pattern_of(config_, cell.layer, head);
      score(observed[head], head, choice);
      if (pattern.type == PatternType::BlockSparse)
        keep_blocks(products[static_cast<std::size_t>(head)], cell.softmax, head, choice);
      else
        keep_lines(lines_of(pattern, observed[head]), head, choice);
    };
    for_each_item_on(cell.k.device(), cell.num_q_heads(), 64 * cell.kv_len(), decide);
    return choice;
  }

  // The other patterns ask all rows, or none.
  std::vector<std::vector<std::int32_t>> sampled_rows(const Cell& cell) override {
    auto rows = in_every_head(cell, {});
    for (std::size_t head = 0; head < rows.size(); ++head)
      if (pattern_of(config_, cell.layer, static_cast<std::int64_t>(head)).type ==
          PatternType::VerticalSlash)
        rows[head] = observed_rows(cell, ablation_);
    return rows;
  }

 private:
  std::vector<std::int64_t> heads_of_blocks(const Cell& cell) const {
    std::vector<std::int64_t> heads;
    for (std::int64_t head = 0; head < cell.num_q_heads(); ++head)
      if (pattern_of(config_, cell.layer, head).type == PatternType::BlockSparse)
        heads.push_back(head);
    return heads;
  }

  // What lowering=budget ranks by, in every pattern: the mean over the observed rows of the
  // attention that the block receives.
  static void score(const ObservedAttention& observed, std::int64_t head, BlockChoice& choice) {
    const BlockGrid& grid = choice.grid;
    std::vector<double> sums(static_cast<std::size_t>(grid.num_key_blocks()), 0.0);
    for (std::int64_t key = 0; key < grid.kv_len(); ++key)
      sums[key / kBlockSizeOfPatterns] += static_cast<double>(observed.columns[key]);
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      for (std::int64_t j = 0; j <= grid.block_of_query_block(i); ++j)
        choice.scores.row(head, i)[j] =
            static_cast<float>(sums[j] / static_cast<double>(observed.num_rows));
  }

  static void keep_lines(const PatternLines& lines, std::int64_t head, BlockChoice& choice) {
    const BlockGrid& grid = choice.grid;
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      const std::vector<std::uint8_t> keys =
          covered_keys(lines, grid, grid.row_begin(i), grid.row_end(i));
      std::uint8_t* mask = choice.mask.row(head, i);
      std::uint8_t* forced = choice.forced.row(head, i);
      for (std::int64_t key = 0; key < grid.past_len + grid.row_end(i); ++key) {
        mask[key / kBlockSizeOfPatterns] |= keys[key] != 0;
        forced[key / kBlockSizeOfPatterns] |= keys[key] == 2;
      }
    }
    const std::vector<std::uint8_t> keys = covered_keys(lines, grid, 0, grid.chunk_len);
    for (std::int64_t key = 0; key < grid.past_len; ++key) {
      if (keys[key] != 0) choice.past_keys[head].push_back(static_cast<std::int32_t>(key));
      if (keys[key] == 2) choice.forced_keys[head].push_back(static_cast<std::int32_t>(key));
    }
  }

  static void keep_blocks(const std::vector<std::vector<float>>& products,
                          const SoftmaxForm& softmax, std::int64_t head, BlockChoice& choice) {
    const BlockGrid& grid = choice.grid;
    std::vector<std::uint8_t> kept(static_cast<std::size_t>(grid.num_key_blocks()), 0);
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i)
      for (const std::int32_t j : best_blocks(products, grid, softmax, i)) {
        choice.mask.row(head, i)[j] = 1;
        kept[j] = 1;
      }
    for (std::int64_t key = 0; key < grid.past_len; ++key)
      if (kept[key / kBlockSizeOfPatterns] != 0)
        choice.past_keys[head].push_back(static_cast<std::int32_t>(key));
  }

  PatternConfig config_;
  Ablation ablation_;
  BlockMeans means_;
};

}  // namespace

std::unique_ptr<Selector> make_minference(const Setup& setup) {
  return make_block_selector(setup, std::make_unique<MInference>(setup));
}

}  // namespace kvloupe::selection

#else  // compiled without Torch: what is known of it
#include "core/selection/blocks/blocks.h"

namespace kvloupe::selection {

void describe_minference(Method& method) {
  method.title = "MInference";
  method.paper_spec = "minference:config=PATH,lowering=native";
  method.deviation =
      "in every lowering the chunk's last 64 rows are observed, over all keys (the repository has "
      "no "
      "chunked prefill); among the columns and diagonals kept by rule the best come first where "
      "not "
      "all of them fit (in the code they are equal); block_sparse pools the chunk's own rows and "
      "real keys in blocks from position 0 (the code fills up with zeros); decodes densely; with "
      "lowering=native each query block reads whole blocks of 64 wherever its columns and "
      "diagonals "
      "lie (the code reads the columns apart); lowering=union is KVLoupe's, after "
      "CompactAttention: "
      "a KV head sees the union of its group's heads, key by key, and the whole chunk, and a "
      "diagonal covers the keys that it meets in any of the chunk's rows; lowering=budget is "
      "KVLoupe's: whole blocks of 64 by the attention that the observed rows give them, in every "
      "pattern";
  method.summary =
      "Keeps the columns and diagonals of the attention map that the chunk's last queries look at, "
      "as many as the head's pattern allows.";
  method.paper =
      "Jiang et al.: MInference 1.0: accelerating pre-filling for long-context LLMs via dynamic "
      "sparse attention, 2024, arXiv 2407.02490";
  method.evidence =
      "repository microsoft/MInference (minference/modules/minference_forward.py, "
      "vertical_and_slash_kernel; minference/ops/block_sparse_flash_attention.py, "
      "streaming_kernel.py; minference/configs)";
  method.needs = {"q", "k"};
  method.params = {path_param("config",
                              "JSON file with the pattern of each layer and query head, made "
                              "by kvloupe calibrate minference or published, where a head left "
                              "out has 1000 columns and 6096 diagonals")};
  add_lowering(method);
  method.traits = [](const MethodSpec&, Traits& traits) {
    traits.page_size = kBlockSizeOfPatterns;
    traits.samples_rows = true;
  };
}

}  // namespace kvloupe::selection

#endif
