// A model file: what it says of the model, its tokenizer, and its tensors' bytes.
#include "capture/model/gguf.h"
#include "capture/model/model_config.h"
#include "capture/text/gguf_tokenizer.h"
#include "tests/fuzz/target.h"

#include <cstddef>
#include <numeric>

void kvloupe::fuzz::read_input(std::string_view input) {
  const capture::GgufFile file(file_of(input));
  for (const auto& tensor : file.tensors()) {
    const auto sum = std::accumulate(
        tensor.data.begin(), tensor.data.end(), std::size_t{0},
        [](std::size_t before, std::byte byte) { return before + static_cast<unsigned>(byte); });
    require(sum <= 255 * tensor.data.size(), "every byte of a tensor can be read");
  }
  capture::read_config(file);
  const capture::Tokenizer tokenizer = capture::read_tokenizer(file);
  const auto ids = tokenizer.encode("Hello world, 12\n<|im_end|>", capture::SpecialTokens::Parse);
  tokenizer.decode(ids);
}
