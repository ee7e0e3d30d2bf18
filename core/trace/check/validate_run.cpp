// The selections of a run against the chunks they belong to.
#include "core/base/error.h"
#include "core/trace/check/validate.h"
#include "core/trace/runs/block_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

namespace kvloupe::trace {
namespace {

// Names a cell of a run in a sentence.
std::string cell_name(const RunInfo& run, int layer, std::size_t chunk, std::size_t row) {
  return fmt::format("run {}, layer {}, chunk {}, row {}", run.id, layer, chunk, row);
}

// The first defect of one layer, if any: one wrong habit of a recorder shows in every cell.
std::optional<std::string> find_cell_defect(const TraceInfo& info, const RunInfo& run, int layer,
                                            const RunLayer& data) {
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  const auto rows = static_cast<std::size_t>(data.num_rows);
  for (std::size_t cell = 0; cell < data.flags.size(); ++cell) {
    const ChunkInfo& chunk = info.chunks[cell / rows];
    const std::int64_t stored = data.offsets[cell + 1] - data.offsets[cell];
    const std::uint8_t flag = data.flags[cell];
    const auto name = [&] { return cell_name(run, layer, cell / rows, cell % rows); };
    if (flag > (kCellDenseFallback | kCellDenseByRule)) {
      return fmt::format("{} has the unknown flag {}", name(), flag);
    }
    if (flag != 0 && stored > 0) {
      return fmt::format("{} is dense by its flag and yet stores {} positions", name(), stored);
    }
    if (softmax.first_visible(chunk.begin) == chunk.begin && (flag & kCellDenseFallback) == 0) {
      return fmt::format("{} has no past and lacks the flag of a dense fallback", name());
    }
  }
  return std::nullopt;
}

// A key is evicted once and not before it was seen, and a cell lists exactly the keys still alive.
std::optional<std::string> find_eviction_defect(const TraceInfo& info, const RunInfo& run,
                                                int layer, const RunLayer& data) {
  const auto rows = static_cast<std::size_t>(data.num_rows);
  const auto tokens = static_cast<std::size_t>(info.num_tokens);
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint16_t* died = data.evict_chunk.data() + row * tokens;
    for (std::size_t c = 0; c < info.chunks.size(); ++c) {
      const ChunkInfo& chunk = info.chunks[c];
      for (std::int32_t j = chunk.begin; j < chunk.end(); ++j) {
        if (died[j] < c) {
          return fmt::format("{}: key {} of chunk {} dies after chunk {} already",
                             cell_name(run, layer, c, row), j, c, died[j]);
        }
      }
      const std::size_t cell = c * rows + row;
      // A dense cell lists none, and means that all candidates are alive.
      const bool dense = data.flags[cell] != 0;
      auto selected = data.positions.begin() + data.offsets[cell];
      const auto last = data.positions.begin() + data.offsets[cell + 1];
      for (std::int64_t j = softmax.first_visible(chunk.begin); j < chunk.begin; ++j) {
        const bool listed = dense || (selected != last && *selected == j);
        if (listed != (died[j] >= c)) {
          return fmt::format("{}: position {} is {}selected but evict_chunk says {}",
                             cell_name(run, layer, c, row), j, listed ? "" : "not ", died[j]);
        }
        if (listed && !dense) ++selected;
      }
    }
  }
  return std::nullopt;
}

// Every row uses a lane at least; that none is used more often than there are rows was checked as
// they were read.
std::optional<std::string> find_lane_defect(const TraceInfo& info, const RunInfo& run, int layer,
                                            const RunLayer& data) {
  const auto heads = static_cast<std::size_t>(info.model.num_q_heads);
  const auto dim = static_cast<std::ptrdiff_t>(info.model.head_dim);
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    for (std::size_t head = 0; head < heads; ++head) {
      const auto first =
          data.lane_counts.begin() + static_cast<std::ptrdiff_t>(c * heads + head) * dim;
      const std::int64_t used = std::accumulate(first, first + dim, std::int64_t{0});
      if (used >= info.chunks[c].length) continue;
      return fmt::format(
          "run {}, layer {}, chunk {}, query head {}: its {} rows use {} lanes together", run.id,
          layer, c, head, info.chunks[c].length, used);
    }
  }
  return std::nullopt;
}

