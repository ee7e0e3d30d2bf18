#include "core/selection/selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/spec/method.h"
#include "core/selection/spec/method_list.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

namespace kvloupe::selection {

#define KVLOUPE_DECLARE(id) std::unique_ptr<Selector> make_##id(const Setup&);
KVLOUPE_METHODS(KVLOUPE_DECLARE)
#undef KVLOUPE_DECLARE

std::unique_ptr<Selector> make_selector(const MethodSpec& spec, const ModelShape& shape,
                                        BasisPtr basis, Ablation ablation) {
  if (shape.num_kv_heads <= 0 || shape.num_q_heads % shape.num_kv_heads != 0)
    throw input_error(fmt::format("{} cannot run on this model", spec.id()),
                      fmt::format("{} query heads do not share {} KV heads evenly",
                                  shape.num_q_heads, shape.num_kv_heads),
                      "check the trace with kvloupe validate");
  KVLOUPE_CHECK(!spec.traits().basis || basis);
#define KVLOUPE_MAKE(name) \
  if (spec.id() == #name) return make_##name({spec, shape, basis, ablation});
  KVLOUPE_METHODS(KVLOUPE_MAKE)
#undef KVLOUPE_MAKE
  fail_check("a method of the list", __FILE__, __LINE__);
}

Cell visible_part(const Cell& cell) {
  const std::int64_t hidden = cell.first_candidate();
  if (hidden == 0) return cell;
  Cell part = cell;
  part.first_key += hidden;
  part.past_len -= hidden;
  part.k = cell.k.narrow(1, hidden, cell.kv_len() - hidden);
  if (cell.v.defined()) part.v = cell.v.narrow(1, hidden, cell.kv_len() - hidden);
  if (cell.novelty.defined()) part.novelty = cell.novelty.narrow(0, hidden, part.kv_len());
  return part;
}

void bring_rows(CellSelection& selection) {
  if (!selection.pending) return;
  selection.rows = rows_of(*selection.pending);
  selection.pending.reset();
}

std::vector<std::vector<std::int32_t>> Selector::evict(const Cell&) { return {}; }
std::vector<std::vector<std::int32_t>> Selector::alive(int) const { return {}; }
std::vector<std::vector<std::int32_t>> Selector::sampled_rows(const Cell&) { return {}; }
std::vector<RowEvidence> Selector::evidence(const Cell&) { return {}; }
void Selector::keep_evidence() {}

}  // namespace kvloupe::selection
