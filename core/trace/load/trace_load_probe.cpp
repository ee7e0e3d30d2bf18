// The probe of a trace: its text, its queries after each prefill chunk.
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/field_storage.h"
#include "core/trace/load/trace_load.h"

namespace kvloupe::trace {
namespace {

void load_text(hid_t file, TraceInfo& info) {
  const h5::Handle group = h5::open_group(file, "/probe");
  ProbeAttributes probe;
  read_attributes(group.get(), " of /probe", probe, info.warnings);
  info.probe_text = probe.text;
  info.probe_len = probe.num_tokens;
}

}  // namespace

void load_probe(hid_t file, LoadedTrace& trace) {
  TraceInfo& info = trace.info;
  if (!h5::has_object(file, "/probe")) return;
  tolerate(info.warnings, [&] { load_text(file, info); });
  if (info.probe_len == 0) return;
  for (auto& [layer, sources] : trace.layers) {
    tolerate(info.warnings, [&, layer = layer, &sources = sources] {
      sources.probe_q = open_if_stored(file, Field::ProbeQ, sizes_of(info), layer);
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
