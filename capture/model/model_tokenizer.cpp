#include "capture/model/model_tokenizer.h"

#include "capture/model/gguf_source.h"
#include "capture/text/gguf_tokenizer.h"
#include "capture/text/hf_tokenizer.h"

namespace kvloupe::capture {

Tokenizer read_tokenizer(const ModelSource& source) {
  if (const auto* gguf = dynamic_cast<const GgufSource*>(&source))
    return read_tokenizer(gguf->file());
  return read_hf_tokenizer(source.path());
}

}  // namespace kvloupe::capture
