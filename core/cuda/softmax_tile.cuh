// Products of rows and keys for a softmax, a tile of kTileKeys keys and 16 or 64 rows at a time.
// Channels come to shared memory in slices, the next one while this one is multiplied: so rows may be
// of any width. A thread has every kRowGroups-th row and every kKeyLanes-th key of a tile: 32 products
// of 8 rows and 4 keys take 12 reads of 16 bytes for each 16 bytes of channels. A product is summed
// over the channels in ascending order, whatever the type.
#pragma once

#include "core/cuda/row_tile.cuh"
#include "core/cuda/softmax_rows.cuh"

namespace kvloupe::cuda {

inline constexpr int kKeyLanes = 16, kRowGroups = kThreads / kKeyLanes;
inline constexpr int kKeysOfLane = kTileKeys / kKeyLanes;
// Rows of a block.
inline constexpr int kFewRows = 16, kManyRows = 64;

// Form<T, rows of a block>::start() for the problem's type and the rows of a KV head.
template <template <typename, int> typename Form, typename... Arguments>
cudaError_t for_type_and_rows(const Probabilities& p, const Arguments&... arguments) {
  return with_number_of(p.type, [&](auto number) {
    using T = decltype(number);
    return p.sets_of_head() * p.rows <= kFewRows ? Form<T, kFewRows>::start(arguments...)
                                                 : Form<T, kManyRows>::start(arguments...);
  });
}

template <typename T>
inline constexpr int kSlice = 128 / sizeof(T);

// Of this slice and the next one.
template <typename T, int kRows>
struct Slices {
  Row<T, kSlice<T>> rows[2][kRows], keys[2][kTileKeys];
};

__device__ inline int group_of_thread() { return static_cast<int>(threadIdx.x) / kKeyLanes; }
__device__ inline int key_of_lane(int j) {
  return static_cast<int>(threadIdx.x) % kKeyLanes + j * kKeyLanes;
}
__device__ inline int row_of_group(int i) { return group_of_thread() + i * kRowGroups; }

// sums[i][j] += the slice's part of the product of row row_of_group(i) and key key_of_lane(j).
template <typename T, int kRows>
__device__ void multiply(const Row<T, kSlice<T>>* rows, const Row<T, kSlice<T>>* keys,
                         float (&sums)[kRows / kRowGroups][kKeysOfLane]) {
  constexpr int kAtOnce = 16 / sizeof(T);
#pragma unroll 2
  for (int c = 0; c < kSlice<T>; c += kAtOnce) {
    float key[kKeysOfLane][kAtOnce];
#pragma unroll
    for (int j = 0; j < kKeysOfLane; ++j) load_widened(keys[key_of_lane(j)].values + c, key[j]);
#pragma unroll
    for (int i = 0; i < kRows / kRowGroups; ++i) {
      float row[kAtOnce];
      load_widened(rows[row_of_group(i)].values + c, row);
#pragma unroll
      for (int j = 0; j < kKeysOfLane; ++j)
#pragma unroll
        for (int n = 0; n < kAtOnce; ++n) sums[i][j] = fmaf(row[n], key[j][n], sums[i][j]);
    }
  }
}

// Rows, of all sets together, and keys where a tile begins; no row from `end_row` on is of it.
struct TilePlace {
  int row, end_row, key;
};

// Calls work(place, products) for the tiles at place(0), place(1), ... of a KV head, in each thread with
// its own products.
template <typename T, int kRows, typename Place, typename Work>
__device__ void for_each_tile(const SoftmaxLaunch& launch, int head, int tiles, const Place& place,
                              Slices<T, kRows>& slices, const Work& work) {
  const Probabilities& p = launch.problem;
  const T* queries = static_cast<const T*>(p.queries);
  const T* keys = static_cast<const T*>(p.keys) + head * p.key_head_stride;
  const int slices_of_tile = (p.width + kSlice<T> - 1) / kSlice<T>;
  const auto fetch = [&](int step) {
    const TilePlace at = place(step / slices_of_tile);
    const int channel = step % slices_of_tile * kSlice<T>, width = p.width - channel;
    load_tile(slices.rows[step % 2], queries + channel, p.width, width, launch.aligned,
              [&](int i) { return at.row + i < at.end_row ? at.row + i : -1; });
    load_tile(slices.keys[step % 2], keys + channel, p.width, width, launch.aligned,
              [&](int i) { return at.key + i < p.num_keys ? at.key + i : -1; });
  };
  fetch(0);
  for (int tile = 0, step = 0; tile < tiles; ++tile) {
    float products[kRows / kRowGroups][kKeysOfLane] = {};
    for (int slice = 0; slice < slices_of_tile; ++slice, ++step) {
      __pipeline_wait_prior(0);
      __syncthreads();  // the slice is there, the one before is no longer read
      if (step + 1 < tiles * slices_of_tile) fetch(step + 1);
      multiply<T, kRows>(slices.rows[step % 2], slices.keys[step % 2], products);
    }
    work(place(tile), products);
  }
}

// The keys that a row of all sets sees.
struct SeenKeys {
  int begin, end;
  __device__ bool has(int key) const { return begin <= key && key < end; }
};
__device__ inline SeenKeys keys_seen(const Probabilities& p, int row) {
  const int of_set = row % p.rows;
  return {p.first != nullptr ? p.first[of_set] : 0, min(p.visible[of_set], p.num_keys)};
}

}  // namespace kvloupe::cuda
