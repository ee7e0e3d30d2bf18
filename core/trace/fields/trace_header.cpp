#include "core/trace/fields/trace_header.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/trace/fields/fields.h"
#include "core/trace/fields/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

std::uint64_t expected_bytes(const TraceHeader& header) {
  std::uint64_t bytes = 1 << 20;
  for (const FieldInfo& field : all_fields()) {
    if (!header.store.has_all(field.parts) || field.grows() || field.of_run()) continue;
    std::uint64_t values = field.by_layer() ? header.layers.size() : 1;
    for (const std::uint64_t extent : shape_of(field, sizes_of(header))) values *= extent;
    bytes += values * bytes_of(field.element, header.dtype);
  }
  return bytes;
}

}  // namespace

void require_space(const fs::path& path, const TraceHeader& header) {
  const std::uint64_t bytes = expected_bytes(header);
  std::error_code code;
  const auto space = fs::space(folder_of(path), code);
  if (code || space.available >= bytes) return;
  throw input_error("cannot record " + path.string(),
                    fmt::format("it needs {} and the disk has {} free", format_bytes(bytes),
                                format_bytes(space.available)),
                    "free disk space, or record fewer layers or tokens");
}

void check_header(const TraceHeader& header) {
  const auto& model = header.model;
  KVLOUPE_CHECK(model.num_layers > 0 && model.head_dim > 0 && model.num_kv_heads > 0);
  KVLOUPE_CHECK(model.num_q_heads > 0 && model.num_q_heads % model.num_kv_heads == 0);
  KVLOUPE_CHECK(header.max_tokens > 0 && header.max_chunks > 0 && header.max_chunks < kAlive);
  KVLOUPE_CHECK(std::is_sorted(header.layers.begin(), header.layers.end()));
  KVLOUPE_CHECK(header.layers.empty() ||
                (header.layers.front() >= 0 && header.layers.back() < model.num_layers));
  for (std::size_t i = 0; i < header.runs.size(); ++i) {
    KVLOUPE_CHECK(header.runs[i].id == static_cast<int>(i));
    KVLOUPE_CHECK(header.runs[i].q_heads_per_row > 0 &&
                  model.num_q_heads % header.runs[i].q_heads_per_row == 0);
  }
  KVLOUPE_CHECK(header.store == with_needed(header.store));
  KVLOUPE_CHECK(header.store.has(Part::SomeQueries) == !header.query_offsets.empty());
  KVLOUPE_CHECK(!header.store.has(Part::Drift) || !header.layers.empty());
  KVLOUPE_CHECK(header.probe_len >= 0 && header.probe_len <= kMaxProbeTokens);
  KVLOUPE_CHECK(header.store.has(Part::Probe) == (header.probe_len > 0));
  KVLOUPE_CHECK(header.probe_ids.empty() ||
                header.probe_ids.size() == static_cast<std::size_t>(header.probe_len));
}

}  // namespace kvloupe::trace
