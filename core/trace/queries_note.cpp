#include "core/trace/queries_note.h"

#include "core/trace/trace_types.h"

#include <fmt/format.h>

namespace kvloupe::trace {

std::string queries_note(const TraceInfo& info) {
  if (info.query_offsets.empty()) return {};
  if (info.chunks_with_queries().empty())
    return "no queries are stored: nothing is computed from them";
  return fmt::format(
      "queries are stored of {} alone, of {}: what is computed from queries is of these",
      text_of_query_chunks(info), info.chunks.size());
}

}  // namespace kvloupe::trace
