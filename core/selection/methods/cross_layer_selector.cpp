#include "core/selection/methods/cross_layer_selector.h"

#include "core/base/error.h"
#include "core/selection/cell_rows.h"
#include "core/selection/methods/cross_layer.h"

#include <fmt/format.h>

namespace kvloupe::selection {

bool CrossLayerSelector::dense_by_rule(const Cell& cell) const {
  const std::optional<int> source = selection_layer(spec(), cell.layer);
  return !source || (source == cell.layer && spec().text("sel_layers") == "dense");
}

void CrossLayerSelector::note_dense(const Cell& cell, std::int64_t num_candidates,
                                    std::int64_t budget) {
  if (selection_layer(spec(), cell.layer) != cell.layer) return;
  if (budget < num_candidates)
    note(cell, choose_anew(cell, num_candidates, budget));
  else
    note(cell, std::vector(static_cast<std::size_t>(cell.num_kv_heads()),
                           SelectedRow{range(0, num_candidates)}));
}

std::vector<SelectedRow> CrossLayerSelector::choose(const Cell& cell, std::int64_t num_candidates,
                                                    std::int64_t budget) {
  const std::optional<int> source = reused_layer(spec(), cell.layer);
  if (!source) {
    std::vector<SelectedRow> rows = choose_anew(cell, num_candidates, budget);
    note(cell, rows);
    return rows;
  }
  const auto found = chosen_.find({*source, cell.chunk});
  if (found == chosen_.end())
    throw input_error(
        fmt::format("{} cannot select in layer {}", spec().id(), cell.layer),
        fmt::format("it reuses the set of layer {}, which was not selected in", *source),
        "include that layer");
  // What the source's window left, less what this layer's own one hides.
  std::vector<SelectedRow> rows = found->second;
  for (SelectedRow& row : rows)
    for (auto* positions : {&row.positions, &row.forced}) {
      for (std::int32_t& position : *positions)
        position -= static_cast<std::int32_t>(cell.first_key);
      std::erase_if(*positions, [](std::int32_t position) { return position < 0; });
    }
  return rows;
}

std::vector<RowEvidence> CrossLayerSelector::evidence_of(const Cell& cell,
                                                         std::int64_t num_candidates,
                                                         std::int64_t budget) {
  if (selection_layer(spec(), cell.layer) != cell.layer) return {};
  return evidence_anew(cell, num_candidates, budget);
}

void CrossLayerSelector::forget_before(int chunk) {
  std::erase_if(chosen_, [&](const auto& set) { return set.first.second < chunk; });
}

void CrossLayerSelector::note(const Cell& cell, std::vector<SelectedRow> rows) {
  for (SelectedRow& row : rows)
    for (auto* positions : {&row.positions, &row.forced})
      for (std::int32_t& position : *positions)
        position += static_cast<std::int32_t>(cell.first_key);
  chosen_[{cell.layer, cell.chunk}] = std::move(rows);
}

}  // namespace kvloupe::selection
