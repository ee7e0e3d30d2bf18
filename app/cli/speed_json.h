// How the commands print the speed of a capture in JSON.
#pragma once

#include "core/trace/capture_speed.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace kvloupe::cli {

inline nlohmann::ordered_json speed_json(const trace::ModelSpeed& speed) {
  return {{"ttft_ms", speed.ttft_ms},
          {"prefill_tokens_per_s", speed.prefill_tokens_per_s},
          {"decode_tokens_per_s", speed.decode_tokens_per_s}};
}

// null where the trace does not say, and in "dense" without a drift.
inline nlohmann::ordered_json speed_json(const std::optional<trace::CaptureSpeed>& speed) {
  if (!speed) return nullptr;
  nlohmann::ordered_json json = speed_json(speed->model);
  json["dense"] = speed->dense ? speed_json(*speed->dense) : nlohmann::ordered_json(nullptr);
  return json;
}

}  // namespace kvloupe::cli
