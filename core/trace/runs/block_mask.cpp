#include "core/trace/runs/block_mask.h"

#include "core/base/error.h"

namespace kvloupe::trace {

std::vector<std::uint8_t> pack_mask(const BlockGrid& grid, std::span<const std::uint8_t> values) {
  const auto blocks = static_cast<std::size_t>(grid.num_key_blocks());
  KVLOUPE_CHECK(blocks > 0 && values.size() % blocks == 0);
  const auto row_bytes = static_cast<std::size_t>(packed_row_bytes(grid));
  const std::size_t rows = values.size() / blocks;
  std::vector<std::uint8_t> packed(rows * row_bytes, 0);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < blocks; ++j) {
      if (values[row * blocks + j] == 0) continue;
      std::uint8_t& byte = packed[row * row_bytes + j / 8];
      byte = static_cast<std::uint8_t>(byte | (1U << (j % 8)));
    }
  }
  return packed;
}

std::vector<std::uint8_t> unpack_mask(const BlockGrid& grid, int num_q_heads,
                                      std::span<const std::uint8_t> packed) {
  KVLOUPE_CHECK(static_cast<std::int64_t>(packed.size()) == packed_mask_bytes(grid, num_q_heads));
  const auto blocks = static_cast<std::size_t>(grid.num_key_blocks());
  const auto row_bytes = static_cast<std::size_t>(packed_row_bytes(grid));
  const auto rows = static_cast<std::size_t>(num_q_heads * grid.num_query_blocks());
  std::vector<std::uint8_t> values;
  values.reserve(rows * blocks);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < blocks; ++j) {
      values.push_back((packed[row * row_bytes + j / 8] >> (j % 8)) & 1U);
    }
  }
  return values;
}

std::vector<std::uint8_t> packed_causal_mask(const BlockGrid& grid, int num_q_heads) {
  const std::int64_t blocks = grid.num_key_blocks(), queries = grid.num_query_blocks();
  std::vector<std::uint8_t> values(static_cast<std::size_t>(num_q_heads * queries * blocks), 0);
  for (std::int64_t row = 0; row < num_q_heads * queries; ++row) {
    const std::int64_t last = grid.block_of_query_block(row % queries);
    std::fill_n(values.begin() + row * blocks, last + 1, std::uint8_t{1});
  }
  return pack_mask(grid, values);
}

std::vector<std::int32_t> block_table(const BlockGrid& grid,
                                      std::span<const std::int32_t> selected) {
  std::vector<std::int32_t> table;
  for (const std::int32_t position : selected) {
    const auto block = static_cast<std::int32_t>(position / grid.block_size);
    if (block >= grid.num_past_blocks()) break;
    if (table.empty() || table.back() != block) table.push_back(block);
  }
  for (std::int64_t j = grid.num_past_blocks(); j < grid.num_key_blocks(); ++j) {
    table.push_back(static_cast<std::int32_t>(j));
  }
  return table;
}

}  // namespace kvloupe::trace
