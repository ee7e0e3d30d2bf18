#include "core/trace/trace_header.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/units.h"
#include "core/trace/trace_layout.h"
#include "core/trace/trace_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

std::uint64_t expected_bytes(const TraceHeader& header) {
  const auto tokens = static_cast<std::uint64_t>(header.max_tokens);
  const auto layers = static_cast<std::uint64_t>(header.layers.size());
  const auto heads = static_cast<std::uint64_t>(header.model.num_q_heads);
  const auto kv_heads = static_cast<std::uint64_t>(header.model.num_kv_heads);
  const auto dim = static_cast<std::uint64_t>(header.model.head_dim);
  std::uint64_t bytes = 1 << 20;
  if (header.store_qkv) {
    bytes += layers * tokens * (heads + 2 * kv_heads) * dim * element_bytes(header.dtype);
  }
  if (header.store_lse) bytes += layers * tokens * heads * 4;
  // Prefill chunks alone have a probe, and decoded tokens are chunks too: counted as they come.
  const auto chunks = static_cast<std::uint64_t>(header.max_chunks);
  if (header.store_nll) bytes += tokens * 4;
  if (header.store_top) bytes += chunks * kTopTokens * 8;
  if (header.store_drift) bytes += tokens * 9 + chunks * (layers * 8 + kTopTokens * 8);
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
  KVLOUPE_CHECK(header.store_nll || (header.probe_len == 0 && !header.store_drift));
  KVLOUPE_CHECK(!header.store_drift || !header.layers.empty());
  KVLOUPE_CHECK(header.probe_len >= 0 && header.probe_len <= kMaxProbeTokens);
  KVLOUPE_CHECK(header.probe_ids.empty() ||
                header.probe_ids.size() == static_cast<std::size_t>(header.probe_len));
}

}  // namespace kvloupe::trace
