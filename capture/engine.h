// What of the engine (core/engine/engine.h) is capture's.
#pragma once

#include "capture/model/model_library.h"
#include "capture/model/optional_model.h"
#include "capture/run/calibrate.h"
#include "capture/run/capture.h"
#include "capture/run/linear_bench.h"
#include "capture/run/own_spans.h"
#include "capture/run/prefill_bench.h"
#include "capture/run/request_run.h"
#include "capture/run/synthetic.h"
#include "capture/tasks/task.h"
#include "core/base/engine_library.h"

namespace kvloupe {

// What the program calls. To call another function of capture, add its line.
#define KVLOUPE_CAPTURE_ENGINE(X)                      \
  X(basis_maker, capture::basis_maker)                 \
  X(bench_linear, capture::bench_linear)               \
  X(bench_prefill, capture::bench_prefill)             \
  X(fetch, capture::fetch)                             \
  X(find_models, capture::find_models)                 \
  X(find_optional_model, capture::find_optional_model) \
  X(model_folders, capture::model_folders)             \
  X(options_left, capture::options_left)               \
  X(parse_named_texts, capture::parse_named_texts)     \
  X(parse_task, capture::TaskSpec::parse)              \
  X(request_inputs, capture::request_inputs)           \
  X(run_calibration, capture::run_calibration)         \
  X(run_capture, capture::run_capture)                 \
  X(run_requests, capture::run_requests)               \
  X(string_match_all, capture::string_match_all)       \
  X(synthesize, capture::synthesize)                   \
  X(task_catalogue, capture::task_catalogue)

struct CaptureEngine {
#define KVLOUPE_FIELD(field, function) decltype(&kvloupe::function) field;
  KVLOUPE_CAPTURE_ENGINE(KVLOUPE_FIELD)
#undef KVLOUPE_FIELD
};

// Loads the engine where that was not done before; throws as load_engine().
inline const CaptureEngine& capture_engine() {
  static const CaptureEngine& table =
      *static_cast<const CaptureEngine*>(engine_table("kvloupe_capture_engine"));
  return table;
}

}  // namespace kvloupe
