#include "core/session/session.h"

#include "core/base/held_bytes.h"

#include <utility>

namespace kvloupe::session {

TraceSession::TraceSession(const std::filesystem::path& path, MemoryAccountPtr memory)
    : TraceSession(path, memory, trace::LoadBudget(path.string(), *memory)) {}

TraceSession::TraceSession(const std::filesystem::path& path, MemoryAccountPtr memory,
                           const trace::LoadBudget&)
    : memory_(std::move(memory)),
      reader_(path),
      ids_(reader_.token_ids()),
      texts_(reader_.token_texts()),
      load_(charge_load(memory_, path.string(), load_bytes().sum())) {}

LoadBytes TraceSession::load_bytes() const {
  const trace::TraceInfo& loaded = info();
  LoadBytes bytes;
  bytes.tokens = held_bytes(ids_) + held_bytes(texts_);
  // The column masses have an offset a chunk.
  bytes.chunks = held_bytes(loaded.chunks) + loaded.chunks.size() * sizeof(std::int64_t) +
                 held_bytes(loaded.generated) + held_bytes(loaded.spans);
  for (const trace::TokenSpan& span : loaded.spans) bytes.chunks += held_bytes(span.name);
  bytes.runs = held_bytes(loaded.runs) + held_bytes(loaded.warnings);
  for (const trace::RunInfo& run : loaded.runs)
    bytes.runs +=
        held_bytes(run.method) + held_bytes(run.basis_source) + held_bytes(run.basis_hash);
  return bytes;
}

}  // namespace kvloupe::session
