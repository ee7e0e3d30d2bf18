// The chunks that a scope of numbers (number_scope.h) means at a place.
#pragma once

#include "app/state/number_scope.h"
#include "core/replay/averages.h"
#include "core/trace/trace_types.h"

#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

class Workspace;
struct Place;

// Chunks of one trace, both ends in.
struct ChunkRange {
  int first = 0, last = 0;
  bool operator==(const ChunkRange&) const = default;
  bool has(int chunk) const { return chunk >= first && chunk <= last; }
  bool is_one() const { return first == last; }
  std::vector<int> list() const;
};

// The chunks of a trace over which a view's numbers are.
struct NumberChunks {
  NumberScope::Kind kind = NumberScope::Kind::All;  // never Own
  bool chosen = false;                              // else the view's own
  std::optional<ChunkRange> range = {};             // none: all
  // Of the range those whose queries are stored, where some between lack theirs.
  std::vector<int> stored = {};
  bool operator==(const NumberChunks&) const = default;

  std::string key() const;  // "all", "c12", "c12-15", "c3,7"
  std::vector<int> list() const;
  bool has(int chunk) const;
  // The phase that the numbers are of: `shown`, that of the chunk shown, where the chunks have both.
  trace::Phase phase(const trace::TraceInfo& info, trace::Phase shown) const;
};
// The chunks of the scope at a place; where none is chosen those of `own`.
NumberChunks number_chunks(const NumberScope& scope, const Place& place, NumberScope::Kind own);
// Of what the workspace shows.
NumberChunks number_chunks(const Workspace& workspace,
                           NumberScope::Kind own = NumberScope::Kind::All);
// Why the trace has no such chunks, as an Error{Input}.
void check_scope(const NumberScope& scope, const trace::TraceInfo& info);
// "chunk 12", "the chunks from the question on (14 to 15)", "all chunks".
std::string words_of(const NumberChunks& chunks, const trace::TraceInfo& info);
// The same for a chip: "from the question on".
std::string brief_of(const NumberChunks& chunks, const trace::TraceInfo& info);

// Which cells count, and in which of them the share of the watched keys does: where no chunks are
// chosen, from the question on.
replay::Counted counted_in(const NumberChunks& chunks,
                           const std::optional<trace::NamedKeys>& watched,
                           const trace::TraceInfo& info);

}  // namespace kvloupe::state
