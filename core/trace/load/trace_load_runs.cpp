// Runs as they stand in a trace or a sidecar, checked so that no index read from a file is trusted.
#include "core/base/error.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/runs/block_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>

namespace kvloupe::trace {
namespace {

// Files before 1.10 have no such attribute: the text of the method says it, and else it is the last.
template <typename Enum>
Enum word_in_method(const char* name, const std::string& method,
                    std::initializer_list<Enum> values) {
  for (const Enum value : values)
    if (method.find(fmt::format("{}={}", name, to_text(value))) != std::string::npos) return value;
  return *std::prev(values.end());
}

// What the masks say of themselves, where the run does not: those of the first layer that has any.
int block_size_of_masks(hid_t run) {
  const h5::Handle layers = h5::open_group(run, "layers");
  for (const int layer : h5::numbered_members(layers.get())) {
    const std::string path = fmt::format("{}/block_mask", layer);
    if (!h5::has_object(layers.get(), path)) continue;
    const auto mask = h5::Dataset::open(layers.get(), path, h5::ValueClass::Integer, 1);
    const std::int64_t size = h5::int_attribute(mask.id(), "block_size").value_or(0);
    return size >= 1 && size <= kMaxBlockSize ? static_cast<int>(size) : 0;
  }
  return 0;
}

RunInfo load_run_info(hid_t file, int number, const ModelInfo& model) {
  const h5::Handle group = h5::open_group(file, fmt::format("/runs/{}", number));
  RunInfo run;
  std::vector<std::string> none;  // of these attributes none is passed over
  const auto found = read_attributes(group.get(), "", run, none);
  const int by_axis = run.row_axis == RowAxis::QHead ? 1 : model.gqa_group_size();
  if (!found.contains("q_heads_per_row")) {
    if (run.row_axis == RowAxis::Subgroup)
      throw h5::Defect("the attribute q_heads_per_row is missing");
    run.q_heads_per_row = by_axis;
  }
  const int heads = run.q_heads_per_row;
  const bool fits = run.row_axis == RowAxis::Subgroup
                        ? heads >= 1 && heads <= by_axis && by_axis % heads == 0
                        : heads == by_axis;
  if (!fits) {
    throw h5::Defect(fmt::format("q_heads_per_row is {} where a group has {} query heads", heads,
                                 model.gqa_group_size()));
  }
  if (!found.contains("budget_scope"))
    run.budget_scope =
        word_in_method("budget_scope", run.method, {BudgetScope::All, BudgetScope::Past});
  if (!found.contains("lowering"))
    run.lowering = word_in_method("lowering", run.method,
                                  {Lowering::Native, Lowering::Budget, Lowering::Union});
  if (run.granularity == Granularity::Block && run.block_size == 0)
    run.block_size = block_size_of_masks(group.get());
  run.block_tables = run.block_tables && run.block_size > 0;
  return run;
}

// `name` and `values` say what the offsets are and what they point into.
void check_offsets(const std::vector<std::int64_t>& offsets, const h5::Dataset& positions,
                   const char* name = "offsets", const char* values = "positions") {
  if (offsets.front() != 0) throw h5::Defect(fmt::format("its {} do not begin at 0", name));
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      throw h5::Defect(fmt::format("its {} fall at cell {}", name, i - 1));
    }
  }
  if (static_cast<std::uint64_t>(offsets.back()) > positions.dims().front()) {
    throw h5::Defect(fmt::format("its {} end at {} of {} {}", name, offsets.back(),
                                 positions.dims().front(), values));
  }
}

struct Range {
  std::int64_t begin = 0, end = 0;
};

// The values of each cell must rise within the range of its chunk. The message says of a row that it
// `has` a value after another, or beyond the range that `of` names.
void check_rising(std::size_t num_rows, const std::vector<std::int64_t>& offsets,
                  const std::vector<std::int32_t>& values,
                  const std::function<Range(std::size_t chunk)>& range_of, const char* has,
                  const char* of) {
  for (std::size_t cell = 0; cell + 1 < offsets.size(); ++cell) {
    const std::size_t chunk = cell / num_rows;
    const Range range = range_of(chunk);
    for (auto i = offsets[cell]; i < offsets[cell + 1]; ++i) {
      const bool rises = i == offsets[cell] || values[i] > values[i - 1];
      if (rises && values[i] >= range.begin && values[i] < range.end) continue;
      const std::string why = rises ? fmt::format("beyond {} [{}, {})", of, range.begin, range.end)
                                    : fmt::format("after {}; they must rise", values[i - 1]);
      throw h5::Defect(
          fmt::format("chunk {}, row {} {} {} {}", chunk, cell % num_rows, has, values[i], why));
    }
  }
}

