// What is said of a trace that has the queries of some chunks only.
#pragma once

#include <string>

namespace kvloupe::trace {

struct TraceInfo;

// One sentence; empty where it has those of all chunks.
std::string queries_note(const TraceInfo& info);

}  // namespace kvloupe::trace
