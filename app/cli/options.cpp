#include "app/cli/options.h"

#include "core/base/engine_library.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/thread_room.h"
#include "core/base/units.h"
#include "core/device/threads.h"

#include <fmt/format.h>

#include <chrono>
#include <numeric>

namespace kvloupe::cli {
namespace {

constexpr std::int64_t kLargestIndex = 1 << 20;

std::optional<int> parse_index(std::string_view text) {
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number > kLargestIndex || text.front() == '-') return std::nullopt;
  return static_cast<int>(*number);
}

Error bad_option(const std::string& option, const std::string& text, const char* remedy) {
  return usage_error(fmt::format("{} {} is not valid", option, text),
                     "it counts from 0, in whole numbers", remedy);
}

}  // namespace

std::optional<int> parse_index_or_all(const std::string& option, const std::string& text) {
  if (text == "all") return std::nullopt;
  const auto index = parse_index(text);
  if (!index) throw bad_option(option, text, "give a number or all");
  return index;
}

std::vector<int> parse_index_range(const std::string& option, const std::string& text) {
  const auto dash = text.find('-');
  const auto first = parse_index(std::string_view(text).substr(0, dash));
  const auto last =
      dash == std::string::npos ? first : parse_index(std::string_view(text).substr(dash + 1));
  if (!first || !last || *first > *last)
    throw bad_option(option, text, "give a number, or a range such as 3-5");
  std::vector<int> indices(static_cast<std::size_t>(*last - *first + 1));
  std::iota(indices.begin(), indices.end(), *first);
  return indices;
}

CLI::Validator finite_range(double least, double most) {
  const std::string range = fmt::format("from {} to {}", least, most);
  return {[=](std::string& text) {
            const auto number = parse_double(text);
            const bool fits = number && *number >= least && *number <= most;
            return fits ? std::string() : fmt::format("{} is not a number {}", text, range);
          },
          "NUMBER " + range};
}

std::optional<trace::TokenSpan> span_of(const char* option, const std::string& text,
                                        const trace::TraceInfo& info) {
  if (text.empty()) return std::nullopt;
  std::string names;
  for (const trace::TokenSpan& span : info.spans) {
    if (span.name == text) return span;
    names += (names.empty() ? "" : ", ") + printable(span.name);
  }
  const auto dash = text.find('-');
  const auto first = parse_int(std::string_view(text).substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_int(text.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first || *last >= info.num_tokens)
    throw input_error(fmt::format("{} {} names no tokens of the trace", option, printable(text)),
                      fmt::format("it has {} tokens and {}", format_count(info.num_tokens),
                                  names.empty() ? "no spans" : "the spans " + names),
                      "give the name of a span, or positions such as 1536-1551");
  return trace::TokenSpan{text, static_cast<std::int32_t>(*first),
                          static_cast<std::int32_t>(*last + 1)};
}

session::TraceSession open_session(const std::string& path, const GlobalOptions& global,
                                   const std::vector<replay::MethodName>& methods) {
  try {
    return session::TraceSession(path, global.memory);
  } catch (const Error&) {
    for (const replay::MethodName& method : methods)
      if (method.needs_trace()) throw Error(*method.no_spec);
    throw;
  }
}

void report_damage(const trace::TraceInfo& info) {
  for (const std::string& warning : info.warnings) log::warning("{}", warning);
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
  device::set_num_threads(global.threads);
}

}  // namespace kvloupe::cli
