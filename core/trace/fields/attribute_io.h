// The attributes of attributes.h in an HDF5 file: a struct for each group, whose members they are.
#pragma once

#include "core/trace/capture_request.h"
#include "core/trace/capture_speed.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace kvloupe::trace {

// Of "/". The marks that plotting programs look for are not among them.
struct RootAttributes {
  std::string format, schema_version, producer, created;
  LoopMode mode = LoopMode::OpenLoop;
  DType dtype = DType::F16;
  std::int64_t chunks_done = 0;
  bool complete = false;
};
struct ProbeAttributes {
  std::string text;
  int num_tokens = 0;
};

// Of RootAttributes, ModelInfo, SoftmaxForm, RunInfo, ProbeAttributes, CaptureRequest and ModelSpeed. What a struct
// has no value of is left out. `prefix` comes before the names.
template <typename Struct>
void write_attributes(hid_t group, const Struct& values, const std::string& prefix = "");
// Throws Defect where the group cannot be read; what else is absent or wrong stays as it is in `values`,
// with a warning. `of` follows a name in sentences: " of /model". Returns the names found.
template <typename Struct>
std::set<std::string> read_attributes(hid_t group, const std::string& of, Struct& values,
                                      std::vector<std::string>& warnings,
                                      const std::string& prefix = "");

}  // namespace kvloupe::trace
