// Token ids, texts and the named spans of a trace.
#include "core/trace/hdf5/compound.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <limits>

namespace kvloupe::trace {
std::vector<TokenSpan> load_spans(hid_t file) {
  if (!h5::has_object(file, "/tokens/spans")) return {};
  const auto dataset = h5::Dataset::open(file, "/tokens/spans", h5::ValueClass::Compound, 1);
  const hsize_t count = dataset.dims().front();
  if (count == 0) return {};
  dataset.require_stored(count > 65536 ? std::numeric_limits<std::uint64_t>::max() : count * 9);
  const auto begin = h5::read_member_integers(dataset, "begin", count);
  const auto end = h5::read_member_integers(dataset, "end", count);
  const auto names = h5::read_member_texts(dataset, "name", count);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::vector<TokenSpan> spans;
  for (std::size_t i = 0; i < count; ++i) {
    if (begin[i] < 0 || end[i] < begin[i] || end[i] > kMost)
      throw h5::Defect(fmt::format("the span {} is [{}, {})", i, begin[i], end[i]));
    spans.push_back(
        {names[i], static_cast<std::int32_t>(begin[i]), static_cast<std::int32_t>(end[i])});
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
