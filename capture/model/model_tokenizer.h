// The tokenizer of a model's files.
#pragma once

#include "capture/model/model_source.h"
#include "capture/text/tokenizer.h"

namespace kvloupe::capture {

// Throws Error{Input} for what is missing, damaged or not implemented.
Tokenizer read_tokenizer(const ModelSource& source);

}  // namespace kvloupe::capture
