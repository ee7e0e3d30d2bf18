// Attention of rows of queries over lists of keys on the GPU, dense, gathered, paged and block-sparse
// alike: what differs is the list. Output and row log-sum-exp in one pass over the keys that are listed,
// where they lie. fp32 by multiply-adds, fp16 and bf16 on tensor cores with sums and softmax in fp32; no
// atomics: the same input gives the same bits on the same model of device. No Torch header here. What a
// softmax is: core/base/softmax_form.h.
#pragma once

#include "core/cuda/number_types.h"

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace kvloupe::cuda {

// What some rows attend to: keys of the past, then keys of their own, which stand where the queries
// stand and are seen causally. Past and own keys together are counted 0, 1, ...
struct KeyView {
  int kv_head = 0;
  int first_row = 0;  // the rows are consecutive ones of q
  int num_rows = 0;
  int num_queries = 0;  // row r of the view is query r % num_queries
  int own_begin = 0;    // position of query 0; there are num_queries own keys from here on
  int past_keys = 0;
  int past_list =
      -1;  // where in the table the numbers of the past's blocks begin, ascending, all but
           // the last of them whole; -1: the past is the run of keys from past_begin on
  int past_begin = 0;  // position
  int packed_rows =
      -1;           // K and V hold the view's keys one after the other, from this row on; -1: each
                    // key lies at its position
  int shared = -1;  // where in the table the own keys' flags begin: whether later queries see the
                    // key; -1: they see all
};

struct RowAttention {
  NumberType type = NumberType::Fp32;  // of q, k, v and output
  const void* q = nullptr;             // [num_rows, head_dim]: heads, and in them queries
  const void* k = nullptr;  // [num_kv_heads, keys, head_dim], heads k_head_stride numbers apart
  const void* v = nullptr;  // the same, heads v_head_stride apart; null: log-sum-exp alone
  std::int64_t k_head_stride = 0;
  std::int64_t v_head_stride = 0;
  int num_rows = 0;
  int chunk_len = 0;  // m: rows of a query head
  int head_dim = 0;   // at most kMaxHeadDim

  const KeyView* views = nullptr;  // [num_views], in which every row is once; null: dense, as below
  const int* table = nullptr;
  int block_size = 1;
  int num_views = 0;
  int most_rows = 0;  // of a view
  int most_keys = 0;  // of a view, or an upper bound; dense: those that the window leaves
  int kv_len = 0;     // dense only

  float scale = 1;
  float softcap = 0;             // 0: none
  int window = 0;                // 0: none
  const float* sinks = nullptr;  // [num_rows / chunk_len], or null

  void* output = nullptr;    // [num_rows, head_dim], where there is v
  float* lse = nullptr;      // [num_rows], or null
  float* scratch = nullptr;  // scratch_floats of them
};

// Dense attention of a chunk: query heads of a KV head are one view, which sees all of the cache of
// kv_len keys. Sets the fields that say so; num_rows, chunk_len and window are set before.
void make_dense(RowAttention* problem, int num_kv_heads, int kv_len);

inline constexpr int kMaxHeadDim = 256;

// Where few rows meet many keys, the keys are cut into parts that fill the device, and what they give is
// put together. For the current device, as the launch must be.
std::size_t scratch_floats(const RowAttention& problem);

cudaError_t launch_row_attention(const RowAttention& problem, cudaStream_t stream);

}  // namespace kvloupe::cuda
