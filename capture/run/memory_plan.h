// What a capture needs of its device's memory, said and checked before it starts.
#pragma once

#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "capture/run/recorder.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::capture {

MemoryPlan plan_memory(const LoadedModel& model, const RecorderOptions& options,
                       const std::vector<trace::ChunkInfo>& chunks);

// Throws Error{Input} where `device`, a GPU, has less than that: `present` bytes.
void require_memory(const MemoryPlan& plan, const std::string& device, std::uint64_t present);

}  // namespace kvloupe::capture
