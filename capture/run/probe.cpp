// The wording is ours: the paper's own was not found.
#include "capture/run/probe.h"

#include "core/base/error.h"

namespace kvloupe::capture {

Probe make_probe(const Tokenizer& tokenizer) {
  Probe probe;
  probe.text = "\nSummarize the context above and keep its most important parts.";
  probe.ids = tokenizer.encode(probe.text, SpecialTokens::Literal);
  if (probe.ids.empty()) {
    throw input_error("cannot record a probe", "the model's vocabulary has no token for its text",
                      "leave out methods that need a probe");
  }
  return probe;
}

}  // namespace kvloupe::capture
