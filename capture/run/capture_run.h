// The course of the tokens through the model: prefill, then greedy decode, chunk by chunk, each told to
// the recorder.
#pragma once

#include "capture/model/decoder.h"
#include "capture/run/dense_twin.h"
#include "capture/run/forecast.h"
#include "capture/run/probe.h"
#include "capture/run/recorder.h"
#include "core/base/cancel.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_types.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvloupe::capture {

// What was sampled, without the token that ends an answer.
std::string text_of_answer(const Tokenizer& tokenizer, std::vector<std::int32_t> ids);

// What is fed, and what is made of it.
struct Course {
  std::vector<std::int32_t> prompt;
  std::vector<trace::ChunkInfo> plan;  // of the prompt and the new tokens that are fed
  int max_new_tokens = 0;
  // The tokens that would come after each of the prompt's last ones, whose likelihood is wanted. Without
  // losses.
  std::vector<std::int32_t> scored;
  // Whether the answer is over, though no token ended it: asked after each new token. May be empty.
  std::function<bool(std::int32_t)> stops;
};

// Tokens for which a decoder has room: the probe follows the prompt and each of its chunks.
std::int64_t cache_tokens(const std::vector<trace::ChunkInfo>& plan, std::int64_t prompt_tokens,
                          const Probe& probe);

// Feeds the planned chunks and samples greedily after the prompt.
class CaptureRun {
 public:
  // `decoder` holds nothing, or the first chunks of the plan, as they would be run here: these are not run again. `left`:
  // the trace of a capture that goes on, or null. References outlive the run.
  CaptureRun(std::shared_ptr<const LoadedModel> model, Decoder& decoder, Course course,
             const RecorderOptions& recording, const Probe& probe, Recorder& recorder,
             const trace::TraceReader* left = nullptr);

  // Returns false when it was cancelled before the end.
  bool run(const WorkContext& context);

  const std::vector<std::int32_t>& generated() const { return generated_; }
  std::int64_t tokens() const { return decoder_.length(); }
  int chunks_done() const { return chunks_done_; }
  // Nothing of a capture that went on: its first chunks were not run here.
  std::optional<trace::CaptureSpeed> speed() const;
  // Of all tokens but the first, by the model as it ran and by the dense one beside it: in nats.
  std::optional<double> mean_loss() const { return mean_loss_.value(); }
  std::optional<double> mean_dense_loss() const { return mean_dense_loss_.value(); }
  std::string answer() const;
  // The answer came to its end: by a token that ends it or by Course::stops.
  bool ended() const { return ended_; }
  const Likelihood& likelihood() const { return likelihood_; }
  double prefill_seconds() const { return seconds_.prefill; }
  double decode_seconds() const { return seconds_.decode; }
  // What the dense model beside the closed loop answers when it is left alone.
  std::vector<std::int32_t> dense_answer(const CancelToken& cancel);

 private:
  class Mean {
   public:
    void add(const std::vector<float>& losses);
    std::optional<double> value() const;

   private:
    double sum_ = 0;
    std::int64_t count_ = 0;
  };

  struct Seconds {
    double prefill = 0, decode = 0;
    double prompt = 0;  // of these: until the first new token could be sampled
  };

  void add_seconds(Seconds& seconds, const trace::ChunkInfo& chunk, double more) const;

  void restore();
  void feed(const trace::ChunkInfo& chunk);
  at::Tensor forward(const trace::ChunkInfo& chunk, std::span<const std::int32_t> ids,
                     bool wants_token);
  void record_losses(const trace::ChunkInfo& chunk, const Forecast& forecast,
                     std::span<const std::int32_t> ids, bool wants_token);
  void score(const trace::ChunkInfo& chunk, const Forecast& forecast);
  void run_probe(const trace::ChunkInfo& chunk);
  bool stands_in_trace() const;
  trace::ModelSpeed speed_of(const Seconds& seconds) const;
  void sample(const at::Tensor& logits);

  std::shared_ptr<const LoadedModel> model_;
  Decoder& decoder_;
  Course course_;
  std::int64_t prompt_len_, prefill_len_;
  std::vector<std::int32_t> ids_;  // the prompt, then what was generated
  std::vector<std::int32_t> generated_;
  bool ended_ = false;
  Likelihood likelihood_;
  const Probe& probe_;  // no tokens: nothing is probed
  bool store_nll_, store_top_;
  Recorder& recorder_;
  std::optional<DenseTwin> twin_;
  at::Tensor last_logits_;          // of the chunk before, when losses are stored
  const trace::TraceReader* left_;  // the chunks that a capture which goes on has done, if any
  std::vector<float> left_novelty_;
  int chunks_done_ = 0;
  Seconds seconds_, twin_seconds_;  // of all, and of the twin's model in it
  Mean mean_loss_, mean_dense_loss_;
};

}  // namespace kvloupe::capture
