// The probe's queries and the novelty of the tokens.
#include "core/trace/check/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::trace {
namespace {

void check_novelty(const std::vector<float>& novelty, Validation& found) {
  if (novelty.empty()) return;
  if (!(std::isinf(novelty.front()) && novelty.front() > 0)) {
    found.defects.push_back(fmt::format(
        "the first token has the novelty {} where nothing before it predicts it", novelty.front()));
  }
  const auto negative =
      std::find_if(novelty.begin() + 1, novelty.end(), [](float value) { return value < 0; });
  if (negative != novelty.end()) {
    found.defects.push_back(fmt::format("token {} has the novelty {}, of a probability above 1",
                                        negative - novelty.begin(), *negative));
  }
  const auto odd = std::count_if(novelty.begin() + 1, novelty.end(),
                                 [](float value) { return !std::isfinite(value); });
  if (odd > 0) {
    found.notes.push_back(fmt::format("{} tokens have a novelty that is not finite", odd));
  }
}

void check_queries(const TraceReader& reader, int layer, Validation& found) {
  const TraceInfo& info = reader.info();
  std::int64_t missing = 0, odd = 0;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (info.chunks[c].phase != Phase::Prefill) continue;
    const auto queries = reader.read_probe(layer, static_cast<int>(c));
    if (!queries) {
      ++missing;
      continue;
    }
    odd += !std::all_of(queries->begin(), queries->end(), [](float x) { return std::isfinite(x); });
  }
  if (missing > 0) found.notes.push_back(fmt::format("layer {} has no probe queries", layer));
  if (odd > 0) {
    found.notes.push_back(fmt::format(
        "the probe queries of layer {} hold values that are not finite in {} chunks", layer, odd));
  }
}

}  // namespace

void check_losses(const TraceReader& reader, Validation& found) {
  check_novelty(reader.read<float>(Field::Nll), found);
}

void check_probe(const TraceReader& reader, Validation& found) {
  if (reader.info().probe_len == 0) return;
  for (const int layer : reader.info().layers) check_queries(reader, layer, found);
}

}  // namespace kvloupe::trace
