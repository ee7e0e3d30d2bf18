// Creating the groups and datasets of a trace, with the attributes that make it self-describing.
#pragma once

#include "core/trace/hdf5.h"
#include "core/trace/trace_writer.h"

#include <string>
#include <vector>

namespace kvloupe::trace {

// The datasets of one captured layer; those not stored are empty handles.
struct LayerDatasets {
  int layer = 0;
  h5::Handle q, k, v;   // [heads, T, head_dim]
  h5::Handle lse;       // [num_q_heads, T]
  h5::Handle key_mass;  // [N]
  h5::Handle probe_q;   // [chunks, num_q_heads, probe_len, head_dim]
};

struct TokenDatasets {
  h5::Handle ids, text, text_offsets;
  h5::Handle nll;
  h5::Handle begin, length, phase, mass_offsets;
};

hid_t stored_type(DType dtype);
std::uint64_t element_bytes(DType dtype);

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
TokenDatasets create_tokens(hid_t file, const TraceHeader& header);
// Creates /layers too.
std::vector<LayerDatasets> create_layers(hid_t file, const TraceHeader& header);

}  // namespace kvloupe::trace
