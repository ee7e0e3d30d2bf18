// What is asked of a trace before its file is begun.
#pragma once

#include "core/trace/trace_writer.h"

#include <filesystem>

namespace kvloupe::trace {

// Our own invariants.
void check_header(const TraceHeader& header);
// Throws Error{Input} where the disk has less room than the trace will take at least.
void require_space(const std::filesystem::path& path, const TraceHeader& header);

}  // namespace kvloupe::trace
