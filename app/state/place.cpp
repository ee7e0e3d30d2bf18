#include "app/state/place.h"

#include "app/state/span_choices.h"
#include "app/state/token_text.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {

std::string Place::key(PlaceParts parts) const {
  std::string key = trace->key();
  if (device != device::kDefault) key += "|@" + device;
  if ((parts & At::Layer) != 0) key += fmt::format("|L{}", layer);
  if ((parts & At::KvHead) != 0) key += fmt::format("|kv{}", kv_head());
  if ((parts & At::QHead) != 0) key += fmt::format("|h{}", q_head);
  if ((parts & At::Chunk) != 0) key += fmt::format("|c{}", chunk);
  if ((parts & At::Query) != 0) key += fmt::format("|q{}", query);
  if ((parts & At::Window) != 0) {
    const auto [begin, end] = query_window();
    key += fmt::format("|q{}-{}", begin, end);
  }
  if ((parts & At::Keys) == 0) return key;
  const auto keys = watched_span(*this);
  return key + (keys ? fmt::format("|k{}-{}", keys->begin, keys->end) : "|no keys");
}

std::vector<std::string> coordinates_of(PlaceParts parts) {
  std::vector<std::string> names;
  const auto add = [&](PlaceParts any_of, const char* name) {
    if ((parts & any_of) != 0) names.emplace_back(name);
  };
  add(At::Layer, "layer");
  add(At::QHead | At::KvHead, "q_head");
  add(At::QHead | At::KvHead, "kv_head");
  add(At::Chunk, "chunk");
  add(At::Query, "query");
  add(At::Window, "window");
  add(At::Keys, "key");
  return names;
}

const char* step_word(trace::Phase phase) {
  return phase == trace::Phase::Decode ? "decode step" : "chunk";
}

std::string chunk_name(const trace::TraceInfo& info, int chunk) {
  const auto index = static_cast<std::size_t>(chunk);
  const bool known = index < info.chunks.size();
  return fmt::format("{} {}", step_word(known ? info.chunks[index].phase : trace::Phase::Prefill),
                     chunk);
}

std::string chunk_axis(const trace::TraceInfo& info) {
  for (std::size_t chunk = 0; chunk < info.chunks.size(); ++chunk)
    if (info.chunks[chunk].phase == trace::Phase::Decode)
      return fmt::format("chunk, decode step from {} on", chunk);
  return "chunk";
}

std::string range_words(const char* one, const char* several, std::int64_t begin,
                        std::int64_t end) {
  if (end <= begin + 1) return fmt::format("{} {}", one, format_count(begin));
  return fmt::format("{} {} to {}", several, format_count(begin), format_count(end - 1));
}

namespace {

std::optional<trace::TokenSpan> watched_keys(const Place& place) {
  if (place.empty()) return std::nullopt;
  if (place.has_keys()) {
    return trace::TokenSpan{range_words("key", "keys", place.key_begin, place.key_end),
                            place.key_begin, place.key_end};
  }
  if (place.watches_nothing) return std::nullopt;
  const trace::TokenSpan* const found = needle_of(place.info());
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

}  // namespace

std::optional<trace::TokenSpan> watched_span(const Place& place) {
  const auto watched = watched_keys(place);
  if (watched)
    for (const trace::TokenSpan& span : place.info().spans)
      if (span.begin == watched->begin && span.end == watched->end) return span;
  return watched;
}

bool in_question(const Place& place, std::int32_t position) {
  const auto& spans = place.info().spans;
  return std::any_of(spans.begin(), spans.end(), [&](const trace::TokenSpan& span) {
    return span.name == "question" && position >= span.begin && position < span.end;
  });
}

std::string watched_words(const Place& place) {
  const auto span = watched_span(place);
  if (!span) return {};
  return place.has_keys() && span->name == watched_keys(place)->name
             ? span->name
             : fmt::format("\u201C{}\u201D", readable_name(span->name));
}

}  // namespace kvloupe::state