// Where scores are stored, each row keeps the best of them: the higher before the lower, then the nearer to
// the begin, what is no number last.
std::optional<std::string> find_score_defect(const TraceReader& reader, const RunInfo& run,
                                             int layer, const RunLayer& data) {
  if (!reader.has_run_scores(run.id, layer)) return std::nullopt;
  const auto rows = static_cast<std::size_t>(data.num_rows);
  const SoftmaxForm softmax = reader.info().model.softmax_of(layer);
  for (std::size_t c = 0; c < reader.info().chunks.size(); ++c) {
    const auto scores = reader.read_run_scores(run.id, layer, static_cast<int>(c));
    const std::int64_t first = softmax.first_visible(reader.info().chunks[c].begin);
    for (std::size_t row = 0; row < rows; ++row) {
      if (scores[row].empty()) continue;
      std::vector<std::int32_t> order(scores[row].size());
      std::iota(order.begin(), order.end(), 0);
      const auto worth = [&](std::int32_t key) {
        const float score = scores[row][static_cast<std::size_t>(key)];
        return std::isnan(score) ? std::pair(1, 0.0F) : std::pair(0, -score);
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int32_t a, std::int32_t b) { return worth(a) < worth(b); });
      const std::span kept =
          std::span(data.positions)
              .subspan(static_cast<std::size_t>(data.offsets[c * rows + row]),
                       static_cast<std::size_t>(data.offsets[c * rows + row + 1] -
                                                data.offsets[c * rows + row]));
      order.resize(std::min(order.size(), kept.size()));
      std::sort(order.begin(), order.end());
      const bool same = std::equal(kept.begin(), kept.end(), order.begin(), order.end(),
                                   [&](std::int32_t a, std::int32_t b) { return a == first + b; });
      if (!same)
        return cell_name(run, layer, c, row) + " keeps other keys than the best by its scores";
    }
  }
  return std::nullopt;
}

// What one cell's masks must be: nothing of the future and, beyond the rule that a straddling block
// is selected, nothing selected that no head of the row keeps. A dense row keeps all.
class MaskCheck {
 public:
  MaskCheck(const TraceInfo& info, const RunInfo& run, const RunLayer& data)
      : info_(info),
        data_(data),
        heads_per_row_(info.model.num_q_heads / data.num_rows),
        ranked_(run.lowering == Lowering::Budget),
        native_(run.lowering == Lowering::Native) {}

  std::optional<std::string> defect(const BlockGrid& grid, std::span<const std::uint8_t> packed,
                                    std::size_t first_cell) const {
    const auto mask = unpack_mask(grid, info_.model.num_q_heads, packed);
    const auto causal = unpack_mask(grid, info_.model.num_q_heads,
                                    packed_causal_mask(grid, info_.model.num_q_heads));
    if (pack_mask(grid, mask) != std::vector<std::uint8_t>(packed.begin(), packed.end())) {
      return "its masks have bits beyond the last block";
    }
    const std::size_t per_head =
        static_cast<std::size_t>(grid.num_query_blocks() * grid.num_key_blocks());
    for (std::size_t i = 0; i < mask.size(); ++i) {
      const std::size_t head = i / per_head;
      if (mask[i] > causal[i]) {
        return fmt::format("query head {} keeps a block of the future", head);
      }
      if (data_.flags[first_cell + head / heads_per_row_] != 0 && mask[i] != causal[i]) {
        return fmt::format("query head {} lacks a block in a dense row", head);
      }
    }
    return row_defect(grid, mask, first_cell);
  }

