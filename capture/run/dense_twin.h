// The dense model beside a closed loop, fed the same tokens: how far the closed loop has drifted.
#pragma once

#include "capture/model/decoder.h"
#include "capture/run/forecast.h"
#include "capture/text/tokenizer.h"
#include "core/base/cancel.h"
#include "core/trace/next_tokens.h"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace kvloupe::capture {

class DenseTwin {
 public:
  // `layers`: those whose queries and keys are compared. The first `prompt_len` tokens are the prompt,
  // whose end is a chunk's.
  DenseTwin(std::shared_ptr<const LoadedModel> model, const DecoderOptions& options,
            std::vector<int> layers, std::int64_t prompt_len);

  // The next chunk, before the closed loop runs it.
  void forward(std::span<const std::int32_t> tokens);
  // What the closed loop computed in a layer of that chunk.
  void compare(const AttentionCall& call);
  // All that is to be said of that chunk, once the closed loop has run it.
  trace::DriftChunk drift(const Decoder& decoder, const Forecast& closed_loop,
                          std::span<const std::int32_t> tokens);

  // What the dense model samples greedily after the prompt, until it ends its answer or `max_new_tokens`; nothing
  // where that was cancelled. The twin compares no more.
  std::vector<std::int32_t> answer(int max_new_tokens, const Tokenizer& tokenizer,
                                   const CancelToken& cancel);

 private:
  // Dense attention that keeps the chunk's own queries and keys of the layers compared.
  class Keeping final : public AttentionHook {
   public:
    explicit Keeping(std::vector<int> layers);
    at::Tensor attend(const AttentionCall& call) override;
    struct Rows {
      at::Tensor q, k;  // [heads, m, head_dim]
    };
    std::map<int, Rows> rows;

   private:
    DenseAttention dense_;
  };

  Decoder decoder_;
  Keeping hook_;
  std::int64_t prompt_len_;
  Forecast forecast_;  // of the chunk under way
  at::Tensor before_,
      after_prompt_;  // [vocab_size] logits after the chunk before, after the prompt
  std::map<int, at::Tensor> distance_;  // [2] of q and k, by layer
};

}  // namespace kvloupe::capture
