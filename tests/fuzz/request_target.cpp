// A line of requests, and the tokens that it becomes.
#include "capture/run/request.h"
#include "tests/capture/tiny_vocabulary.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  static const capture::Tokenizer tokenizer(capture::tiny_vocabulary());
  const capture::RequestLine line = capture::read_request(input);
  require(line.request.has_value() == line.error.empty(), "a line is a request or says why not");
  if (!line.request) return;
  const capture::RequestPrompt asked = capture::prompt_of(*line.request, tokenizer);
  const auto tokens = static_cast<std::int32_t>(asked.prompt.ids.size());
  require(0 < asked.prefilled && asked.prefilled <= tokens, "some of the prompt is prefilled");
  require(0 <= asked.first_scored() && asked.first_scored() <= tokens,
          "what is scored lies in the prompt");
}
