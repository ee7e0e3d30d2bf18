// Reading and checking what a trace says of the model's own forecasts (foretold.h).
#include "core/trace/foretold.h"
#include "core/trace/trace_load.h"
#include "core/trace/validate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::trace {
namespace {

using h5::Dataset;
using h5::ValueClass;

// Extents of at least `needed`; along all axes but the first, exactly.
Dataset open_sized(hid_t file, const std::string& path, ValueClass value_class,
                   const std::vector<hsize_t>& needed) {
  Dataset dataset = Dataset::open(file, path, value_class, static_cast<int>(needed.size()));
  const auto& dims = dataset.dims();
  if (dims.front() < needed.front() ||
      !std::equal(dims.begin() + 1, dims.end(), needed.begin() + 1)) {
    throw h5::Defect(fmt::format("{} has shape [{}] where [{}] is needed", path,
                                 fmt::join(dims, ", "), fmt::join(needed, ", ")));
  }
  return dataset;
}

TopSources open_top(hid_t file, const std::string& group, const TraceInfo& info) {
  TopSources top;
  if (!h5::has_object(file, group + "/top_ids")) return top;
  const std::vector<hsize_t> shape = {info.chunks.size(), kTopTokens};
  Dataset log_probs = open_sized(file, group + "/top_log_probs", ValueClass::Float, shape);
  top.ids = open_sized(file, group + "/top_ids", ValueClass::Integer, shape);
  top.log_probs = std::move(log_probs);
  return top;
}

DriftSources open_drift(hid_t file, const TraceInfo& info) {
  const auto tokens = static_cast<hsize_t>(info.num_tokens);
  const std::vector<hsize_t> by_layer = {info.chunks.size(), info.layers.size()};
  DriftSources drift;
  drift.nll = open_sized(file, "/drift/nll", ValueClass::Float, {tokens});
  drift.agrees = open_sized(file, "/drift/agrees", ValueClass::Integer, {tokens});
  drift.q = open_sized(file, "/drift/q", ValueClass::Float, by_layer);
  drift.k = open_sized(file, "/drift/k", ValueClass::Float, by_layer);
  drift.generated = Dataset::open(file, "/drift/generated", ValueClass::Integer, 1);
  drift.text = Dataset::open(file, "/drift/generated_text", ValueClass::Integer, 1);
  drift.text_offsets = Dataset::open(file, "/drift/generated_text_offsets", ValueClass::Integer, 1);
  drift.top = open_top(file, "/drift", info);
  drift.kl = open_sized(file, "/drift/kl", ValueClass::Float, {tokens});
  return drift;
}

template <typename T>
std::vector<T> read_rows_of(const Dataset& dataset, hsize_t rows) {
  std::vector<hsize_t> count = dataset.dims();
  count.front() = rows;
  return dataset.read_box<T>(std::vector<hsize_t>(count.size(), 0), count);
}

template <typename T>
std::vector<T> read_all(const Dataset& dataset) {
  return read_rows_of<T>(dataset, dataset.dims().front());
}

// The texts of `count` tokens; a capture that was cut short has none yet.
std::vector<std::string> split(const std::vector<std::uint8_t>& bytes,
                               const std::vector<std::uint64_t>& offsets, std::size_t count) {
  std::vector<std::string> texts;
  if (count == 0) return texts;
  if (offsets.size() != count + 1 || offsets.back() > bytes.size() ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw h5::Defect("/drift/generated_text_offsets does not tell the tokens of the answer apart");
  for (std::size_t i = 0; i < count; ++i)
    texts.emplace_back(bytes.begin() + static_cast<std::ptrdiff_t>(offsets[i]),
                       bytes.begin() + static_cast<std::ptrdiff_t>(offsets[i + 1]));
  return texts;
}

}  // namespace

TopTokens top_of(const TopTokens& all, int chunk_idx) {
  if (all.ids.empty()) return {};
  const auto at = static_cast<std::ptrdiff_t>(chunk_idx) * kTopTokens;
  return {{all.ids.begin() + at, all.ids.begin() + at + kTopTokens},
          {all.log_probs.begin() + at, all.log_probs.begin() + at + kTopTokens}};
}

DriftChunk drift_of(const Drift& all, int chunk_idx, const ChunkInfo& chunk) {
  const auto rows = [&](const auto& values) {
    return std::vector(values.begin() + chunk.begin, values.begin() + chunk.end());
  };
  const auto by_layer = [&](const std::vector<float>& values) {
    const auto at = static_cast<std::ptrdiff_t>(chunk_idx) * all.num_layers;
    return std::vector(values.begin() + at, values.begin() + at + all.num_layers);
  };
  return {rows(all.dense_nll), rows(all.kl),    rows(all.agrees),
          by_layer(all.q),     by_layer(all.k), top_of(all.dense_top, chunk_idx)};
}

void load_foretold(hid_t file, LoadedTrace& trace) {
  TraceInfo& info = trace.info;
  tolerate(info.warnings, [&] { trace.top = open_top(file, "/chunks", info); });
  tolerate(info.warnings, [&] {
    if (h5::has_object(file, "/drift")) trace.drift = open_drift(file, info);
  });
  info.has_losses = static_cast<bool>(trace.nll);
  info.has_drift = static_cast<bool>(trace.drift.kl);
}

TopTokens load_top(const TopSources& top, const TraceInfo& info) {
  if (!top.ids) return {};
  return {read_rows_of<std::int32_t>(top.ids, info.chunks.size()),
          read_rows_of<float>(top.log_probs, info.chunks.size())};
}

Drift load_drift(const LoadedTrace& trace) {
  const auto tokens = static_cast<hsize_t>(trace.info.num_tokens);
  const auto chunks = static_cast<hsize_t>(trace.info.chunks.size());
  const DriftSources& stored = trace.drift;
  Drift drift;
  drift.num_layers = static_cast<int>(trace.info.layers.size());
  drift.dense_nll = read_rows_of<float>(stored.nll, tokens);
  drift.kl = read_rows_of<float>(stored.kl, tokens);
  drift.agrees = read_rows_of<std::uint8_t>(stored.agrees, tokens);
  drift.q = read_rows_of<float>(stored.q, chunks);
  drift.k = read_rows_of<float>(stored.k, chunks);
  drift.dense_top = load_top(stored.top, trace.info);
  drift.dense_answer = read_all<std::int32_t>(stored.generated);
  drift.dense_texts =
      split(read_all<std::uint8_t>(stored.text), read_all<std::uint64_t>(stored.text_offsets),
            drift.dense_answer.size());
  return drift;
}

void check_foretold(const TraceReader& reader, Validation& found) {
  const auto negative = [&](const std::vector<float>& values, const char* what) {
    const auto at = std::find_if(values.begin(), values.end(), [](float x) { return x < 0; });
    if (at == values.end()) return;
    found.defects.push_back(
        fmt::format("{} is {} at entry {}, below zero", what, *at, at - values.begin()));
  };
  const auto falling = [&](const TopTokens& top, const char* whose) {
    for (std::size_t i = 0; i < top.log_probs.size(); ++i) {
      const bool first = i % kTopTokens == 0;
      if (top.log_probs[i] <= 0 && (first || top.log_probs[i] <= top.log_probs[i - 1])) continue;
      found.defects.push_back(
          fmt::format("the log-probabilities of {} after chunk {} do not fall from at most 0",
                      whose, i / kTopTokens));
      return;
    }
  };
  falling(reader.read_top_tokens(), "the most probable tokens");
  if (!reader.info().has_drift) return;
  const Drift drift = reader.read_drift();
  negative(drift.kl, "/drift/kl");
  negative(drift.dense_nll, "/drift/nll");
  negative(drift.q, "/drift/q");
  negative(drift.k, "/drift/k");
  falling(drift.dense_top, "the dense model's most probable tokens");
  if (std::any_of(drift.agrees.begin(), drift.agrees.end(), [](auto x) { return x > 1; }))
    found.defects.push_back("/drift/agrees holds values other than 0 and 1");
}

}  // namespace kvloupe::trace
