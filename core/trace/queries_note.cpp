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

std::string text_of_chunks(const std::vector<int>& ascending) {
  std::string text = ascending.size() == 1 ? "chunk " : "chunks ";
  for (std::size_t first = 0, end = 0; first < ascending.size(); first = end) {
    for (end = first + 1; end < ascending.size() && ascending[end] == ascending[end - 1] + 1;
         ++end) {
    }
    if (first > 0) text += ", ";
    text += std::to_string(ascending[first]);
    if (end - first > 1) text += fmt::format(" to {}", ascending[end - 1]);
  }
  return text;
}

}  // namespace kvloupe::trace
