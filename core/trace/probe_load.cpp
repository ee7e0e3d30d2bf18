// The probe of a trace: its text, its queries after each prefill chunk, the novelty of the tokens.
#include "core/trace/trace_load.h"
#include "core/trace/trace_names.h"

#include <fmt/format.h>

namespace kvloupe::trace {
namespace {

// Chunks up to the last one of prefill: those beyond need no probe.
hsize_t chunks_with_probe(const TraceInfo& info) {
  hsize_t count = 0;
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    if (info.chunks[c].phase == Phase::Prefill) count = c + 1;
  }
  return count;
}

void load_text(hid_t file, TraceInfo& info) {
  const h5::Handle group = h5::open_group(file, "/probe");
  const auto text = h5::string_attribute(group.get(), "text");
  const auto count = h5::int_attribute(group.get(), "num_tokens");
  if (!text) throw h5::Defect("the attribute text of /probe is missing");
  if (!count || *count < 1 || *count > kMaxProbeTokens) {
    throw h5::Defect(fmt::format("num_tokens of /probe is {}, outside 1 to {}",
                                 count ? fmt::to_string(*count) : "missing", kMaxProbeTokens));
  }
  info.probe_text = *text;
  info.probe_len = static_cast<int>(*count);
}

h5::Dataset open_queries(hid_t file, const std::string& path, const TraceInfo& info) {
  if (!h5::has_object(file, path)) return {};
  auto dataset = h5::Dataset::open(file, path, h5::ValueClass::Float, 4);
  const auto& dims = dataset.dims();
  const auto heads = static_cast<hsize_t>(info.model.num_q_heads);
  const auto tokens = static_cast<hsize_t>(info.probe_len);
  const auto dim = static_cast<hsize_t>(info.model.head_dim);
  const hsize_t chunks = chunks_with_probe(info);
  if (dims[0] < chunks || dims[1] != heads || dims[2] != tokens || dims[3] != dim) {
    throw h5::Defect(fmt::format("{} has shape [{}] where [{}, {}, {}, {}] is needed", path,
                                 fmt::join(dims, ", "), chunks, heads, tokens, dim));
  }
  if (!has_stored_type(dataset)) throw h5::Defect(path + " is neither float16 nor float32");
  return dataset;
}

h5::Dataset open_novelty(hid_t file, const TraceInfo& info) {
  if (!h5::has_object(file, "/tokens/nll")) return {};
  auto dataset = h5::Dataset::open(file, "/tokens/nll", h5::ValueClass::Float, 1);
  const auto tokens = static_cast<hsize_t>(info.num_tokens);
  if (dataset.dims().front() < tokens) {
    throw h5::Defect(
        fmt::format("/tokens/nll has {} entries for {} tokens", dataset.dims().front(), tokens));
  }
  return dataset;
}

}  // namespace

void load_probe(hid_t file, LoadedTrace& trace) {
  TraceInfo& info = trace.info;
  tolerate(info.warnings, [&] { trace.nll = open_novelty(file, info); });
  if (!h5::has_object(file, "/probe")) return;
  tolerate(info.warnings, [&] { load_text(file, info); });
  if (info.probe_len == 0) return;
  for (auto& [layer, sources] : trace.layers) {
    tolerate(info.warnings, [&, layer = layer, &sources = sources] {
      sources.probe_q = open_queries(file, fmt::format("/layers/{}/probe_q", layer), info);
    });
  }
}

std::vector<float> load_probe_rows(const LoadedTrace& trace, int layer, int chunk) {
  const h5::Dataset& dataset = trace.layers.at(layer).probe_q;
  const std::vector<hsize_t> dims = dataset.dims();
  const hsize_t count = dims[1] * dims[2] * dims[3];
  dataset.require_stored(count * sizeof(std::uint16_t));
  std::vector<float> rows(count);
  read_widened(dataset, {static_cast<hsize_t>(chunk), 0, 0, 0}, {1, dims[1], dims[2], dims[3]},
               rows.data());
  return rows;
}

}  // namespace kvloupe::trace
