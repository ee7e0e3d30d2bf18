// The work of attention on the CPU, cut into blocks of query rows. The query heads of a group are
// folded into rows (they are neighbours in q and share one KV head): K and V are then read once for
// all of them. The cut depends on shapes alone, never on the number of threads, so that the bits of
// a result do not either.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe::attention {

// Keys that lie one after the other in memory.
struct KeySegment {
  const float* k = nullptr;  // [count, width of the queries], or the lane tile of the first one
  const float* v = nullptr;  // [count, head_dim]; null when no output is wanted
  std::int64_t count = 0;
  std::int64_t tile_offset = 0;  // of the first key in its lane tile
};

// The keys that the rows of one KV head (or of some of its query heads) attend to, read where they
// lie: first `past` keys seen by every row, then the chunk's m keys, of which row t sees 0 .. t.
struct KeyView {
  std::vector<KeySegment> segments;  // past + m keys together
  std::int64_t past = 0;
  // [m] 1 where later rows of the chunk may see the key too; null: all of them. A row always sees
  // its own key.
  const std::uint8_t* shared = nullptr;
  // Where the softmax of the rows is not plain (base/softmax_form.h):
  std::vector<std::int64_t> first_visible = {};  // [m] row t sees nothing before this key of the
                                                 // view; empty: all
  const float* sink_logits = nullptr;            // of the view's query heads; null: none
  float softcap = 0;
  std::int64_t num_lanes = 0;  // of the lane tiles that hold the keys; 0: they are plain rows
};

// A block's queries: whole rows, which multiply all of a key, or rows that use some lanes of keys in
// lane tiles. Keys may be narrower than values are.
struct QueryRows {
  const float* values = nullptr;        // [rows, width]
  std::int64_t width = 0;               // of rows of keys; of lanes: how many a row uses
  const std::int32_t* lanes = nullptr;  // [rows, width], lane_products.h; null: whole rows
};

struct RowBlockOutputs {
  float* output = nullptr;       // [rows, head_dim of the values]; null when not wanted
  float* lse = nullptr;          // [rows]; may be null
  float* column_sums = nullptr;  // [padded(past + m)] of probabilities, added to; may be null
};

// A tile of scores, kBlockRows x kTileKeys, stays in the second-level cache from its product with K
// over the softmax to its product with V.
inline constexpr std::int64_t kBlockRows = 192;
inline constexpr std::int64_t kTileKeys = 512;

// out[i] = rows[positions[i]] for `count` rows of `dim` floats: keys or values side by side.
void copy_rows(const float* rows, const std::int32_t* positions, std::int64_t count,
               std::int64_t dim, float* out);

// Floats of scratch that attend_row_block needs. Column sums need the final log-sum-exp of each
// row, so all of a block's tiles are kept then: they are read once more, but nothing is computed
// twice.
std::int64_t scratch_floats(std::int64_t num_keys, bool want_column_sums);

// Attention of `rows` (at most kBlockRows) folded rows that start at folded row `first_row`.
// `scratch` is 64-byte aligned.
void attend_row_block(const QueryRows& q, std::int64_t first_row, std::int64_t rows,
                      std::int64_t chunk_len, std::int64_t head_dim, float scale,
                      const KeyView& keys, float* scratch, const RowBlockOutputs& outputs);

// Folded rows [begin, end) of one view (of a KV head, say) in blocks of `block_rows`, done by one
// thread from first to last.
struct RowSpan {
  std::int64_t view = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t block_rows = 0;
};
// A power of two of equal blocks a view, which few threads share evenly whatever the number of
// views; and few spans: each span has its own column sums, added up in order afterwards.
std::vector<RowSpan> cut_rows(std::int64_t num_views, std::int64_t rows_per_view);

}  // namespace kvloupe::attention
