// A smaller trace made of a part of another one: some layers, the first chunks, some runs.
#pragma once

#include "core/base/cancel.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::trace {

struct SliceRequest {
  std::vector<int> layers;               // ascending; empty: all
  std::optional<int> until_chunk = {};   // the last one, itself included; else all that are done
  std::optional<std::vector<int>> runs;  // by the numbers in info().runs; else all
  std::optional<DType> dtype = {};       // of q, k and v; else that of the trace
};

struct Slice {
  std::int32_t num_tokens = 0;
  int num_chunks = 0;
  std::vector<int> layers;
  int num_runs = 0;
  std::uint64_t bytes = 0;
  std::vector<std::string> left_out;  // what was stored and could not go along, one sentence each
};

// Writes the trace `to`. Sets are those of the trace, and so is what is selected anew where the type
// is kept: q, k, v keep their bits then. Keys that die after the last chunk are alive. Runs of the
// sidecar become runs of the slice. lse and key_mass belong to the stored values, so they are left out
// where these are rounded to float16. The slice tells no prompt, so no capture goes on from it.
// Throws Error{Input}: a layer, chunk or run that the trace has not, a closed loop without its own
// run, values beyond float16; or as TraceWriter.
Slice slice_trace(const std::filesystem::path& from, const SliceRequest& request,
                  const std::filesystem::path& to, bool overwrite, const WorkContext& context = {});

}  // namespace kvloupe::trace
