// The tokenizer of a GGUF file.
#pragma once

#include "capture/model/gguf.h"
#include "capture/text/tokenizer.h"

namespace kvloupe::capture {

// Throws Error{Input} for what is missing, damaged or not implemented, naming the key.
Tokenizer read_tokenizer(const GgufFile& file);

}  // namespace kvloupe::capture
