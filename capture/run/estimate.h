// What a capture will take, said before it starts.
#pragma once

#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "capture/run/recorder.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <vector>

namespace kvloupe::capture {

// The chunks of a prompt and `decode_steps` tokens after it.
std::vector<trace::ChunkInfo> plan_chunks(std::int64_t prompt_tokens, std::int64_t decode_steps,
                                          int chunk_size);

// Bytes of q, k and v, and of the key mass, that a trace of these chunks would hold.
std::uint64_t qkv_bytes(const trace::ModelInfo& model, const RecorderOptions& options,
                        const std::vector<trace::ChunkInfo>& chunks);
std::uint64_t mass_bytes(const trace::ModelInfo& model, const RecorderOptions& options,
                         const std::vector<trace::ChunkInfo>& chunks);

// Bytes are counted. The time comes from a run, of some 50 ms, of one layer's products and one
// chunk's attention on the model's device.
CaptureEstimate estimate_capture(const LoadedModel& model, const RecorderOptions& options,
                                 const std::vector<trace::ChunkInfo>& chunks);

}  // namespace kvloupe::capture
