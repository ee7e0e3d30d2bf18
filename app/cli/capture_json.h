// What `kvloupe capture` says as JSON: before it starts, while it runs, and at its end.
#pragma once

#include "capture/run/capture.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace kvloupe::cli {

// What was asked for, by the names of the options; null where an option was not given.
nlohmann::ordered_json request_json(const capture::CaptureOptions& options);
// What it will take, and what it was counted from.
nlohmann::ordered_json estimate_json(const capture::CaptureEstimate& estimate,
                                     const capture::CaptureOptions& options);
nlohmann::ordered_json report_json(const capture::CaptureReport& report,
                                   const capture::CaptureOptions& options);
// What became of the question that a task asks: the share of its expected answers that was found.
double score_of(const capture::CaptureReport& report);

// `--events`: one line of JSON for everything that happens, delivered at once.
void print_event(const std::string& name, const nlohmann::ordered_json& json);
nlohmann::ordered_json progress_json(std::int64_t done, const capture::CaptureEstimate& estimate,
                                     int chunk_size, const std::string& pace);

}  // namespace kvloupe::cli
