#include "core/session/session.h"

#include "core/base/error.h"
#include "core/base/held_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::session {

namespace {

std::optional<trace::TraceInfo> cut_info(const trace::TraceInfo& info,
                                         std::optional<int> chunk_size) {
  if (!chunk_size) return std::nullopt;
  trace::TraceInfo cut = info;
  cut.chunks = cut_anew(info, *chunk_size);
  cut.runs.clear();
  return cut;
}

}  // namespace

std::vector<trace::ChunkInfo> cut_anew(const trace::TraceInfo& info, int size) {
  if (size < 1)
    throw usage_error(fmt::format("chunk size {} is not valid", size), "it must be at least 1",
                      "give a number of tokens");
  const std::vector<trace::ChunkInfo>& chunks = info.chunks;
  trace::require_queries(info, static_cast<int>(chunks.size()),
                         "the prompt cannot be cut into other chunks");
  std::vector<trace::ChunkInfo> result;
  for (auto chunk = chunks.begin(); chunk != chunks.end();) {
    if (chunk->phase == trace::Phase::Decode) {
      result.push_back(*chunk++);
      continue;
    }
    // A turn of a conversation: what is read until the model answers.
    std::int32_t begin = chunk->begin;
    const auto answer = std::find_if(chunk, chunks.end(), [](const trace::ChunkInfo& next) {
      return next.phase == trace::Phase::Decode;
    });
    const std::int32_t end = std::prev(answer)->end();
    while (begin < end) {
      result.push_back({begin, std::min<std::int32_t>(size, end - begin), trace::Phase::Prefill});
      begin = result.back().end();
    }
    chunk = answer;
  }
  return result;
}

TraceSession::TraceSession(const std::filesystem::path& path, MemoryAccountPtr memory,
                           std::optional<int> chunk_size, selection::BasisMaker bases)
    : TraceSession(path, memory, chunk_size, std::move(bases),
                   trace::LoadBudget(path.string(), *memory)) {}

TraceSession::TraceSession(const std::filesystem::path& path, MemoryAccountPtr memory,
                           std::optional<int> chunk_size, selection::BasisMaker bases,
                           const trace::LoadBudget&)
    : memory_(std::move(memory)),
      reader_(path),
      chunk_size_(chunk_size),
      bases_(std::move(bases)),
      cut_(cut_info(reader_.info(), chunk_size)),
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
