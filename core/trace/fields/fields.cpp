#include "core/trace/fields/fields.h"

#include "core/base/error.h"
#include "core/trace/trace_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace kvloupe::trace {
namespace {

struct AxisInfo {
  Axis id;
  const char* name;    // of the attribute `axes`; null: the dataset has none
  const char* symbol;  // in FORMAT.md
  bool grows, may_exceed;
};

constexpr AxisInfo kAxes[] = {
    {Axis::Token, "token", "T", false, true},
    {Axis::TokenEnd, "token", "T+1", false, true},
    {Axis::Chunk, "chunk", "C", false, true},
    {Axis::ChunkEnd, "chunk", "C+1", false, true},
    {Axis::Query, "token", "Q", false, true},
    {Axis::QHead, "q_head", "H", false, false},
    {Axis::KvHead, "kv_head", "G", false, false},
    {Axis::Channel, "channel", "D", false, false},
    {Axis::Rank, "rank", "32", false, false},
    {Axis::Layer, "layer", "captured layers", false, false},
    {Axis::ProbeToken, "probe_token", "n", false, false},
    {Axis::ProbeChunk, "chunk", "C'", true, true},
    {Axis::TextByte, "byte", "bytes", true, true},
    {Axis::MassValue, "cell", "N", true, true},
    {Axis::Row, "row", "R", false, false},
    {Axis::Cell, "cell", "C*R", false, true},
    {Axis::CellEnd, "cell", "C*R+1", false, true},
    {Axis::Lane, "lane", "D", false, false},
    {Axis::Selected, "selected", "any", true, true},
    {Axis::Bound, "bound", "any", true, true},
    {Axis::MaskByte, "byte", "bytes", true, true},
    {Axis::QueryBlock, "query_block", "query blocks", true, true},
    {Axis::TableEntry, "entry", "any", true, true},
    {Axis::Step, "step", "any", true, true},
    {Axis::AnswerToken, nullptr, "n", true, true},
    {Axis::AnswerByte, nullptr, "bytes", true, true},
    {Axis::AnswerEnd, nullptr, "n+1", true, true},
    {Axis::Score, "score", "any", true, true},
};

const AxisInfo& axis_info(Axis axis) { return kAxes[static_cast<std::size_t>(axis)]; }

std::uint64_t size_of(Axis axis, const FieldSizes& sizes) {
  switch (axis) {
    case Axis::Token: return sizes.tokens;
    case Axis::TokenEnd: return sizes.tokens + 1;
    case Axis::Chunk: return sizes.chunks;
    case Axis::ChunkEnd: return sizes.chunks + 1;
    case Axis::Query: return sizes.queries;
    case Axis::QHead: return sizes.q_heads;
    case Axis::KvHead: return sizes.kv_heads;
    case Axis::Channel: return sizes.head_dim;
    case Axis::Rank: return kTopTokens;
    case Axis::Layer: return sizes.layers;
    case Axis::ProbeToken: return sizes.probe_tokens;
    case Axis::ProbeChunk: return sizes.probe_chunks;
    case Axis::TextByte: return sizes.text_bytes;
    case Axis::MassValue: return sizes.mass_values;
    case Axis::Row: return sizes.rows;
    case Axis::Cell: return sizes.chunks * sizes.rows;
    case Axis::CellEnd: return sizes.chunks * sizes.rows + 1;
    case Axis::Lane: return sizes.head_dim;
    case Axis::Selected: return sizes.selected;
    case Axis::Bound: return sizes.bounds;
    case Axis::MaskByte: return sizes.mask_bytes;
    case Axis::QueryBlock: return sizes.query_blocks;
    case Axis::TableEntry: return sizes.table_entries;
    case Axis::Step:
    case Axis::AnswerToken:
    case Axis::AnswerByte:
    case Axis::AnswerEnd:
    case Axis::Score: break;
  }
  return 0;  // known when they are written
}

FieldSizes sizes_of(const ModelInfo& model, std::size_t layers, int probe_tokens) {
  FieldSizes sizes;
  sizes.q_heads = static_cast<std::uint64_t>(model.num_q_heads);
  sizes.kv_heads = static_cast<std::uint64_t>(model.num_kv_heads);
  sizes.head_dim = static_cast<std::uint64_t>(model.head_dim);
  sizes.layers = layers;
  sizes.probe_tokens = static_cast<std::uint64_t>(probe_tokens);
  return sizes;
}

constexpr StoredParts kAlways, kQkv = {Part::Qkv}, kLse = {Part::Lse}, kMass = {Part::Mass},
                               kProbe = {Part::Probe}, kLoss = {Part::Loss}, kTop = {Part::Top},
                               kDrift = {Part::Drift}, kDriftTop = {Part::Drift, Part::Top};
constexpr StoredParts kEvictions = {Part::Evictions}, kLanes = {Part::Lanes},
                      kBlocks = {Part::Blocks}, kTables = {Part::Blocks, Part::BlockTables},
                      kGiven = {Part::Given}, kSomeQueries = {Part::SomeQueries};
constexpr bool kRequired = false, kOptional = true;

template <typename... Axes>
FieldInfo row(Field id, const char* path, StoredParts parts, bool optional, int since,
              Element element, const char* unit, const char* long_name, Axes... axes) {
  return {id, path, parts, optional, since, element, {axes...}, unit, long_name};
}

const std::vector<FieldInfo>& table() {
  using enum Axis;
  using enum Element;
  static const std::vector<FieldInfo> fields = {
#define KVLOUPE_FIELD(id, ...) row(Field::id, __VA_ARGS__),
#include "core/trace/fields/fields.def"
#undef KVLOUPE_FIELD
  };
  return fields;
}

}  // namespace

