#include "capture/model/rope.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kvloupe::capture {
namespace {

void scale_by_wavelength(const RopeForm& form, std::vector<float>& frequencies) {
  const double longest = form.original_context / form.low_freq_factor;
  const double shortest = form.original_context / form.high_freq_factor;
  for (float& frequency : frequencies) {
    const double wavelength = 2 * std::numbers::pi / static_cast<double>(frequency);
    if (wavelength < shortest) continue;
    const double slow = static_cast<double>(frequency) / form.factor;
    if (wavelength > longest) {
      frequency = static_cast<float>(slow);
      continue;
    }
    const double share = (form.original_context / wavelength - form.low_freq_factor) /
                         (form.high_freq_factor - form.low_freq_factor);
    frequency = static_cast<float>((1 - share) * slow + share * static_cast<double>(frequency));
  }
}

// The channel that turns `turns` times within the context.
double channel_of_turns(const RopeForm& form, std::int64_t head_dim, double turns) {
  return static_cast<double>(head_dim) *
         std::log(form.original_context / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(form.theta));
}

// Fast channels keep their frequency, slow ones are divided by the factor, a ramp between them.
void scale_by_parts(const RopeForm& form, std::int64_t head_dim, std::vector<float>& frequencies) {
  double low = channel_of_turns(form, head_dim, form.beta_fast);
  double high = channel_of_turns(form, head_dim, form.beta_slow);
  if (form.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    const auto plain = static_cast<double>(frequencies[i]);
    frequencies[i] = static_cast<float>(plain / form.factor * ramp + plain * (1 - ramp));
  }
}

const char* name_of(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::None: return "default";
    case RopeScaling::Linear: return "linear";
    case RopeScaling::Llama3: return "llama3";
    case RopeScaling::Yarn: return "yarn";
  }
  return "";
}

nlohmann::ordered_json json_of(const RopeForm& form) {
  nlohmann::ordered_json json{{"rope_type", name_of(form.scaling)}, {"rope_theta", form.theta}};
  if (form.scaling == RopeScaling::None) return json;
  if (!form.divisors.empty()) {
    // A file that has these does not say what they were made from.
    json["divisors"] = form.divisors;
    return json;
  }
  json["factor"] = form.factor;
  if (form.scaling == RopeScaling::Linear) return json;
  json["original_max_position_embeddings"] = form.original_context;
  if (form.scaling == RopeScaling::Llama3) {
    json["low_freq_factor"] = form.low_freq_factor;
    json["high_freq_factor"] = form.high_freq_factor;
  } else {
    json["beta_fast"] = form.beta_fast;
    json["beta_slow"] = form.beta_slow;
    json["truncate"] = form.truncate;
    json["attention_factor"] = rope_frequencies(form, 2).magnitude;
  }
  return json;
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeForm& form, std::int64_t head_dim) {
  RopeFrequencies rope;
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    // In fp32 on purpose: angles rounded as in training, where they reach thousands of radians.
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    rope.frequencies.push_back(1.0F / std::pow(static_cast<float>(form.theta), exponent));
  }
  if (!form.divisors.empty()) {
    for (std::size_t i = 0; i < rope.frequencies.size(); ++i)
      rope.frequencies[i] /= form.divisors[i];
    return rope;
  }
  switch (form.scaling) {
    case RopeScaling::None: break;
    case RopeScaling::Linear:
      for (float& frequency : rope.frequencies) frequency /= static_cast<float>(form.factor);
      break;
    case RopeScaling::Llama3: scale_by_wavelength(form, rope.frequencies); break;
    case RopeScaling::Yarn:
      scale_by_parts(form, head_dim, rope.frequencies);
      rope.magnitude = static_cast<float>(
          form.attention_factor > 0 ? form.attention_factor : 0.1 * std::log(form.factor) + 1);
      break;
  }
  return rope;
}

std::string rope_scaling_text(const ModelConfig& model) {
  if (model.ropes.size() == 1) {
    const RopeForm& only = model.ropes.front();
    return only.scaling == RopeScaling::None && only.divisors.empty() ? "none"
                                                                      : json_of(only).dump();
  }
  const RopeForm& full = model.ropes[0];
  nlohmann::ordered_json json = full.scaling == RopeScaling::None && full.divisors.empty()
                                    ? nlohmann::ordered_json::object()
                                    : json_of(full);
  json["sliding_attention"] = json_of(model.ropes[1]);
  return json.dump();
}

}  // namespace kvloupe::capture
