// Creating the groups of a trace, with the attributes that make it self-describing.
#pragma once

#include "core/trace/hdf5/hdf5.h"
#include "core/trace/trace_writer.h"

#include <string>
#include <vector>

namespace kvloupe::trace {

h5::Handle create_vector(hid_t at, const std::string& path, hid_t type, hsize_t size,
                         const char* axis, const char* units, const char* long_name);

void write_root(hid_t file, const TraceHeader& header);
void write_model(hid_t file, const ModelInfo& model);
// /probe, with a probe.
void write_probe_text(hid_t file, const TraceHeader& header);
// /capture.
void write_request(hid_t file, const CaptureRequest& request);
// After the request.
void write_speed(hid_t file, const CaptureSpeed& speed);
// The groups of the fields (fields.h), their softmax, plots and spans; the fields themselves come
// after it.
void write_groups(hid_t file, const TraceHeader& header);

}  // namespace kvloupe::trace
