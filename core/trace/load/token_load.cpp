// Token ids, texts and the named spans of a trace.
#include "core/trace/hdf5/global_heap.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <limits>

namespace kvloupe::trace {
namespace {

struct SpanRange {
  std::int32_t begin;
  std::int32_t end;
};

// Names are read apart from the numbers because they may have fixed or variable length.
std::vector<std::string> load_span_names(const h5::Dataset& dataset, std::size_t count) {
  const h5::Handle file_type = h5::checked(H5Dget_type(dataset.id()), "read the spans");
  const int member = H5Tget_member_index(file_type.get(), "name");
  if (member < 0 || H5Tget_member_class(file_type.get(), member) != H5T_STRING) {
    throw h5::Defect("/tokens/spans has no texts called name");
  }
  const h5::Handle name_type =
      h5::checked(H5Tget_member_type(file_type.get(), member), "read the spans");
  const bool variable = H5Tis_variable_str(name_type.get()) > 0;
  const std::size_t size = variable ? h5::kRawReferenceBytes : H5Tget_size(name_type.get());
  if (size == 0 || size > 65536) throw h5::Defect("/tokens/spans has names of more than 64 KiB");
  const h5::Handle type = h5::checked(H5Tcreate(H5T_COMPOUND, size), "read the spans");
  const hid_t text_type = variable ? h5::raw_reference_type() : name_type.get();
  h5::checked_status(H5Tinsert(type.get(), "name", 0, text_type), "read the spans");
  LoadBudget::require(size * count, "/tokens/spans");
  std::vector<std::uint8_t> raw(size * count);
  dataset.read(type.get(), {0}, {count}, raw.data());
  if (variable) {
    return h5::read_heap_texts(dataset.id(), h5::parse_references(raw), "/tokens/spans");
  }
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name(raw.begin() + i * size, raw.begin() + (i + 1) * size);
    names.push_back(name.substr(0, name.find('\0')));
  }
  return names;
}

void require_integer_member(hid_t type, const char* name) {
  const int member = H5Tget_member_index(type, name);
  if (member < 0 || H5Tget_member_class(type, member) != H5T_INTEGER) {
    throw h5::Defect(fmt::format("/tokens/spans has no integers called {}", name));
  }
}

}  // namespace

std::vector<TokenSpan> load_spans(hid_t file) {
  if (!h5::has_object(file, "/tokens/spans")) return {};
  const auto dataset = h5::Dataset::open(file, "/tokens/spans", h5::ValueClass::Compound, 1);
  const hsize_t count = dataset.dims().front();
  if (count == 0) return {};
  dataset.require_stored(count > 65536 ? std::numeric_limits<std::uint64_t>::max() : count * 9);
  const h5::Handle file_type = h5::checked(H5Dget_type(dataset.id()), "read the spans");
  require_integer_member(file_type.get(), "begin");
  require_integer_member(file_type.get(), "end");
  const h5::Handle type = h5::checked(H5Tcreate(H5T_COMPOUND, sizeof(SpanRange)), "read the spans");
  H5Tinsert(type.get(), "begin", HOFFSET(SpanRange, begin), H5T_NATIVE_INT32);
  H5Tinsert(type.get(), "end", HOFFSET(SpanRange, end), H5T_NATIVE_INT32);
  std::vector<SpanRange> records(count);
  dataset.read(type.get(), {0}, {count}, records.data());
  const auto names = load_span_names(dataset, count);
  std::vector<TokenSpan> spans;
  for (std::size_t i = 0; i < count; ++i) {
    if (records[i].begin < 0 || records[i].end < records[i].begin) {
      throw h5::Defect(fmt::format("the span {} is [{}, {})", i, records[i].begin, records[i].end));
    }
    spans.push_back({names[i], records[i].begin, records[i].end});
  }
  return spans;
}

bool check_token_texts(hid_t file, std::int32_t num_tokens) {
  if (!h5::has_object(file, "/tokens/text") && !h5::has_object(file, "/tokens/text_offsets")) {
    return false;
  }
  const auto text = h5::Dataset::open(file, "/tokens/text", h5::ValueClass::Integer, 1);
  const auto offsets =
      h5::Dataset::open(file, "/tokens/text_offsets", h5::ValueClass::Integer, 1)
          .read_range<std::uint64_t>(0, static_cast<std::uint64_t>(num_tokens) + 1);
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      throw h5::Defect(fmt::format("/tokens/text_offsets falls at token {}", i - 1));
    }
  }
  if (offsets.back() > text.dims().front()) {
    throw h5::Defect(fmt::format("/tokens/text has {} bytes where its offsets end at {}",
                                 text.dims().front(), offsets.back()));
  }
  return true;
}

std::vector<std::int32_t> load_token_ids(const LoadedTrace& trace) {
  return trace.ids.read_range<std::int32_t>(0, static_cast<std::uint64_t>(trace.info.num_tokens));
}

std::vector<std::string> load_token_texts(hid_t file, const LoadedTrace& trace) {
  const auto tokens = static_cast<std::size_t>(trace.info.num_tokens);
  std::vector<std::string> texts(tokens);
  if (!trace.has_texts) return texts;
  const auto offsets = h5::Dataset::open(file, "/tokens/text_offsets", h5::ValueClass::Integer, 1)
                           .read_range<std::uint64_t>(0, tokens + 1);
  const auto bytes =
      h5::Dataset::open(file, "/tokens/text", h5::ValueClass::Integer, 1)
          .read_range<std::uint8_t>(offsets.front(), offsets.back() - offsets.front());
  for (std::size_t i = 0; i < tokens; ++i) {
    texts[i].assign(bytes.begin() + (offsets[i] - offsets.front()),
                    bytes.begin() + (offsets[i + 1] - offsets.front()));
  }
  return texts;
}

}  // namespace kvloupe::trace