// What reads a selection has room for its candidates alone.
void check_positions(const RunLayer& layer, const RunInfo& run, const SoftmaxForm& softmax,
                     const std::vector<ChunkInfo>& chunks) {
  check_rising(
      layer.num_rows, layer.offsets, layer.positions,
      [&](std::size_t chunk) {
        const ChunkInfo& at = chunks[chunk];
        return Range{softmax.first_visible(at.begin),
                     run.budget_scope == BudgetScope::All ? at.end() : at.begin};
      },
      "selects position", "its candidates");
}

// The datasets of one run in one layer.
struct RunFile {
  hid_t file;
  int layer, run;
  FieldSizes sizes;  // what the chunks done need, as far as it is known

  bool has(Field field) const { return h5::has_object(file, path_of(info_of(field), layer, run)); }
  h5::Dataset open(Field field) const { return open_field(file, field, sizes, layer, run); }
  template <typename T>
  std::vector<T> read(Field field) const {
    return read_field<T>(file, field, sizes, layer, run);
  }
};

std::vector<std::uint16_t> load_evictions(const RunFile& from, const TraceInfo& info) {
  if (!from.has(Field::EvictChunk)) return {};
  auto evict = from.read<std::uint16_t>(Field::EvictChunk);
  // Deaths after a chunk that was never finished have not happened.
  for (auto& chunk : evict) {
    if (chunk >= info.chunks.size()) chunk = kAlive;
  }
  return evict;
}

std::vector<std::int32_t> load_lanes(const RunFile& from, const TraceInfo& info) {
  const hsize_t heads = from.sizes.q_heads, dim = from.sizes.head_dim;
  auto counts = from.read<std::int32_t>(Field::LaneCounts);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::size_t chunk = i / (heads * dim);
    if (counts[i] >= 0 && counts[i] <= info.chunks[chunk].length) continue;
    throw h5::Defect(fmt::format(
        "its lane_counts has {} for lane {} of query head {} in chunk {}, which has {} rows",
        counts[i], i % dim, i / dim % heads, chunk, info.chunks[chunk].length));
  }
  return counts;
}

// Which ranges of a cell's positions were kept by rule. Runs of schema 1.2 and before do not say.
void load_forced(const RunFile& from, RunLayer& layer) {
  if (!from.has(Field::ForcedOffsets) && !from.has(Field::ForcedBounds)) return;
  layer.forced_offsets = from.read<std::int64_t>(Field::ForcedOffsets);
  const h5::Dataset bounds = from.open(Field::ForcedBounds);
  check_offsets(layer.forced_offsets, bounds, "forced_offsets", "bounds");
  layer.forced_bounds =
      bounds.read_range<std::int32_t>(0, static_cast<std::uint64_t>(layer.forced_offsets.back()));
  for (std::size_t cell = 0; cell + 1 < layer.offsets.size(); ++cell) {
    const auto name = [&] {
      return fmt::format("chunk {}, row {}", cell / layer.num_rows, cell % layer.num_rows);
    };
    const std::int64_t size = layer.offsets[cell + 1] - layer.offsets[cell];
    const std::int64_t begin = layer.forced_offsets[cell], end = layer.forced_offsets[cell + 1];
    if ((end - begin) % 2 != 0) {
      throw h5::Defect(fmt::format("{} has a range in forced_bounds without an end", name()));
    }
    std::int32_t previous = -1;
    for (auto i = begin; i < end; ++i) {
      const std::int32_t bound = layer.forced_bounds[i];
      if (bound <= previous || bound > size) {
        throw h5::Defect(fmt::format(
            "{} has {} after {} in forced_bounds; they must rise up to its {} positions", name(),
            bound, previous, size));
      }
      previous = bound;
    }
  }
}

