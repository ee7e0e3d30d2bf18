// Llama 2 and 3 (arXiv 2407.21783) and what was built alike: SmolLM2, Mistral in GGUF files.
#include "capture/model/family.h"

namespace kvloupe::capture {

void family_llama(Family& family) {
  // So that pairs lie side by side.
  family.gguf_pairing = trace::RopePairing::Interleaved;
}

}  // namespace kvloupe::capture
