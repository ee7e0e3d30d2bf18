// The attention that a model computes when it attends to what a method selected.
#pragma once

#include "core/selection/selector.h"

#include <ATen/core/Tensor.h>

namespace kvloupe::selection {

// All keys at hand are attended to in this cell: it is dense, or the method drops no key at all.
bool attends_to_every_key(const MethodSpec& spec, const CellSelection& selection);

// Output [num_q_heads, m, head_dim], softmax renormalised over the selected keys and the chunk
// (scope `all`: the selected and each query's own), with pruned lanes and reassigned positions
// where the method has them. Whole pages and blocks are read where they lie, single keys are copied
// together. `selection` may be dense. Throws Error{Input} for rotary scaling that
// cannot be redone.
at::Tensor attend_selected(const MethodSpec& spec, const trace::ModelInfo& model, const Cell& cell,
                           const RowLayout& layout, const CellSelection& selection);

}  // namespace kvloupe::selection
