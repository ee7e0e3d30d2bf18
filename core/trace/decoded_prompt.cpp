#include "core/trace/decoded_prompt.h"

#include <algorithm>

namespace kvloupe::trace {

std::int32_t answer_begin(const TraceInfo& info) {
  for (const TokenSpan& span : info.spans)
    if (span.name == kDecodedPrompt) return std::max(0, span.end);
  for (const ChunkInfo& chunk : info.chunks)
    if (chunk.phase == Phase::Decode) return chunk.begin;
  return info.num_tokens;
}

std::optional<TokenSpan> decoded_prompt_within(const TokenSpan& span, std::int32_t end) {
  if (span.name != kDecodedPrompt || span.begin >= end) return std::nullopt;
  TokenSpan kept = span;
  kept.end = std::min(kept.end, end);
  return kept;
}

}  // namespace kvloupe::trace
