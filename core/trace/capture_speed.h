// How fast a capture was, the model's loading left out. Kept in the group /capture of the trace.
#pragma once

#include <optional>
#include <string>

namespace kvloupe::trace {

// Of a model that ran chunk by chunk, all that was recorded meanwhile included.
struct ModelSpeed {
  double ttft_ms = 0;  // from the first chunk until the first new token could be sampled
  double prefill_tokens_per_s = 0;
  double decode_tokens_per_s = 0;  // 0 where nothing was decoded
};
// "time to first token 1.3 s, prefill 812.5 tokens/s, decode 40.1 tokens/s".
std::string text_of(const ModelSpeed& speed);

struct CaptureSpeed {
  ModelSpeed model;
  std::optional<ModelSpeed> dense;  // beside a closed loop, on the same tokens
};

}  // namespace kvloupe::trace
