// The frequencies of a rotary embedding, plain and scaled to longer contexts.
#pragma once

#include "capture/model/model_config.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::capture {

// The pair i of a head is turned by position * frequencies[i], and what is rotated multiplied by
// `magnitude`.
struct RopeFrequencies {
  std::vector<float> frequencies;  // [head_dim / 2]
  float magnitude = 1;
};
// In fp32, as models are trained with. Linear (arXiv 2306.15595), Llama 3's by wavelength
// (arXiv 2407.21783) and YaRN (arXiv 2309.00071, "NTK-by-parts" and its temperature).
RopeFrequencies rope_frequencies(const RopeForm& form, std::int64_t head_dim);

// As a trace tells it: "none", or JSON of what differs from one plain embedding.
std::string rope_scaling_text(const ModelConfig& model);

}  // namespace kvloupe::capture
