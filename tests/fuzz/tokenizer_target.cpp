// A tokenizer.json: what it becomes, and a text through it.
#include "capture/text/tokenizer.h"
#include "capture/text/tokenizer_json.h"
#include "tests/fuzz/target.h"

void kvloupe::fuzz::read_input(std::string_view input) {
  const capture::Tokenizer tokenizer(capture::parse_tokenizer_json(input));
  constexpr std::string_view kText = "Hello world, 12\n\n  na\xc3\xafve \xe2\x96\x81\xff<|im_end|>";
  for (const auto special : {capture::SpecialTokens::Parse, capture::SpecialTokens::Literal}) {
    const capture::Encoding encoding = tokenizer.encode_with_offsets(kText, special);
    require(encoding.ids.size() == encoding.begins.size(), "every token begins somewhere");
    for (std::size_t i = 0; i < encoding.ids.size(); ++i)
      require(encoding.begins[i] < kText.size() &&
                  (i == 0 || encoding.begins[i - 1] <= encoding.begins[i]),
              "tokens begin in the text, one after the other");
    tokenizer.decode(encoding.ids);
  }
}
