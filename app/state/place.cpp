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
  if ((parts & At::Query) != 0) key += fmt::format("|q{}+{}", query, queries.text());
  if ((parts & At::Window) != 0) {
    const auto [begin, end] = query_window();
    key += fmt::format("|q{}-{}", begin, end);
  }
  if ((parts & At::Keys) == 0) return key;
  const auto watched = watched_keys(*this);
  return key + (watched ? "|k" + watched->keys.text() : "|no keys");
}

std::vector<std::int32_t> Place::looked_at() const {
  const trace::ChunkInfo& here = chunk_info();
  const trace::KeySet all = queries.empty() ? trace::KeySet{query, query + 1} : queries;
  std::vector<std::int32_t> rows = all.positions_in(here.begin, here.end());
  for (std::int32_t& row : rows) row -= here.begin;
  return rows;
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

std::string keys_words(const trace::KeySet& keys) {
  return keys.ranges().size() > 1 ? format_count(keys.size()) + kPickedKeys
                                  : range_words("key", "keys", keys.first(), keys.bound());
}

std::optional<trace::NamedKeys> watched_keys(const Place& place) {
  if (place.empty()) return std::nullopt;
  trace::KeySet keys = place.keys;
  if (keys.empty() && !place.watches_nothing)
    if (const trace::TokenSpan* const needle = needle_of(place.info()))
      keys = {needle->begin, needle->end};
  if (keys.empty()) return std::nullopt;
  for (const trace::TokenSpan& span : place.info().spans)
    if (keys.is(span.begin, span.end)) return trace::NamedKeys{span.name, keys};
  return trace::NamedKeys{keys_words(keys), keys};
}

bool in_question(const Place& place, std::int32_t position) {
  const auto& spans = place.info().spans;
  return std::any_of(spans.begin(), spans.end(), [&](const trace::TokenSpan& span) {
    return span.name == "question" && position >= span.begin && position < span.end;
  });
}

std::string watched_words(const Place& place) {
  const auto span = watched_keys(place);
  if (!span) return {};
  return span->name == keys_words(span->keys)
             ? span->name
             : fmt::format("\u201C{}\u201D", readable_name(span->name));
}

}  // namespace kvloupe::state
