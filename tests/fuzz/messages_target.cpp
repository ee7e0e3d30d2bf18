// Messages, and the prompt that they become.
#include "capture/run/prompt_source.h"
#include "tests/capture/tiny_vocabulary.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  static const capture::Tokenizer tokenizer(capture::tiny_vocabulary());
  capture::CaptureOptions options;
  options.messages_file = file_of(input);
  const auto source = capture::read_prompt_source(options);
  const auto made = capture::make_prompt(source, {tokenizer, false, 1 << 20, 0});
  for (const trace::TokenSpan& span : made.prompt.spans)
    require(0 <= span.begin && span.begin <= span.end &&
                span.end <= static_cast<std::int32_t>(made.prompt.ids.size()),
            "a span lies in the prompt");
}
