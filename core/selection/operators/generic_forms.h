// The operators of operators.h in tensor algebra, for any device: what they mean, and the oracle of the
// fused forms. Memory is bounded by the rows and keys of one KV head where both meet.
#pragma once

#include "core/selection/operators/cpu_forms.h"

namespace kvloupe::selection::generic {

using at::Tensor;
using cpu::MaybeTensor;

// Each takes and gives what the fused form of its name does.
decltype(cpu::keep_best_rows) keep_best_rows;
decltype(cpu::ranked_rows) ranked_rows;
decltype(cpu::query_relevance) query_relevance;
decltype(cpu::score_keys) score_keys;
decltype(cpu::difference_scores) difference_scores;
decltype(cpu::key_products) key_products;
decltype(cpu::reduce_probabilities) reduce_probabilities;
decltype(cpu::joint_softmax_sums) joint_softmax_sums;
decltype(cpu::columns_and_slashes) columns_and_slashes;
decltype(cpu::page_bounds) page_bounds;
decltype(cpu::page_scores) page_scores;
decltype(cpu::block_means) block_means;
decltype(cpu::rotate_rows) rotate_rows;
decltype(cpu::largest_lanes) largest_lanes;
decltype(cpu::store_lanes) store_lanes;
decltype(cpu::load_lanes) load_lanes;
decltype(cpu::channel_products) channel_products;
decltype(cpu::gate_rows) gate_rows;

}  // namespace kvloupe::selection::generic
