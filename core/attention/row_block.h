// The work of attention on the CPU, cut into blocks of query rows. The query heads of a group are
// folded into rows (they are neighbours in q and share one KV head): K and V are then read once for
// all of them. The cut depends on shapes alone, never on the number of threads, so that the bits of
// a result do not either.
#pragma once

#include <cstdint>
#include <vector>

namespace kvloupe::attention {

// The keys that the rows of one KV head attend to: first `past` keys seen by every row, then the
// chunk's m keys, of which row t sees 0 .. t.
struct KeyView {
  const float* k = nullptr;  // [past + m, head_dim]
  const float* v = nullptr;  // the same; null when no output is wanted
  std::int64_t past = 0;
  // [m] 1 where later rows of the chunk may see the key too; null: all of them. A row always sees
  // its own key.
  const std::uint8_t* shared = nullptr;
};

struct RowBlockOutputs {
  float* output = nullptr;       // [rows, head_dim]; null when v is null
  float* lse = nullptr;          // [rows]; may be null
  float* column_sums = nullptr;  // [padded(past + m)], added to; may be null
};

// Attention of `rows` folded rows that start at folded row `first_row`. `scores` is a tile of at
// least rows * padded(past + m) floats, 64-byte aligned.
void attend_row_block(const float* q, std::int64_t first_row, std::int64_t rows,
                      std::int64_t chunk_len, std::int64_t head_dim, float scale,
                      const KeyView& keys, float* scores, const RowBlockOutputs& outputs);

// A tile of this many rows over a few thousand keys stays in the second-level cache.
inline constexpr std::int64_t kBlockRows = 64;

// Folded rows [begin, end) of one KV head, done by one thread from first to last.
struct RowSpan {
  std::int64_t kv_head = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
// Few spans a KV head: each span has its own column sums, added up in order afterwards.
std::vector<RowSpan> cut_rows(std::int64_t num_kv_heads, std::int64_t rows_per_kv_head);

}  // namespace kvloupe::attention
