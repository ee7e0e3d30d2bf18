// Chunk attention over whole blocks of a KV cache. The CPU reads them where they lie, without a copy of
// K or V; the generic form gathers them, a row or a query block at a time.
// Shapes as in attention.h: q [num_q_heads, m, head_dim]; k, v [num_kv_heads, T, head_dim], where
// heads may lie further apart than T positions; the m queries are the last m positions, P = T - m.
// Beside gathered_chunk_attention (a copy of the kept KVs, then attention) these are the two ways
// to execute a block mask (CompactAttention, sections 3.3 and 4.4 of its paper):
//   paged         what rows of query heads share, as tables: dense products over their blocks
//   block-sparse  what each query head's query block attends to, as the mask says
// Operators kvloupe::paged_attention and kvloupe::block_sparse_attention.
// `softmax` and devices as in attention.h; masks lie on the host. Errors: as there; Error{Internal} for tables or masks that contradict
// each other.
#pragma once

#include "core/attention/block_tables.h"
#include "core/base/softmax_form.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace kvloupe::attention {

// Every query of a row attends to the past tokens of the pages in the row's table and, causally, to
// the chunk, which is open: whether the table lists the chunk's pages makes no difference. A page
// that straddles the chunk's begin shows its past tokens to all queries if the table lists it, and
// else to none. Softmax over what is attended to. Returns output [num_q_heads, m, head_dim]; its
// bits do not depend on the number of threads.
at::Tensor paged_chunk_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const SoftmaxForm& softmax, const BlockTables& tables);

// Causal attention in blocks. `mask` uint8 [num_q_heads, Q_b, N_b]: 1 where the query block attends
// to the key block. Key blocks start at position 0; query blocks are the chunk cut at multiples of
// block_size from position 0, the first of them at block floor(P / block_size). Every query block
// attends to the block that it lies in, and to none after it. Returns output as above.
at::Tensor block_sparse_chunk_attention(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& v, const SoftmaxForm& softmax,
                                        std::int64_t block_size, const at::Tensor& mask);

}  // namespace kvloupe::attention
