#include "app/state/number_chunks.h"

#include "app/state/place.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/replay/span_kept.h"
#include "core/trace/queries_note.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace kvloupe::state {

using Kind = NumberScope::Kind;

namespace {

int last_chunk(const trace::TraceInfo& info) {
  return std::max(0, static_cast<int>(info.chunks.size()) - 1);
}

// "chunk 12", "chunks 12 to 15", "chunks 3 to 5, 7"
std::string chunks_text(const NumberChunks& chunks) {
  if (!chunks.stored.empty()) return trace::text_of_chunks(chunks.stored);
  const ChunkRange& range = *chunks.range;
  return range.is_one() ? fmt::format("chunk {}", range.first)
                        : fmt::format("chunks {} to {}", range.first, range.last);
}

// A trace may have the queries of some chunks only: numbers are of these. Where it has none, what is asked
// refuses.
void keep_stored(const trace::TraceInfo& info, NumberChunks& chunks) {
  if (!chunks.range || info.query_offsets.empty() || info.chunks.empty()) return;
  const std::vector<int> stored = trace::with_queries(info, chunks.range->list());
  chunks.range = {stored.front(), stored.back()};
  if (stored != chunks.range->list()) chunks.stored = stored;
}

}  // namespace

std::vector<int> ChunkRange::list() const {
  std::vector<int> chunks(static_cast<std::size_t>(last - first + 1));
  std::iota(chunks.begin(), chunks.end(), first);
  return chunks;
}

std::vector<int> NumberChunks::list() const {
  if (!stored.empty()) return stored;
  return range ? range->list() : std::vector<int>();
}

bool NumberChunks::has(int chunk) const {
  if (!stored.empty()) return std::binary_search(stored.begin(), stored.end(), chunk);
  return !range || range->has(chunk);
}

std::string NumberChunks::key() const {
  if (!stored.empty()) return fmt::format("c{}", fmt::join(stored, ","));
  if (!range) return "all";
  return range->is_one() ? fmt::format("c{}", range->first)
                         : fmt::format("c{}-{}", range->first, range->last);
}

trace::Phase NumberChunks::phase(const trace::TraceInfo& info, trace::Phase shown) const {
  if (!range) return shown;
  const auto phase_of = [&](int chunk) {
    return info.chunks[static_cast<std::size_t>(chunk)].phase;
  };
  const trace::Phase first = phase_of(range->first);
  return first == phase_of(range->last) ? first : shown;
}

NumberChunks number_chunks(const NumberScope& scope, const Place& place, Kind own) {
  NumberChunks chunks{scope.kind, true, {}};
  if (place.empty()) return {own, false, {}};
  const trace::TraceInfo& info = place.info();
  if (scope.kind == Kind::Own) chunks = {own, false, {}};
  if (const auto* question = replay::question_of(info);
      chunks.kind == Kind::Question && question != nullptr)
    chunks.range = {info.chunk_of_token(question->begin), last_chunk(info)};
  else if (chunks.kind == Kind::Chunk)
    chunks.range = {place.chunk, place.chunk};
  else if (chunks.kind == Kind::Range)
    chunks.range = {std::min(scope.first, last_chunk(info)),
                    std::min(scope.last, last_chunk(info))};
  else
    chunks.kind = Kind::All;
  keep_stored(info, chunks);
  return chunks;
}

NumberChunks number_chunks(const Workspace& workspace, Kind own) {
  return number_chunks(workspace.selection().numbers, workspace.place(), own);
}

std::string brief_of(const NumberChunks& chunks, const trace::TraceInfo& info) {
  if (!chunks.range) return info.query_offsets.empty() ? "all chunks" : "all stored chunks";
  if (chunks.kind == Kind::Question) return "from the question on";
  return chunks.range->is_one() ? chunk_name(info, chunks.range->first) : chunks_text(chunks);
}

std::string words_of(const NumberChunks& chunks, const trace::TraceInfo& info) {
  if (chunks.kind != Kind::Question || !chunks.range) return brief_of(chunks, info);
  return fmt::format("from the question on ({})", chunks_text(chunks));
}

replay::Counted counted_in(const NumberChunks& chunks,
                           const std::optional<trace::NamedKeys>& watched,
                           const trace::TraceInfo& info) {
  replay::Counted counted;
  counted.chunks = chunks.list();
  if (!watched) return counted;
  counted.watched = chunks.chosen ? replay::WatchedKeys{watched->keys}
                                  : replay::watched_from_question(watched->keys, info);
  return counted;
}

void check_scope(const NumberScope& scope, const trace::TraceInfo& info) {
  if (scope.kind == Kind::Question && replay::question_of(info) == nullptr)
    throw input_error("numbers from the question on cannot be shown",
                      "the trace has no span called question, or ends before it",
                      "choose all, chunk, or chunks such as 12-15");
  if (scope.kind == Kind::Range && scope.last > last_chunk(info))
    throw input_error(fmt::format("numbers over chunk {} cannot be shown", scope.last),
                      fmt::format("this trace has the chunks 0 to {}", last_chunk(info)),
                      "choose some of these");
}

}  // namespace kvloupe::state
