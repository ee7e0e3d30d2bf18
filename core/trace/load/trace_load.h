// Reading and checking what a trace says about itself; shared by the reader, the sidecar and
// validate.
#pragma once

#include "core/base/error.h"
#include "core/trace/capture_request.h"
#include "core/trace/fields/fields.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/next_tokens.h"
#include "core/trace/runs/run_codec.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::trace {

// The datasets of one captured layer; empty where not recorded or damaged.
struct LayerSources {
  h5::Dataset q, k, v, lse, key_mass, probe_q;
};

// The datasets of next_tokens.h; empty where not recorded or damaged.
struct TopSources {
  h5::Dataset ids, log_probs;  // [C, kTopTokens]
};
struct DriftSources {
  h5::Dataset nll, kl, agrees;  // [T]
  h5::Dataset q, k;             // [C, recorded layers]
  h5::Dataset generated, text, text_offsets;
  TopSources top;
};

struct LoadedTrace {
  TraceInfo info;
  std::map<int, LayerSources> layers;
  h5::Dataset ids;
  bool has_texts = false;
  std::vector<std::int64_t> mass_offsets;  // [C+1], empty when not recorded
  std::map<Field, h5::Dataset> values;     // of what stands alone, as far as it is recorded
  TopSources top;
  DriftSources drift;
};

// Runs `body`; what is wrong becomes a warning, and the part is left out.
template <typename Body>
void tolerate(std::vector<std::string>& warnings, const Body& body) {
  try {
    body();
  } catch (const h5::Defect& defect) {
    warnings.emplace_back(defect.what());
  }
}

// Throws Defect for what makes a trace unreadable, Error for a file that is no trace or too
// new; all else that is wrong goes to info.warnings and is left out.
LoadedTrace load_trace(hid_t file, const std::string& path);

// Throws Error{Input} unless `file` has this format and a major version that we read.
std::string require_format(hid_t file, const std::string& path, std::string_view format,
                           const char* noun);

// Appends the runs found in `file`, numbered from `first_id`; those that cannot be read give a
// warning. The number in the file is id - first_id.
void load_runs(hid_t file, const ModelInfo& model, int first_id, bool from_sidecar,
               std::vector<RunInfo>& runs, std::vector<std::string>& warnings);
// Throws Defect.
RunLayer load_run_layer(hid_t file, int number_in_file, const RunInfo& run, int layer,
                        const TraceInfo& info);
bool has_scores(hid_t file, int number_in_file, int layer);
// What the method gave the candidates of one chunk, by row and position; empty where the run has no
// scores, a row where the cell is dense. Throws Defect.
std::vector<std::vector<float>> load_run_scores(hid_t file, int number_in_file, const RunInfo& run,
                                                int layer, const TraceInfo& info, int chunk);

// What is said of a trace in which a defect was met.
Error unreadable_trace(const std::string& path, const std::string& why);

// Names the content of a trace (see FORMAT.md, "Sidecar").
std::string hash_of_trace(const LoadedTrace& trace);

// Rows [begin, end) of one head, of `num_rows`, as fp32.
void read_head_rows(const h5::Dataset& dataset, int head, std::int64_t begin, std::int64_t end,
                    std::int64_t num_rows, float* out);
// Any box of a dataset of q's types as fp32; `count` has as many numbers as the dataset has axes.
void read_widened(const h5::Dataset& dataset, const std::vector<hsize_t>& start,
                  const std::vector<hsize_t>& count, float* out);
// Whether it is float16 or float32, in either byte order.
bool has_stored_type(const h5::Dataset& dataset);

// What stands alone (FieldInfo). What is wrong goes to the warnings and is left out.
void load_values(hid_t file, LoadedTrace& trace);
// /probe and the layers' probe_q. The same.
void load_probe(hid_t file, LoadedTrace& trace);
// [num_q_heads, probe_len, head_dim] of a prefill chunk.
std::vector<float> load_probe_rows(const LoadedTrace& trace, int layer, int chunk);

// The most probable next tokens and /drift. What is wrong goes to the warnings and is left out.
void load_next_tokens(hid_t file, LoadedTrace& trace);
// All chunks; empty where not recorded.
TopTokens load_top(const TopSources& top, const TraceInfo& info);
// Only where info.has_drift.
Drift load_drift(const LoadedTrace& trace);

// /tokens/spans, none where absent. Throws Defect.
std::vector<TokenSpan> load_spans(hid_t file);
// Whether the trace has texts; throws Defect unless the bytes of every token can be told apart.
bool check_token_texts(hid_t file, std::int32_t num_tokens);
// Nothing in a trace that another program made, or an older version. Throws Defect.
std::optional<CaptureRequest> load_request(hid_t file);
// The same. Throws Defect.
std::optional<CaptureSpeed> load_speed(hid_t file);

std::vector<std::int32_t> load_token_ids(const LoadedTrace& trace);
std::vector<std::string> load_token_texts(hid_t file, const LoadedTrace& trace);

}  // namespace kvloupe::trace
