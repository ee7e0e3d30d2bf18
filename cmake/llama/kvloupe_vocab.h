// A vocabulary of llama.cpp from metadata in memory. llama.h reaches one only through a model, and with it through every
// model that llama.cpp knows.
#pragma once

#include "gguf.h"
#include "llama.h"

// The keys tokenizer.ggml.* of `metadata`. Throws std::runtime_error for what llama.cpp refuses; some contradictions end
// the program instead: check the metadata first. Not freed here: `metadata`.
llama_vocab* kvloupe_vocab_new(gguf_context* metadata);
void kvloupe_vocab_free(llama_vocab* vocab);
