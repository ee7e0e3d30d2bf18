// Where a prompt goes on as decode steps: its first tokens are prefilled, the rest is fed token by token, as a user's
// question after a long text that the model has read.
#pragma once

#include "capture/text/prompt.h"

#include <cstdint>
#include <string>

namespace kvloupe::capture {

// The number of tokens that are prefilled, 1 to all but one. `decode_from` is a position, or the name of a span, which
// begins there; `option` is what the user calls it. Throws Error{Input} for a name that the prompt does not have, and for
// a position that leaves nothing to prefill or nothing to decode.
std::int32_t prefill_tokens(const std::string& option, const std::string& decode_from,
                            const Prompt& prompt);
std::int32_t prefill_tokens(const std::string& option, std::int64_t position, const Prompt& prompt);

}  // namespace kvloupe::capture
