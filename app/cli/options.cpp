#include "app/cli/options.h"

#include "capture/engine.h"
#include "capture/run/calibrate.h"
#include "core/base/engine_library.h"
#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/thread_room.h"
#include "core/base/units.h"
#include "core/device/threads.h"
#include "core/engine/engine.h"
#include "core/selection/spec/default_budget.h"
#include "core/selection/spec/method_files.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

namespace kvloupe::cli {
namespace {

constexpr std::int64_t kLargestIndex = 1 << 20;

std::optional<int> parse_index(std::string_view text) {
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number > kLargestIndex || text.front() == '-') return std::nullopt;
  return static_cast<int>(*number);
}

// "3-5", both ends in, or "3".
std::optional<std::pair<int, int>> parse_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = parse_index(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_index(text.substr(dash + 1));
  if (!first || !last || *first > *last) return std::nullopt;
  return std::pair(*first, *last);
}

void add_indices_option(Command& command, const std::string& one, const std::string& many,
                        Indices& indices, const std::string& what) {
  command
      .option(
          one + "," + many,
          [many, &indices](const std::string& text) { indices = parse_indices(many, text); },
          what + ": 3, 3-5, 3,7 or all")
      .typed("LIST");
}

// The formats that files are known by.
constexpr std::array<std::string_view, 11> kEndings = {"png", "jpg", "svg", "pdf",  "gif", "apng",
                                                       "csv", "npy", "tex", "json", "md"};

// Of the files that an option writes.
std::string ending_of(const std::string& option) {
  if (option == "--markdown") return "md";
  return option == "--latex" ? "tex" : option.substr(2);
}

}  // namespace

Indices parse_indices(const std::string& option, const std::string& text) {
  Indices indices{option, text, {}};
  if (text == "all") return indices;
  std::set<int> numbers;
  std::stringstream parts(text + ",");
  for (std::string part; std::getline(parts, part, ',');) {
    const auto range = parse_range(part);
    if (!range)
      throw usage_error(fmt::format("{} {} is not valid", option, printable(text)),
                        "it counts from 0, in whole numbers",
                        "give a number, a range, a list or all: 3, 3-5, 3,7");
    for (int i = range->first; i <= range->second; ++i) numbers.insert(i);
  }
  indices.numbers.assign(numbers.begin(), numbers.end());
  return indices;
}

void add_layers_option(Command& command, Indices& indices, const std::string& what) {
  add_indices_option(command, "--layer", "--layers", indices, what);
}

void add_chunks_option(Command& command, Indices& indices, const std::string& what) {
  add_indices_option(command, "--chunk", "--chunks", indices, what);
}

void add_units_option(Command& command, bool& units) {
  command.option("--units", &units, "in --csv: heads say units, too, as in effective_budget (KVs)");
}

void check_units(bool units, const std::string& csv) {
  if (units && csv.empty())
    throw usage_error("--units changes nothing here", "it is for the head of a CSV",
                      "add --csv F, or leave it out");
}

table::CsvHead csv_head_of(bool units) {
  return units ? table::CsvHead::IdAndUnit : table::CsvHead::Id;
}

int only_one(const Indices& indices, const std::string& why) {
  if (indices.numbers.size() == 1) return indices.numbers.front();
  throw usage_error(fmt::format("{} {} names more than one", indices.option, indices.text), why,
                    "give one number");
}

void add_chunk_size_option(Command& command, std::optional<int>& size) {
  command.option("--chunk-size", &size, state::kChunkSizeHelp).range(1, 1 << 24);
}

void add_prefill_chunk_option(Command& command, int& size) {
  command.option("--chunk-size", &size, "tokens of a prefill chunk")
      .range(1, 1 << 20)
      .show_default();
}

void check_ending(const std::string& option, const std::string& file,
                  const std::vector<std::string>& others) {
  std::string ending = lower_case(std::filesystem::path(file).extension().string());
  if (file == "-" || ending.empty()) return;
  ending.erase(0, 1);
  const std::string own = ending_of(option);
  const bool is_frames = own == "apng" && ending == "png";  // most animated PNGs are called so
  if (ending == own || is_frames ||
      std::find(kEndings.begin(), kEndings.end(), ending) == kEndings.end())
    return;
  const auto other = std::find_if(others.begin(), others.end(),
                                  [&](const auto& one) { return ending_of(one) == ending; });
  const std::string name = printable(file);
  throw usage_error(fmt::format("{} {} is not valid", option, name),
                    fmt::format("it writes {}, and the name ends as that of another format", own),
                    other != others.end()
                        ? fmt::format("write {} {}, or end the name in .{}", *other, name, own)
                        : fmt::format("end the name in .{}", own));
}

void check_distinct(const std::vector<std::pair<std::string, std::string>>& files) {
  const auto place = [](const std::string& file) {
    std::error_code unknown;
    const auto canonical =
        std::filesystem::weakly_canonical(std::filesystem::absolute(file), unknown);
    return unknown || file == "-" ? std::filesystem::path(file) : canonical;
  };
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!files[i].second.empty() && !files[j].second.empty() &&
          place(files[i].second) == place(files[j].second))
        throw usage_error(fmt::format("{} and {} name one file", files[j].first, files[i].first),
                          "the second would replace the first", "give each a file of its own");
}

