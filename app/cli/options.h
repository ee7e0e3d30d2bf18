// Option values that several subcommands read the same way (all throw Error{Usage}), and what they
// say alike.
#pragma once

#include "app/cli/commands.h"
#include "core/base/cancel.h"
#include "core/replay/compare.h"
#include "core/session/session.h"
#include "core/trace/trace_types.h"

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

// "all" is nothing, "7" is 7.
std::optional<int> parse_index_or_all(const std::string& option, const std::string& text);
// "3-5" is 3, 4, 5; "7" is 7 alone.
std::vector<int> parse_index_range(const std::string& option, const std::string& text);

// A finite number from `least` to `most`: CLI::Range lets NaN pass.
CLI::Validator finite_range(double least, double most);

// What --device takes.
inline constexpr const char* kDeviceHelp =
    "where it is computed: cpu, cuda:N, or sim, a slow stand-in for a GPU (kvloupe devices)";

// The tokens that an option such as --span names: a span of the trace, "needle", or positions,
// "1536-1551", both ends in. Nothing for an empty text. Throws Error{Input}.
std::optional<trace::TokenSpan> span_of(const char* option, const std::string& text,
                                        const trace::TraceInfo& info);

// Opens the trace. Where that fails and one of the texts is no SPEC, what is wrong with the text is told:
// only a trace could have had a run called so.
session::TraceSession open_session(const std::string& path, const GlobalOptions& global,
                                   const std::vector<replay::MethodName>& methods);
// What --method takes where a recorded run will do.
inline constexpr const char* kMethodHelp =
    "method SPEC (kvloupe methods), or a recorded run: run:N, or what it is called (kvloupe info)";

// Says what of the file cannot be read and is left out, or read otherwise than it stands there.
void report_damage(const trace::TraceInfo& info);

// Stops at Ctrl+C and says how far the work is: a line now and then, "3 of 30 <unit>, <stage>", and
// the last one of work that took long enough for any.
WorkContext reporting_context(const std::string& unit);

// First in every command that computes or reads a method SPEC: loads the engine
// (core/base/engine_library.h) and gives it the threads that --threads allows. Throws Error{Input}
// where the system would not let it have them.
void use_engine(const GlobalOptions& global);

}  // namespace kvloupe::cli