 private:
  // `kept`: what any query block of the row keeps, `table`: what the row selects.
  std::optional<std::string> native_defect(const BlockGrid& grid,
                                           const std::vector<std::uint8_t>& mask,
                                           const std::vector<std::uint8_t>& kept,
                                           const std::vector<std::int32_t>& table, int row) const {
    const std::size_t row_values = mask.size() / data_.num_rows;
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      const std::int64_t own = i * grid.num_key_blocks() + grid.block_of_query_block(i);
      if (mask[row * row_values + static_cast<std::size_t>(own)] == 0) {
        return fmt::format("query block {} of row {} leaves out the block that it lies in", i, row);
      }
    }
    for (std::int32_t block = 0; block < grid.num_past_blocks(); ++block) {
      if (kept[block] != 0 && !std::binary_search(table.begin(), table.end(), block)) {
        return fmt::format("row {} does not select block {}, which its mask keeps", row, block);
      }
    }
    return std::nullopt;
  }

  std::optional<std::string> row_defect(const BlockGrid& grid,
                                        const std::vector<std::uint8_t>& mask,
                                        std::size_t first_cell) const {
    const auto blocks = static_cast<std::size_t>(grid.num_key_blocks());
    const std::size_t row_values = mask.size() / data_.num_rows;
    for (int row = 0; row < data_.num_rows; ++row) {
      const std::size_t cell = first_cell + row;
      if (data_.flags[cell] != 0) continue;
      std::vector<std::uint8_t> kept(blocks, 0);
      for (std::size_t i = 0; i < row_values; ++i) kept[i % blocks] |= mask[row * row_values + i];
      const std::span selected(data_.positions.data() + data_.offsets[cell],
                               data_.positions.data() + data_.offsets[cell + 1]);
      const auto table = block_table(grid, selected);
      for (const std::int32_t block : table) {
        if (block < grid.num_past_blocks() && kept[block] == 0 && !ranked_) {
          return fmt::format("row {} selects block {}, which none of its heads keeps", row, block);
        }
      }
      if (native_) {
        if (const auto defect = native_defect(grid, mask, kept, table, row)) return defect;
      }
      if (data_.table_indptr.empty()) continue;
      const std::vector<std::int32_t> stored(
          data_.table_indices.begin() + data_.table_indptr[cell],
          data_.table_indices.begin() + data_.table_indptr[cell + 1]);
      if (stored != table) return fmt::format("row {} has a table that is not its positions'", row);
    }
    return std::nullopt;
  }

  const TraceInfo& info_;
  const RunLayer& data_;
  int heads_per_row_;
  bool ranked_;  // the row's blocks are the best by score, whoever keeps them
  bool native_;  // attention reads the masks, and the row lists all that they keep
};

std::optional<std::string> find_block_defect(const TraceInfo& info, const RunInfo& run, int layer,
                                             const RunLayer& data) {
  const MaskCheck check(info, run, data);
  std::size_t begin = 0;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    const BlockGrid grid = block_grid(info.chunks[c], data.block_size);
    const auto bytes = static_cast<std::size_t>(packed_mask_bytes(grid, info.model.num_q_heads));
    const auto defect =
        check.defect(grid, std::span(data.block_mask).subspan(begin, bytes), c * data.num_rows);
    if (defect) return fmt::format("run {}, layer {}, chunk {}: {}", run.id, layer, c, *defect);
    begin += bytes;
  }
  return std::nullopt;
}

void check_run_layer(const TraceReader& reader, const RunInfo& run, int layer, Validation& found) {
  const auto& info = reader.info();
  const RunLayer data = reader.read_run_layer(run.id, layer);
  auto defect = find_cell_defect(info, run, layer, data);
  if (!defect && run.state_action == StateAction::Eviction) {
    defect = find_eviction_defect(info, run, layer, data);
  }
  if (!defect && run.granularity == Granularity::Lane) {
    defect = find_lane_defect(info, run, layer, data);
  }
  if (!defect && data.block_size > 0) defect = find_block_defect(info, run, layer, data);
  if (!defect) defect = find_score_defect(reader, run, layer, data);
  if (defect) found.defects.push_back(*defect);
}

}  // namespace

void check_run(const TraceReader& reader, const RunInfo& run, Validation& found) {
  for (const int layer : reader.info().layers) {
    if (!reader.has_run_layer(run.id, layer)) {
      if (!run.from_sidecar) {
        found.notes.push_back(fmt::format("run {} has no selections of layer {}", run.id, layer));
      }
      continue;
    }
    try {
      check_run_layer(reader, run, layer, found);
    } catch (const Error& error) {
      found.defects.push_back(fmt::format("run {}, layer {}: {}", run.id, layer, error.why()));
    }
  }
}

}  // namespace kvloupe::trace
