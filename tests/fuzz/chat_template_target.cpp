// A chat template with two messages.
#include "capture/text/chat_template.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  capture::render_chat_template(
      std::string(input),
      {{{"system", "Be brief."}, {"user", "Hello <|im_end|>"}}, "<s>", "</s>", true});
}
