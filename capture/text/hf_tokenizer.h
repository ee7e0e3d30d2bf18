// The tokenizer of a Hugging Face folder.
#pragma once

#include "capture/text/tokenizer.h"

#include <filesystem>

namespace kvloupe::capture {

// tokenizer.json with what the files beside it add: tokenizer_config.json, special_tokens_map.json,
// generation_config.json and chat_template.jinja. Throws Error{Input} for what is missing, too
// large, damaged or not implemented.
Tokenizer read_hf_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe::capture