bool FieldInfo::by_layer() const { return std::string_view(path).starts_with("/layers/"); }

bool FieldInfo::of_run() const { return std::string_view(path).starts_with("/runs/"); }

bool FieldInfo::grows() const { return axis_info(axes.front()).grows; }

bool FieldInfo::is_given() const { return !of_run() && parts == kGiven; }

bool FieldInfo::stands_alone() const { return parts == kLoss || is_given(); }

bool FieldInfo::by_chunk() const { return axes.front() < Axis::Step; }

std::span<const FieldInfo> all_fields() { return table(); }

const FieldInfo& info_of(Field field) {
  const FieldInfo& found = table().at(static_cast<std::size_t>(field));
  KVLOUPE_CHECK(found.id == field);
  return found;
}

FieldSizes sizes_of(const TraceHeader& header) {
  FieldSizes sizes = sizes_of(header.model, header.layers.size(), header.probe_len);
  sizes.tokens = static_cast<std::uint64_t>(header.max_tokens);
  sizes.chunks = static_cast<std::uint64_t>(header.max_chunks);
  sizes.queries = header.query_offsets.empty()
                      ? sizes.tokens
                      : static_cast<std::uint64_t>(header.query_offsets.back());
  return sizes;
}

FieldSizes sizes_of(const TraceInfo& info) {
  FieldSizes sizes = sizes_of(info.model, info.layers.size(), info.probe_len);
  sizes.tokens = static_cast<std::uint64_t>(info.num_tokens);
  sizes.chunks = info.chunks.size();
  sizes.queries = static_cast<std::uint64_t>(info.num_queries());
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (info.chunks[c].phase == Phase::Prefill) sizes.probe_chunks = c + 1;
  }
  return sizes;
}

StoredParts parts_of(const RunInfo& run) {
  StoredParts parts;
  parts.set(Part::Evictions, run.state_action == StateAction::Eviction);
  parts.set(Part::Lanes, run.granularity == Granularity::Lane);
  parts.set(Part::Blocks, run.block_size > 0);
  parts.set(Part::BlockTables, run.block_tables);
  return parts;
}

std::string path_of(const FieldInfo& field, int layer, int run) {
  return fmt::format(fmt::runtime(field.path), fmt::arg("l", layer), fmt::arg("r", run));
}

std::vector<std::uint64_t> shape_of(const FieldInfo& field, const FieldSizes& sizes) {
  std::vector<std::uint64_t> shape;
  for (const Axis axis : field.axes) shape.push_back(size_of(axis, sizes));
  return shape;
}

bool may_exceed(Axis axis) { return axis_info(axis).may_exceed; }

std::uint64_t bytes_of(Element element, DType dtype) {
  switch (element) {
    case Element::UInt8: return 1;
    case Element::UInt16: return 2;
    case Element::Int32:
    case Element::Float32: return 4;
    case Element::Int64:
    case Element::UInt64: return 8;
    case Element::Stored: break;
  }
  return dtype == DType::F16 ? 2 : 4;
}

const char* text_of(Element element) {
  constexpr const char* kTexts[] = {
      "uint8", "uint16", "int32", "int64", "uint64", "float32", "float16 or float32"};
  return kTexts[static_cast<std::size_t>(element)];
}

std::string shape_text(const FieldInfo& field) {
  std::vector<std::string> symbols;
  for (const Axis axis : field.axes) symbols.emplace_back(axis_info(axis).symbol);
  return fmt::format("[{}]", fmt::join(symbols, ", "));
}

const char* axis_name(Axis axis) { return axis_info(axis).name; }

}  // namespace kvloupe::trace
