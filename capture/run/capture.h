// `kvloupe capture`: runs a model in chunked prefill and decode and records a trace.
#pragma once

#include "capture/run/own_spans.h"
#include "capture/tasks/task.h"
#include "core/base/cancel.h"
#include "core/device/default_device.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/fields/stored_parts.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct LoadedModel;  // model.h

struct CaptureOptions {
  std::string model;
  // Exactly one of these four.
  std::optional<std::string> prompt_text;
  std::optional<std::filesystem::path> prompt_file;    // "-": standard input
  std::optional<std::filesystem::path> messages_file;  // JSON list of {role, content}
  std::optional<std::string> task;                     // task SPEC
  std::vector<NamedText> spans;                        // named by the user
  // A span's name or a position: from there on the prompt is fed token by token, as decode chunks
  // (decode_from.h). Empty: all of it is prefilled.
  std::string decode_from;
  bool raw = false;
  bool special = false;      // raw, and special tokens in the text are tokens
  bool begin_token = false;  // raw, and the text comes after the token that begins one
  int chunk_size = 128;
  std::vector<selection::MethodSpec> methods;  // open loop
  std::optional<selection::MethodSpec> closed_loop;
  std::vector<int> layers;  // ascending; empty: all
  ComputeType compute = ComputeType::Fp32;
  trace::DType dtype = trace::DType::F16;
  // Methods and tasks add what they need. Part::Drift: closed loop only, with the dense model beside
  // it (dense_twin.h).
  trace::StoredParts store = {trace::Part::Qkv, trace::Part::Lse};
  bool mass_if_small = true;  // Part::Mass too, where it is at most a quarter of q, k, v
  int max_new_tokens = 0;
  std::string device = device::kDefault;  // as device::parse_device() takes it
  std::int64_t seed = 0;
  bool force = false;
  bool estimate_only = false;  // ends once on_estimate was called: nothing is written
  bool resume = false;  // go on with output.part; what is asked for must be what it was begun with
  std::filesystem::path output;
  // Instead of one of the four above: the tokens of a capture that goes on.
  std::optional<TaskPrompt> tokens;
};

// What the capture that left output.part was asked for, to be resumed: all but `model` where that is
// a file. Throws Error{Input}.
CaptureOptions options_left(const std::filesystem::path& output);

// Bytes of the device's memory.
struct MemoryPlan {
  std::uint64_t weights = 0, caches = 0, working = 0;
  std::uint64_t total() const { return weights + caches + working; }
};

struct CaptureEstimate {
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;  // of the trace
  double seconds = 0;
  MemoryPlan memory;
  // What was counted: the prompt in it, and where its named spans stand.
  std::int64_t prompt_tokens = 0;
  std::int64_t prefill_tokens = 0;  // of these
  int chunks = 0;
  std::vector<int> layers;  // recorded
  int num_layers = 0;       // of the model
  std::vector<trace::TokenSpan> spans;
};

// Where a capture's time goes, besides the model's own products. On a GPU that computes while the
// next step is asked for: the asking.
struct RecorderTimes {
  double attention_seconds = 0;
  double selection_seconds = 0;
  double copy_seconds = 0;  // to the stored type
  double wait_seconds = 0;  // for the writer
};

struct CaptureReport {
  std::int64_t tokens = 0;
  std::int64_t decoded = 0;  // of these, after the prompt
  int chunks = 0;
  bool complete = false;
  double total_seconds = 0;  // from the first token on until the trace is complete on disk
  std::optional<trace::CaptureSpeed> speed;
  RecorderTimes times;
  std::uint64_t bytes = 0;
  std::string answer;                                // decoded new tokens
  std::string dense_answer;                          // with the drift: the dense model's own
  std::optional<double> mean_loss, mean_dense_loss;  // nat a token, where losses are stored
  std::vector<std::string> expected_answers;         // of a task: all of them must be in the answer
  std::int64_t marked_cells = 0;                     // cells where stored values hold NaN or Inf
};

// `on_estimate` is called once before the model runs. Ctrl+C (context.cancel) ends after the chunk
// in flight and leaves a valid trace with complete=0.
CaptureReport run_capture(const CaptureOptions& options,
                          const std::function<void(const CaptureEstimate&)>& on_estimate,
                          const WorkContext& context);
// The same with a model that is on options.device already; options.model and options.compute are not
// read.
CaptureReport capture_with(std::shared_ptr<const LoadedModel> model, const CaptureOptions& options,
                           const std::function<void(const CaptureEstimate&)>& on_estimate,
                           const WorkContext& context);

}  // namespace kvloupe::capture