// The masks of all chunks done; their size follows from the chunks.
std::vector<std::uint8_t> load_masks(const h5::Dataset& dataset, const char* name, int block_size,
                                     const TraceInfo& info) {
  const std::uint64_t available = dataset.dims().front();
  std::uint64_t needed = 0;
  for (const ChunkInfo& chunk : info.chunks) {
    const BlockGrid grid = block_grid(chunk, block_size);
    const auto row_bytes = static_cast<std::uint64_t>(packed_row_bytes(grid));
    const auto rows = static_cast<std::uint64_t>(info.model.num_q_heads * grid.num_query_blocks());
    if (rows > (available - needed) / row_bytes) {
      throw h5::Defect(fmt::format("its {} of {} bytes is too short for {} chunks", name, available,
                                   info.chunks.size()));
    }
    needed += rows * row_bytes;
  }
  return dataset.read_range<std::uint8_t>(0, needed);
}

void check_tables(const RunLayer& layer, const std::vector<ChunkInfo>& chunks) {
  check_rising(
      layer.num_rows, layer.table_indptr, layer.table_indices,
      [&](std::size_t chunk) {
        return Range{0, block_grid(chunks[chunk], layer.block_size).num_key_blocks()};
      },
      "has in its table block", "its blocks");
}

// Which blocks were kept by rule, and who has no vote. Runs of schema 1.2 and before do not say.
void load_block_rules(const RunFile& from, const TraceInfo& info, RunLayer& layer) {
  if (from.has(Field::BlockForced)) {
    layer.block_forced =
        load_masks(from.open(Field::BlockForced), "block_forced", layer.block_size, info);
    for (std::size_t i = 0; i < layer.block_forced.size(); ++i) {
      if ((layer.block_forced[i] & ~layer.block_mask[i]) != 0) {
        throw h5::Defect(
            fmt::format("its block_forced has a block at byte {} that is not kept", i));
      }
    }
  }
  if (from.has(Field::BlockAbstains)) {
    std::uint64_t query_blocks = 0;
    for (const ChunkInfo& chunk : info.chunks) {
      query_blocks += block_grid(chunk, layer.block_size).num_query_blocks();
    }
    layer.block_abstains =
        from.open(Field::BlockAbstains).read_range<std::uint8_t>(0, query_blocks);
    for (std::uint8_t& abstains : layer.block_abstains) abstains = abstains != 0;
  }
}

// Native masks and tables of a block method. Runs of schema 1.1 and before have neither.
void load_blocks(const RunFile& from, const RunInfo& run, const TraceInfo& info, RunLayer& layer) {
  if (run.block_size == 0 && !from.has(Field::BlockMask)) return;
  const h5::Dataset mask = from.open(Field::BlockMask);
  const std::int64_t size = h5::int_attribute(mask.id(), "block_size").value_or(0);
  if (size < 1 || size > kMaxBlockSize || (run.block_size != 0 && size != run.block_size)) {
    throw h5::Defect(fmt::format("its block_mask has the block_size {} where the run has {}", size,
                                 run.block_size));
  }
  layer.block_size = static_cast<int>(size);
  layer.block_mask = load_masks(mask, "block_mask", layer.block_size, info);
  load_block_rules(from, info, layer);
  if (!run.block_tables) return;
  layer.table_indptr = from.read<std::int64_t>(Field::TableIndptr);
  const h5::Dataset indices = from.open(Field::TableIndices);
  check_offsets(layer.table_indptr, indices, "table_indptr", "table entries");
  layer.table_indices =
      indices.read_range<std::int32_t>(0, static_cast<std::uint64_t>(layer.table_indptr.back()));
  check_tables(layer, info.chunks);
}

// Flags of a method that drops no key.
std::vector<std::uint8_t> flags_of_all_keys(const RunLayer& layer, const TraceInfo& info) {
  std::vector<std::uint8_t> flags;
  for (const ChunkInfo& chunk : info.chunks) {
    flags.insert(flags.end(), static_cast<std::size_t>(layer.num_rows),
                 chunk.begin == 0 ? kCellDenseFallback : kCellDenseByRule);
  }
  return flags;
}

}  // namespace