InputFiles files_read(const std::vector<std::string>& traces,
                      const std::vector<replay::MethodName>& methods) {
  InputFiles inputs;
  for (const std::string& path : traces)
    for (const auto& file : trace::files_of_trace(path)) inputs.push_back(file);
  for (const replay::MethodName& method : methods)
    if (method.spec)
      for (const auto& file : selection::files_of(*method.spec)) inputs.push_back(file);
  return inputs;
}

void note_budgets_that_fit(const std::vector<selection::MethodSpec>& specs,
                           const trace::TraceInfo& info) {
  std::set<std::string> names;
  for (const selection::MethodSpec& spec : specs)
    if (spec.budget_tokens() >= info.num_tokens) names.insert(spec.id());
  if (names.empty()) return;
  log::info(
      "{} keep{} every key: the budget holds all {} tokens of the trace; name a smaller one, such "
      "as "
      "budget_tokens={}",
      fmt::join(names, ", "), names.size() == 1 ? "s" : "", format_count(info.num_tokens),
      selection::default_budget(info.num_tokens));
}

void add_compute_option(Command& command, std::string& compute) {
  command
      .option("--compute", &compute,
              "type of the weights and of the inputs of matrix products; norms, RoPE and "
              "attention are fp32")
      .one_of({"fp32", "bf16", "fp16"})
      .show_default();
}

std::optional<trace::TokenSpan> span_of(const char* option, const std::string& text,
                                        const trace::TraceInfo& info) {
  if (text.empty()) return std::nullopt;
  std::string names;
  for (const trace::TokenSpan& span : info.spans) {
    if (span.name == text) return span;
    names += (names.empty() ? "" : ", ") + printable(span.name);
  }
  // "1536-1551", both in, or as a slice, "1536:1552".
  const auto between = text.find_first_of("-:");
  const auto first = parse_int(std::string_view(text).substr(0, between));
  auto last = between == std::string::npos ? first : parse_int(text.substr(between + 1));
  if (last && between != std::string::npos && text[between] == ':') --*last;
  if (!first || !last || *first < 0 || *last < *first || *last >= info.num_tokens)
    throw input_error(fmt::format("{} {} names no tokens of the trace", option, printable(text)),
                      fmt::format("it has {} tokens and {}", format_count(info.num_tokens),
                                  names.empty() ? "no spans" : "the spans " + names),
                      "give the name of a span, or positions such as 1536-1551");
  return trace::TokenSpan{text, static_cast<std::int32_t>(*first),
                          static_cast<std::int32_t>(*last + 1)};
}

selection::BasisMaker basis_maker() {
  return {[](const auto& spec, const auto& model) {
            return capture_engine().basis_maker().is_due(spec, model);
          },
          [](const auto& spec, const auto& model, const WorkContext& context) {
            capture_engine().basis_maker().make(spec, model, context);
          }};
}

session::TraceSession open_session(const std::string& path, const GlobalOptions& global,
                                   const std::vector<replay::MethodName>& methods,
                                   const std::optional<int>& chunk_size) {
  if (chunk_size)
    for (const replay::MethodName& method : methods)
      if (method.names_run())
        throw usage_error(fmt::format("--chunk-size cannot be combined with {}", method.text),
                          "a recorded run holds what was kept of the trace's own chunks",
                          "leave it out, or give the SPEC of a method to select anew");
  try {
    selection::BasisMaker bases = basis_maker();
    // What is read is counted in tokens, whatever the command counts.
    bases.make = [make = bases.make](const auto& spec, const auto& model, const WorkContext&) {
      make(spec, model, reporting_context("tokens"));
    };
    return session::TraceSession(path, global.memory, chunk_size, std::move(bases));
  } catch (const Error&) {
    for (const replay::MethodName& method : methods)
      if (method.needs_trace()) throw Error(*method.no_spec);
    throw;
  }
}

void report_damage(const trace::TraceInfo& info) {
  for (const std::string& warning : info.warnings) log::warning("{}", warning);
}

replay::MethodChoice choice_in(const session::TraceSession& session,
                               const replay::MethodName& method) {
  report_damage(session.info());
  const replay::MethodChoice choice = replay::choice_of(method, session.info());
  if (choice.known()) note_budgets_that_fit({*choice.spec}, session.info());
  return choice;
}

WorkContext reporting_context(const std::string& unit) {
  WorkContext context;
  context.cancel = interrupt_token();
  context.progress = [unit, last = std::chrono::steady_clock::now(), said = false](
                         std::int64_t done, std::int64_t total, const std::string& stage) mutable {
    const auto now = std::chrono::steady_clock::now();
    const bool due = now - last >= std::chrono::seconds(2);
    if (!due && !(said && done == total)) return;
    last = now;
    said = true;
    log::info("{} of {} {}, {}", format_count(done), format_count(total), unit, stage);
  };
  return context;
}

void use_engine(const GlobalOptions& global) {
  // OpenMP would end the program with a message of its own.
  require_threads(global.threads > 0 ? global.threads : default_threads());
  load_engine();
  engine().set_num_threads(global.threads);
}

std::function<void(const Given&)> with_engine(const GlobalOptions& global,
                                              std::function<void()> work) {
  return [&global, work = std::move(work)](const Given&) {
    use_engine(global);
    work();
  };
}

}  // namespace kvloupe::cli
