// Option values that several subcommands read the same way (all throw Error{Usage}), and what they
// say alike.
#pragma once

#include "app/cli/commands.h"
#include "app/state/view_fields.h"
#include "core/base/cancel.h"
#include "core/base/output_file.h"
#include "core/replay/compare.h"
#include "core/replay/table.h"
#include "core/selection/spec/method_spec.h"
#include "core/session/session.h"
#include "core/trace/trace_types.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

// Which layers or chunks an option names: "3", "3-5", "3,7", "0-2,7" or "all".
struct Indices {
  std::string option;        // "--layers"
  std::string text;          // empty: it was not given
  std::vector<int> numbers;  // ascending, each once; empty: all

  bool given() const { return !text.empty(); }
};
Indices parse_indices(const std::string& option, const std::string& text);
// --layer and --layers, --chunk and --chunks: one option with two names each. `what` says what they
// are for, and what is taken where the option is not given. `indices` outlives the command.
void add_layers_option(Command& command, Indices& indices, const std::string& what);
void add_chunks_option(Command& command, Indices& indices, const std::string& what);
// What is asked of these layers and chunks, on this device.
template <typename Request, typename Arguments>
Request request_of(const Arguments& arguments) {
  Request request;
  request.layers = arguments.layers.numbers;
  request.chunks = arguments.chunks.numbers;
  request.device = arguments.device;
  return request;
}
// The number that was given where there is room for one alone, as `why` says.
int only_one(const Indices& indices, const std::string& why);

// --chunk-size of a command that selects anew. `size` outlives the command.
void add_chunk_size_option(Command& command, std::optional<int>& size);

// --chunk-size of a command that runs a model.
void add_prefill_chunk_option(Command& command, int& size);

// Refuses a file whose name ends as that of another format: `option` is "--png". `others` are the
// options of the command for such files. "-" and a name without an ending are any format's.
void check_ending(const std::string& option, const std::string& file,
                  const std::vector<std::string>& others);

// --units of a command that has --csv. `units` outlives the command.
void add_units_option(Command& command, bool& units);
// Refuses it where `csv` is empty: there is no file that it could change.
void check_units(bool units, const std::string& csv);
table::CsvHead csv_head_of(bool units);

// Refuses two options that write one file, under whatever names; an empty name is none.
void check_distinct(const std::vector<std::pair<std::string, std::string>>& files);

// What --method takes.
inline constexpr const char* kMethodHelp =
    "method SPEC, see kvloupe methods; one that takes a budget and names none has "
    "budget_tokens=1024. Or a recorded run: run:N, or what it is called (kvloupe info)";
inline constexpr const char* kMethodsHelp =
    "method SPEC; one that takes a budget and names none has budget_tokens=1024. Or run:N or what "
    "a "
    "recorded run is called; or all, or all:name=value,...; may be repeated";
// Where it is run, and what was recorded will not do.
inline constexpr const char* kSpecsHelp =
    "method SPEC, or all, or all:name=value,...; may be repeated; one that takes a budget and "
    "names none has budget_tokens=1024";

// What a command reads of these traces and methods: no result may take its place.
InputFiles files_read(const std::vector<std::string>& traces,
                      const std::vector<replay::MethodName>& methods);

// Says which methods keep every key of the trace because it fits their budget, and what to write.
void note_budgets_that_fit(const std::vector<selection::MethodSpec>& specs,
                           const trace::TraceInfo& info);

using state::kDeviceHelp;

// --compute, of commands that run a model: fp32, bf16 or fp16.
void add_compute_option(Command& command, std::string& compute);

// The tokens that an option such as --span names: a span of the trace, "needle", or positions,
// "1536-1551", both ends in, which "1536:1552" are, too. Nothing for an empty text. Throws Error{Input}.
std::optional<trace::TokenSpan> span_of(const char* option, const std::string& text,
                                        const trace::TraceInfo& info);

// That of the capture, which is of the engine: may be had before that is loaded, and asked afterwards.
selection::BasisMaker basis_maker();
// Opens the trace. Where that fails and one of the texts is no SPEC, what is wrong with the text is told:
// only a trace could have had a run called so.
// A recorded run cannot be cut into other chunks: Error{Usage}.
session::TraceSession open_session(const std::string& path, const GlobalOptions& global,
                                   const std::vector<replay::MethodName>& methods,
                                   const std::optional<int>& chunk_size = {});
// Says what of the file cannot be read and is left out, or read otherwise than it stands there.
void report_damage(const trace::TraceInfo& info);
// What the method is in the trace, after all that is to be said of the file and of the method's budget.
replay::MethodChoice choice_in(const session::TraceSession& session,
                               const replay::MethodName& method);

// Stops at Ctrl+C and says how far the work is: a line now and then, "3 of 30 <unit>, <stage>", and
// the last one of work that took long enough for any.
WorkContext reporting_context(const std::string& unit);

// First in every command that computes or reads a method SPEC: loads the engine
// (core/base/engine_library.h) and gives it the threads that --threads allows. Throws Error{Input}
// where the system would not let it have them.
void use_engine(const GlobalOptions& global);
// Command::run of a command that needs the engine whatever is given.
std::function<void(const Given&)> with_engine(const GlobalOptions& global,
                                              std::function<void()> work);

}  // namespace kvloupe::cli
