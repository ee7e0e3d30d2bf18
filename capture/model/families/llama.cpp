// Llama 2 and 3 (arXiv 2407.21783) and what was built alike: SmolLM2, Mistral in GGUF files.
#include "capture/model/family.h"

namespace kvloupe::capture {

Family family_llama() {
  Family family;
  family.id = "llama";
  family.gguf = {"llama"};
  family.hugging_face = {"llama"};
  // So that pairs lie side by side.
  family.gguf_pairing = trace::RopePairing::Interleaved;
  return family;
}

}  // namespace kvloupe::capture
