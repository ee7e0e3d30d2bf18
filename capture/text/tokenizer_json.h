// Hugging Face's tokenizer.json as a vocabulary.
#pragma once

#include "capture/text/tokenizer_data.h"

#include <string_view>

namespace kvloupe::capture {

// What the file says: byte-level BPE, and BPE over characters with a byte fallback. `adds_bos` and
// `bos` are those of its post-processor. Throws Error{Input} naming the component that cannot be
// mapped, so that no text is ever cut in another way than the file's own.
TokenizerData parse_tokenizer_json(std::string_view content);

}  // namespace kvloupe::capture
