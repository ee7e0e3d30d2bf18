// The arithmetic of rotated and sliced keys, in fp32 on raw rows. As in kernels.h, what a key scores
// depends on that key and the query alone.
#pragma once

#include <cstdint>
#include <span>

namespace kvloupe::selection {

// out [num_rows, width]: the first `width` lanes of each row, row * directions, where `directions` is
// [dim, dim] row-major with direction i in column i. A lane is summed over the channels in order.
void rotate_rows(const float* rows, std::int64_t num_rows, const float* directions,
                 std::int64_t dim, std::int64_t width, float* out);

// out[j] = sum over `channels`, ascending, of row[c] * channel c of key first + j, for `num_keys` keys
// in lane tiles of `dim` channels (attention/lane_products.h). Where dim is a multiple of 32, the bits
// are those of dot_products() with a row that is zero in all other channels.
void channel_products(const float* row, std::span<const std::int32_t> channels, std::int64_t dim,
                      const float* tiles, std::int64_t first, std::int64_t num_keys, float* out);

}  // namespace kvloupe::selection
