// Which tokens were sampled, where the end of a prompt was decoded, too.
#pragma once

#include "core/trace/trace_types.h"

#include <cstdint>
#include <optional>

namespace kvloupe::trace {

// The span of the tokens of a prompt that were fed one by one, as decode chunks.
inline constexpr const char* kDecodedPrompt = "prompt:decoded";

// Where the first sampled token stands once it is fed: after the prompt, all of it.
std::int32_t answer_begin(const TraceInfo& info);
// Of the span of that name what stands before `end`: without it the tokens of the prompt would pass for sampled ones. Nothing
// for other spans, and where all of it stands behind.
std::optional<TokenSpan> decoded_prompt_within(const TokenSpan& span, std::int32_t end);

}  // namespace kvloupe::trace
