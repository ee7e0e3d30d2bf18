// The CPU implementations of the operators. Shapes were checked before.
#pragma once

#include "core/attention/operators.h"
#include "core/attention/row_block.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace kvloupe::attention::cpu {

op::ChunkAttention chunk_attention;
op::ChunkMass chunk_mass;
op::AttentionRows attention_rows;
op::GatherKeys gather_keys;
op::AttendGathered attend_gathered;
op::GatheredAttention gathered_attention;
op::KeptAttention kept_attention;
op::PagedAttention paged_attention;
op::BlockSparseAttention block_sparse_attention;
op::LaneAttention lane_attention;
// k: lane tiles, of which each KV head begins one of its own.
op::GatherLanes gather_lanes;
op::AttendGatheredLanes attend_gathered_lanes;
op::GatheredLaneMass gathered_lane_mass;

// What all of them are built from.

// A view of a cache is used where it lies: only the head stride may be larger than one head.
at::Tensor contiguous_per_head(const at::Tensor& tensor);
const float* head_data(const at::Tensor& tensor, std::int64_t head);

// Items [0, count) for all threads, each of which runs `work` once and takes item after item:
// unequal items keep all threads busy. An item's result must not depend on who does it.
using NextItem = std::function<std::optional<std::int64_t>()>;
void share_out(std::int64_t count, const std::function<void(const NextItem&)>& work);

// What of `softmax` the rows of a view of `num_heads` query heads from `first_head` on need beside its
// scale. The view must not outlive `softmax`. Its rows stand at the positions from `first_row` on;
// keys_before(p) counts the keys of the view before position p, and is asked for rising ones.
template <typename KeysBefore>
void shape_view(const SoftmaxForm& softmax, std::int64_t first_head, std::int64_t first_row,
                std::int64_t num_rows, const KeysBefore& keys_before, KeyView* view) {
  view->softcap = static_cast<float>(softmax.softcap);
  if (!softmax.sink_logits.empty()) view->sink_logits = softmax.sink_logits.data() + first_head;
  for (std::int64_t t = 0; t < num_rows && softmax.window > 0; ++t)
    view->first_visible.push_back(keys_before(softmax.first_visible(first_row + t)));
}

// The same for the rows of a chunk over gathered keys, whose positions these are: the chunk's last.
void shape_gathered_view(const SoftmaxForm& softmax, std::int64_t first_head,
                         const std::int32_t* positions, std::int64_t count, std::int64_t chunk_len,
                         KeyView* view);

// Queries that multiply all of a key: values [num_q_heads, m, width of the keys]; or some lanes of
// it: lanes int32 of the same shape. Contiguous.
struct Queries {
  at::Tensor values;
  at::Tensor lanes = {};
};

struct Results {
  at::Tensor output, lse;  // those that are wanted
  at::Tensor span_sums;    // [spans, padded(keys)]
};

// The query heads are shared out evenly over the views, in order; a view is what the folded rows
// of its heads attend to.
void attend_views(const Queries& q, double scale, const std::vector<KeyView>& views,
                  const std::vector<RowSpan>& spans, Results* results);

// Room for the column sums of the spans over `num_keys` keys.
at::Tensor room_for_sums(const std::vector<RowSpan>& spans, std::int64_t num_keys,
                         const at::Tensor& like);

}  // namespace kvloupe::attention::cpu