void load_runs(hid_t file, const ModelInfo& model, int first_id, bool from_sidecar,
               std::vector<RunInfo>& runs, std::vector<std::string>& warnings) {
  if (!h5::has_object(file, "/runs")) return;
  std::vector<int> numbers;
  try {
    numbers = h5::numbered_members(h5::open_group(file, "/runs").get());
  } catch (const h5::Defect& defect) {
    warnings.emplace_back(defect.what());
  }
  for (const int number : numbers) {
    try {
      RunInfo run = load_run_info(file, number, model);
      run.id = first_id + number;
      run.from_sidecar = from_sidecar;
      runs.push_back(std::move(run));
    } catch (const h5::Defect& defect) {
      warnings.push_back(
          fmt::format("run {} cannot be read: {}", first_id + number, defect.what()));
    }
  }
}

RunLayer load_run_layer(hid_t file, int number_in_file, const RunInfo& run, int layer,
                        const TraceInfo& info) {
  RunLayer result;
  result.num_rows = num_rows_of(run, info.model);
  RunFile from{file, layer, number_in_file, sizes_of(info)};
  from.sizes.rows = static_cast<std::uint64_t>(result.num_rows);
  if (run.granularity == Granularity::Lane) {
    result.lane_counts = load_lanes(from, info);
    const bool has_sets =
        from.has(Field::Offsets) || from.has(Field::Positions) || from.has(Field::Flags);
    if (!has_sets && run.state_action == StateAction::Visibility) {
      result.offsets.assign(info.chunks.size() * from.sizes.rows + 1, 0);
      result.flags = flags_of_all_keys(result, info);
      return result;
    }
  }
  result.offsets = from.read<std::int64_t>(Field::Offsets);
  result.flags = from.read<std::uint8_t>(Field::Flags);
  const h5::Dataset positions = from.open(Field::Positions);
  check_offsets(result.offsets, positions);
  result.positions =
      positions.read_range<std::int32_t>(0, static_cast<std::uint64_t>(result.offsets.back()));
  check_positions(result, run, info.model.softmax_of(layer), info.chunks);
  load_forced(from, result);
  load_blocks(from, run, info, result);
  result.evict_chunk = load_evictions(from, info);
  if (run.state_action == StateAction::Eviction && result.evict_chunk.empty() &&
      info.num_tokens > 0) {
    throw h5::Defect(path_of(info_of(Field::EvictChunk), layer, number_in_file) + " is missing");
  }
  return result;
}

bool has_scores(hid_t file, int number_in_file, int layer) {
  return h5::has_object(file, path_of(info_of(Field::Scores), layer, number_in_file));
}

std::vector<std::vector<float>> load_run_scores(hid_t file, int number_in_file, const RunInfo& run,
                                                int layer, const TraceInfo& info, int chunk) {
  RunFile from{file, layer, number_in_file, sizes_of(info)};
  from.sizes.rows = static_cast<std::uint64_t>(num_rows_of(run, info.model));
  if (!has_scores(file, number_in_file, layer)) return {};
  const auto flags = from.read<std::uint8_t>(Field::Flags);
  const h5::Dataset scores = from.open(Field::Scores);
  const SoftmaxForm softmax = info.model.softmax_of(layer);
  const auto candidates_in = [&](std::size_t index) {
    const ChunkInfo& at = info.chunks[index];
    const std::int64_t end = run.budget_scope == BudgetScope::All ? at.end() : at.begin;
    return static_cast<std::uint64_t>(end - softmax.first_visible(at.begin));
  };
  const auto here = static_cast<std::size_t>(chunk);
  std::uint64_t begin = 0;
  for (std::size_t c = 0; c < here; ++c)
    for (std::size_t row = 0; row < from.sizes.rows; ++row)
      if (flags[c * from.sizes.rows + row] == 0) begin += candidates_in(c);
  std::vector<std::vector<float>> rows(from.sizes.rows);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (flags[here * from.sizes.rows + row] != 0) continue;
    const std::uint64_t count = candidates_in(here);
    if (begin + count > scores.dims().front())
      throw h5::Defect(
          fmt::format("its scores end at {} of {}", scores.dims().front(), begin + count));
    rows[row] = scores.read_range<float>(begin, count);
    begin += count;
  }
  return rows;
}

}  // namespace kvloupe::trace
