// The layout of FORMAT.md, as calls.
#include "core/trace/fields/trace_layout.h"

#include "core/base/version.h"
#include "core/trace/fields/attribute_io.h"
#include "core/trace/fields/attributes.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/runs/run_storage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace kvloupe::trace {
namespace {

void name_axes(const h5::Handle& dataset, const std::vector<std::string>& axes, const char* units,
               const char* long_name) {
  h5::write_attribute(dataset.get(), "axes", axes);
  h5::write_attribute(dataset.get(), "units", units);
  h5::write_attribute(dataset.get(), "long_name", long_name);
}

void describe_plot(hid_t group, const char* signal, const std::vector<std::string>& axes,
                   const std::string& title) {
  h5::write_attribute(group, "NX_class", "NXdata");
  h5::write_attribute(group, "signal", signal);
  h5::write_attribute(group, "axes", axes);
  h5::write_attribute(group, "title", title);
}

struct SpanRecord {
  const char* name;
  std::int32_t begin;
  std::int32_t end;
};

void write_spans(hid_t group, const std::vector<TokenSpan>& spans) {
  const h5::Handle type = h5::checked(H5Tcreate(H5T_COMPOUND, sizeof(SpanRecord)), "create spans");
  H5Tinsert(type.get(), "name", HOFFSET(SpanRecord, name), h5::string_type());
  H5Tinsert(type.get(), "begin", HOFFSET(SpanRecord, begin), H5T_NATIVE_INT32);
  H5Tinsert(type.get(), "end", HOFFSET(SpanRecord, end), H5T_NATIVE_INT32);
  const hsize_t count = spans.size();
  const h5::Handle space = h5::checked(H5Screate_simple(1, &count, nullptr), "create spans");
  const h5::Handle dataset = h5::checked(
      H5Dcreate2(group, "spans", type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      "create spans");
  name_axes(dataset, {"span"}, "token", "half-open ranges of tokens with a meaning");
  if (spans.empty()) return;
  std::vector<SpanRecord> records;
  for (const auto& span : spans) records.push_back({span.name.c_str(), span.begin, span.end});
  h5::checked_status(
      H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, h5::transfer(), records.data()),
      "write spans");
}

// What h5web and silx show of a layer.
void write_plot(hid_t group, int layer, const TraceHeader& header) {
  if (header.store.has(Part::Lse))
    describe_plot(group, "lse", {".", "."}, fmt::format("Layer {}: log-sum-exp by head", layer));
  else if (header.store.has(Part::Mass))
    describe_plot(group, "key_mass", {"."}, fmt::format("Layer {}: key mass", layer));
}

}  // namespace

h5::Handle create_vector(hid_t at, const std::string& path, hid_t type, hsize_t size,
                         const char* axis, const char* units, const char* long_name) {
  h5::Handle dataset =
      create_dataset(at, path, type, {size}, {std::clamp<hsize_t>(size, 1, 65536)}, false);
  name_axes(dataset, {axis}, units, long_name);
  return dataset;
}

void write_root(hid_t file, const TraceHeader& header) {
  RootAttributes root;
  root.format = kTraceFormat;
  root.schema_version = schema_version();
  root.producer = "kvloupe " + version();
  root.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  root.mode = header.mode;
  root.dtype = header.dtype;
  write_attributes(file, root);
  h5::write_attribute(file, "NX_class", "NXroot");
  h5::write_attribute(file, "default", "layers");
}

void write_model(hid_t file, const ModelInfo& model) {
  write_attributes(h5::create_group(file, "/model").get(), model);
}

void write_probe_text(hid_t file, const TraceHeader& header) {
  if (header.probe_len == 0) return;
  const h5::Handle group = h5::create_group(file, "/probe");
  write_attributes(group.get(), ProbeAttributes{header.probe_text, header.probe_len});
  if (header.probe_ids.empty()) return;
  const hsize_t count = header.probe_ids.size();
  const h5::Handle ids = create_vector(group.get(), "ids", H5T_STD_I32LE, count, "probe_token", "1",
                                       "token ids of the probe");
  h5::write_box(ids.get(), H5T_NATIVE_INT32, {0}, {count}, header.probe_ids.data());
}

void write_groups(hid_t file, const TraceHeader& header) {
  const h5::Handle tokens = h5::create_group(file, "/tokens");
  write_spans(tokens.get(), header.spans);
  h5::create_group(file, "/chunks");
  if (header.store.has(Part::Drift)) {
    const h5::Handle drift = h5::create_group(file, "/drift");
    h5::write_attribute(drift.get(), "reference", "dense");
  }
  const h5::Handle all = h5::create_group(file, "/layers");
  h5::write_attribute(all.get(), "NX_class", "NXentry");
  if (!header.layers.empty()) {
    h5::write_attribute(all.get(), "default", std::to_string(header.layers.front()));
  }
  for (const int layer : header.layers) {
    const h5::Handle group = h5::create_group(all.get(), std::to_string(layer));
    write_attributes(group.get(), header.model.softmax_of(layer));
    write_plot(group.get(), layer, header);
  }
}

}  // namespace kvloupe::trace
