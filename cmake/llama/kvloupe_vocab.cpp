#include "kvloupe_vocab.h"

#include "llama-model-loader.h"
#include "llama-vocab.h"

#include <cstdlib>
#include <memory>

llama_vocab* kvloupe_vocab_new(gguf_context* metadata) {
  std::vector<std::string> no_splits;
  llama_model_loader loader(
      metadata, nullptr, nullptr, "", no_splits, nullptr, LLAMA_LOAD_MODE_NONE,
      /*check_tensors=*/false, /*no_alloc=*/true, /*load_mtp=*/false, nullptr, nullptr);
  auto vocab = std::make_unique<llama_vocab>();
  vocab->load(loader, LLM_KV(loader.get_arch()));
  return vocab.release();
}

void kvloupe_vocab_free(llama_vocab* vocab) { delete vocab; }

// The loader names these for models in several files, of which there are none without a file. They live beside llama.cpp's
// models.
extern "C" {
int32_t llama_split_path(char*, size_t, const char*, int32_t, int32_t) { std::abort(); }
int32_t llama_split_prefix(char*, size_t, const char*, int32_t, int32_t) { std::abort(); }
}
