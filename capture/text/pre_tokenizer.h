// Cuts text into the pieces inside which byte-pair merges happen.
#pragma once

#include <string_view>
#include <vector>

namespace kvloupe::capture {

// The `smollm` rule: every numeric character stands alone; between them the GPT-2 pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// applies as if the numeric characters ended the text. Bytes that are not UTF-8 count as symbols.
// The pieces are views that tile `text`.
std::vector<std::string_view> pre_tokenise_smollm(std::string_view text);

}  // namespace kvloupe::capture
