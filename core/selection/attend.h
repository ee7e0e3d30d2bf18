// The attention that a model computes when it attends to what a method selected.
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::selection {

// Output [num_q_heads, m, head_dim], softmax renormalised over the selected keys and the chunk
// (scope `all`: the selected and each query's own), with pruned lanes and reassigned positions
// where the method has them. Whole pages and blocks are read where they lie, single keys are copied
// together; where `selection` reads its masks, each query block reads the blocks of its own.
// `selection` may be dense. Throws Error{Input} for rotary scaling that cannot be redone, and as
// masks_of() and mask_of() do.
at::Tensor attend_selected(const MethodSpec& spec, const trace::ModelInfo& model, const Cell& cell,
                           const RowLayout& layout, const CellSelection& selection);

// Of each row, as gathering takes them.
std::vector<std::vector<std::int32_t>> kept_positions(const CellSelection& selection);

// The masks of a cell that reads them. Throws Error{Input} for a recorded one without.
const trace::BlockMasks& masks_of(const trace::CellRecord& record);
// As block-sparse attention takes them: uint8 [num_q_heads, Q_b, N_b] in the memory of `masks`.
// Throws Error{Input} where a query block leaves out its own block or keeps a later one.
at::Tensor mask_of(const trace::BlockMasks& masks);

}  // namespace kvloupe::selection
