#include "app/panels/linked_ranges.h"

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using state::Side;

// A plot that keeps its own limits may move an end by a rounding.
bool moved(const ImPlotRange& range, const ImPlotRange& before) {
  constexpr double kRounding = 1e-6;
  return std::abs(range.Min - before.Min) > kRounding ||
         std::abs(range.Max - before.Max) > kRounding;
}

ImPlotRange led(const ImPlotRange& range, const std::function<double(double, Side)>& lead,
                double length, double least) {
  const double begin = lead(range.Min, Side::Begin), end = lead(range.Max, Side::End);
  const double half = std::max(end - begin, std::min(least, length)) / 2;
  const double middle = std::clamp((begin + end) / 2, half, std::max(half, length - half));
  return {std::max(0.0, middle - half), std::min(length, middle + half)};
}

// A row of a map is a chunk: "2.5" is half of chunk 2.
double token_of(double row, const std::vector<trace::ChunkInfo>& chunks) {
  const auto last = static_cast<double>(chunks.size());
  if (row >= last) return chunks.back().end();
  const trace::ChunkInfo& chunk = chunks[static_cast<std::size_t>(std::max(0.0, row))];
  return chunk.begin + (std::max(0.0, row) - std::floor(std::max(0.0, row))) * chunk.length;
}

double row_of(double token, const trace::TraceInfo& info) {
  if (token >= info.chunks.back().end()) return static_cast<double>(info.chunks.size());
  const int chunk = info.chunk_of_token(static_cast<std::int32_t>(token));
  const trace::ChunkInfo& at = info.chunks[static_cast<std::size_t>(chunk)];
  return chunk + (token - at.begin) / at.length;
}

}  // namespace

AxisLink keys_of(const state::AlignedTraces& aligned) {
  constexpr double kLeastKeys = 8;
  return {[&aligned](double at, Side side) { return aligned.in_b(at, side); },
          [&aligned](double at, Side side) { return aligned.in_a(at, side); }, aligned.length_a(),
          aligned.length_b(), kLeastKeys};
}

AxisLink chunks_of(const state::AlignedTraces& aligned, const trace::TraceInfo& a,
                   const trace::TraceInfo& b) {
  constexpr double kLeastChunks = 2;
  return {
      [&](double at, Side side) { return row_of(aligned.in_b(token_of(at, a.chunks), side), b); },
      [&](double at, Side side) { return row_of(aligned.in_a(token_of(at, b.chunks), side), a); },
      static_cast<double>(a.chunks.size()), static_cast<double>(b.chunks.size()), kLeastChunks};
}

void LinkedRanges::follow(const AxisLink& link, ImPlotRange& a, ImPlotRange& b) {
  if (moved(a, last_a_))
    b = led(a, link.in_b, link.length_b, link.least);
  else if (moved(b, last_b_))
    a = led(b, link.in_a, link.length_a, link.least);
  last_a_ = a;
  last_b_ = b;
}

}  // namespace kvloupe::panels
