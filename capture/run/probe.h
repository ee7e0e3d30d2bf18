// The probe: a short text that the model reads after each prefill chunk, without keeping its KVs. Its
// queries stand for what will be asked of the context (InfiniPot's catalyst prompt).
#pragma once

#include "capture/text/tokenizer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::capture {

// Raw tokens: no template, no special tokens.
struct Probe {
  std::string text;
  std::vector<std::int32_t> ids;
};

// The same generic instruction for every prompt. Throws Error{Input} for a tokenizer that has no
// tokens for it.
Probe make_probe(const Tokenizer& tokenizer);

}  // namespace kvloupe::capture
