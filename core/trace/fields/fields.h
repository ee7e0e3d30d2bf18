// The datasets of a trace, each declared once, in fields.def: where it stands, its type, shape and unit, what it
// belongs to and since which schema. Writing, reading, copying, trimming and the estimate of a trace's size
// follow this table.
#pragma once

#include "core/trace/fields/stored_parts.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace kvloupe::trace {

enum class DType;
struct RunInfo;
struct TraceHeader;
struct TraceInfo;

enum class Field {
#define KVLOUPE_FIELD(id, ...) id,
#include "core/trace/fields/fields.def"
#undef KVLOUPE_FIELD
};

// Of one value; Stored is the trace's dtype, float16 or float32.
enum class Element { UInt8, UInt16, Int32, Int64, UInt64, Float32, Stored };

// What an axis counts.
enum class Axis {
  Token,
  TokenEnd,  // one more than tokens: where each begins, and the end
  Chunk,
  ChunkEnd,
  Query,  // a token whose query is stored
  QHead,
  KvHead,
  Channel,
  Rank,  // of the most probable next tokens
  Layer,
  ProbeToken,
  ProbeChunk,  // up to the last chunk of prefill
  TextByte,
  MassValue,
  Row,
  Cell,
  CellEnd,
  Lane,
  Selected,
  Bound,
  MaskByte,
  QueryBlock,
  TableEntry,
  Step,         // sampled tokens
  AnswerToken,  // of the dense model's answer
  AnswerByte,
  AnswerEnd,
  Score,  // of a candidate of a cell that chooses
};

struct FieldInfo {
  Field id;
  const char* path;
  StoredParts parts;  // it is stored where all of these are
  bool optional;      // whether a reader accepts a trace without it
  int since;          // minor version of the schema
  Element element;
  std::vector<Axis> axes;
  const char* unit;
  const char* long_name;  // null: the dataset has none

  bool by_layer() const;
  bool of_run() const;  // in each of its layers
  // Is empty at first and extended by what is written to it.
  bool grows() const;
  // Whether it is read by itself, by TraceReader::read(): nothing else of the trace depends on it.
  bool stands_alone() const;
  // Whether it is one of those, and every trace has room for it: float32, NaN where nobody writes it.
  bool is_given() const;
  // Has values of every chunk; else it is written once, at the end.
  bool by_chunk() const;
};

std::span<const FieldInfo> all_fields();
const FieldInfo& info_of(Field field);

// How many of each a trace has, or has room for.
struct FieldSizes {
  std::uint64_t tokens = 0, chunks = 0, queries = 0;
  std::uint64_t q_heads = 0, kv_heads = 0, head_dim = 0;
  std::uint64_t layers = 0, probe_tokens = 0;
  std::uint64_t text_bytes = 0, mass_values = 0, probe_chunks = 0;
  // Of one run in one layer.
  std::uint64_t rows = 0, selected = 0, bounds = 0;
  std::uint64_t mask_bytes = 0, query_blocks = 0, table_entries = 0;
};
FieldSizes sizes_of(const TraceHeader& header);  // all that it may become
FieldSizes sizes_of(const TraceInfo& info);      // what the chunks done need

// What a run of this kind stores.
StoredParts parts_of(const RunInfo& run);
std::string path_of(const FieldInfo& field, int layer, int run = 0);
std::vector<std::uint64_t> shape_of(const FieldInfo& field, const FieldSizes& sizes);
// Whether a file may have more than is used along the axis.
bool may_exceed(Axis axis);
std::uint64_t bytes_of(Element element, DType dtype);

// The element whose values a program has as T.
template <typename T>
constexpr Element element_of() {
  if constexpr (std::is_same_v<T, std::int32_t>) return Element::Int32;
  if constexpr (std::is_same_v<T, float>) return Element::Float32;
}

// As FORMAT.md writes them: "int32", "[C, H]"; and as the attribute `axes` does: "q_head".
const char* text_of(Element element);
std::string shape_text(const FieldInfo& field);
const char* axis_name(Axis axis);

}  // namespace kvloupe::trace
