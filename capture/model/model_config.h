// What a model file says of the model besides its weights: checked, without Torch.
#pragma once

#include "capture/model/gguf.h"
#include "core/base/error.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <string>

namespace kvloupe::capture {

struct ModelConfig {
  trace::ModelInfo info;
  std::int64_t context_length = 0;
  std::int64_t ffn_size = 0;
  double rms_norm_eps = 0;
};

// Throws Error{Input} for what is missing, damaged or not implemented, naming the key.
ModelConfig read_config(const GgufFile& file);

// Sentences for what a file holds: nothing that the decoder knows; nothing that makes sense.
Error unsupported(const GgufFile& file, std::string why);
Error damaged(const GgufFile& file, std::string why);

}  // namespace kvloupe::capture
