// `kvloupe run`: one model answers many requests (request.h), densely or in the closed loop of a method.
#pragma once

#include "core/base/cancel.h"
#include "core/base/compute_type.h"
#include "core/base/output_file.h"
#include "core/device/default_device.h"
#include "core/selection/spec/method_spec.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::capture {

struct LoadedModel;  // model.h

struct RequestOptions {
  std::string model;
  std::optional<selection::MethodSpec> closed_loop;
  int chunk_size = 128;
  ComputeType compute = ComputeType::Fp32;
  trace::DType dtype =
      trace::DType::F32;                  // F16: q, k and v take the values that an f16 trace holds
  std::string device = device::kDefault;  // as device::parse_device() takes it
  // Ids, as JSON, of what an earlier call answered, each as often as it did: these lines are passed over.
  std::vector<std::string> answered;
};

struct RequestLines {
  std::function<std::optional<std::string>()> next;  // without its end; nothing after the last
  // An answer, a line of JSON without its end.
  std::function<void(const std::string& line, bool is_error)> answer;
};

struct RequestTotals {
  std::int64_t answered = 0, errors = 0, passed_over = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t shared_tokens = 0;  // of these: prefilled once for an earlier request
};

// The files that such a run reads.
InputFiles request_inputs(const RequestOptions& options);

// Answers line by line; what is wrong with a request is its answer. Throws Error for what concerns all of them: the model,
// the device, the method, Ctrl+C (Cancelled, between two tokens), and what `lines` throws.
RequestTotals run_requests(const RequestOptions& options, const RequestLines& lines,
                           const WorkContext& context);
// The same with a model that is on options.device already; options.model and options.compute are not read.
RequestTotals answer_requests(std::shared_ptr<const LoadedModel> model,
                              const RequestOptions& options, const RequestLines& lines,
                              const WorkContext& context);

}  // namespace kvloupe::capture
