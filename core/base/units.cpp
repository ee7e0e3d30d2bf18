// Formatting and parsing of sizes, durations and numbers; never depends on the locale.
#include "core/base/units.h"

#include "core/base/letters.h"
#include "core/base/rounded_down.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace kvloupe {
namespace {

// The number of bytes that a unit means, 0 for an unknown one. A single letter is decimal.
double bytes_from_unit(std::string_view text) {
  const std::string unit = lower_case(std::string(text));
  if (unit.empty() || unit == "b") return 1;
  constexpr std::string_view kLetters = "kmgt";
  const auto power = kLetters.find(unit.front());
  if (power == std::string_view::npos) return 0;
  const std::string rest = unit.substr(1);
  const double exponent = static_cast<double>(power) + 1;
  if (rest.empty() || rest == "b") return std::pow(1000.0, exponent);
  if (rest == "ib") return std::pow(1024.0, exponent);
  return 0;
}

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  // 1023.95 would print as "1024.0".
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return "-" + format_duration(-seconds);
  if (seconds == 0) return "0 s";
  if (seconds < 0.0009995) return fmt::format("{:.3g} \u00b5s", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const double rounded = std::round(seconds);
  if (rounded < 3600) {
    return fmt::format("{:.0f} min {:.0f} s", std::floor(rounded / 60), std::fmod(rounded, 60));
  }
  const double minutes = std::round(seconds / 60);
  return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t first = count < 0 ? 1 : 0;
  for (std::size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string format_shortest(double value) { return fmt::format("{}", value); }

std::optional<std::uint64_t> parse_size(std::string_view text) {
  text = trimmed(text, " ");
  const auto number_end = std::find_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isdigit(c) && c != '.'; });
  const auto split = static_cast<std::size_t>(number_end - text.begin());
  const auto number = parse_double(text.substr(0, split));
  const double unit = bytes_from_unit(trimmed(text.substr(split), " "));
  if (!number || unit == 0) return std::nullopt;
  const double bytes = rounded_down(*number * unit);
  if (bytes < 0 || bytes >= 18446744073709551616.0) return std::nullopt;
  return static_cast<std::uint64_t>(bytes);
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  return parse_whole<std::int64_t>(text);
}

std::optional<double> parse_double(std::string_view text) {
  const auto value = parse_whole<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace kvloupe
