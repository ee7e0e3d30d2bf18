// Reading and checking the statistics of next tokens (next_tokens.h).
#include "core/trace/check/validate.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/next_tokens.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::trace {
namespace {

using h5::Dataset;

TopSources open_top(hid_t file, Field ids, Field log_probs, const FieldSizes& sizes) {
  if (!h5::has_object(file, info_of(ids).path)) return {};
  Dataset values = open_field(file, log_probs, sizes);
  return {open_field(file, ids, sizes), std::move(values)};
}

DriftSources open_drift(hid_t file, const FieldSizes& sizes) {
  DriftSources drift;
  drift.nll = open_field(file, Field::DriftNll, sizes);
  drift.agrees = open_field(file, Field::DriftAgrees, sizes);
  drift.q = open_field(file, Field::DriftQ, sizes);
  drift.k = open_field(file, Field::DriftK, sizes);
  drift.generated = open_field(file, Field::DenseAnswer, sizes);
  drift.text = open_field(file, Field::DenseText, sizes);
  drift.text_offsets = open_field(file, Field::DenseTextOffsets, sizes);
  drift.top = open_top(file, Field::DriftTopIds, Field::DriftTopLogProbs, sizes);
  drift.kl = open_field(file, Field::DriftKl, sizes);
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

void load_next_tokens(hid_t file, LoadedTrace& trace) {
  TraceInfo& info = trace.info;
  const FieldSizes sizes = sizes_of(info);
  tolerate(info.warnings,
           [&] { trace.top = open_top(file, Field::TopIds, Field::TopLogProbs, sizes); });
  tolerate(info.warnings, [&] {
    if (h5::has_object(file, "/drift")) trace.drift = open_drift(file, sizes);
  });
  info.has_losses = trace.values.contains(Field::Nll);
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

void check_next_tokens(const TraceReader& reader, Validation& found) {
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
