#include "app/state/number_text.h"

#include "core/base/units.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace kvloupe::state {

std::string number_text(const replay::NumberInfo& info, double value) {
  using replay::Unit;
  if (info.unit == Unit::Bytes) return format_bytes(static_cast<std::uint64_t>(value));
  if (info.unit != Unit::Keys) return fmt::format("{:.{}f}", value, info.digits);
  const bool whole = std::abs(value - std::round(value)) < 0.05;
  return whole ? format_count(std::llround(value)) : fmt::format("{:.1f}", value);
}

}  // namespace kvloupe::state
