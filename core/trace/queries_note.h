// What a user is told of a trace that has the queries of some chunks only.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::trace {

struct TraceInfo;

// One sentence; empty where it has those of all chunks.
std::string queries_note(const TraceInfo& info);
// "chunk 3", "chunks 1, 3 to 5"
std::string text_of_chunks(const std::vector<int>& ascending);

}  // namespace kvloupe::trace
