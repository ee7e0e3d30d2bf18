#include "capture/run/capture_run.h"

#include "capture/model/model.h"
#include "capture/run/resume.h"
#include "core/base/error.h"
#include "core/base/seconds_since.h"
#include "core/device/torch_device.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace kvloupe::capture {
namespace {

using Clock = std::chrono::steady_clock;

// The recorder, and the dense model that compares what reaches it.
class ComparedAttention final : public AttentionHook {
 public:
  ComparedAttention(Recorder& recorder, std::optional<DenseTwin>& twin)
      : recorder_(recorder), twin_(twin) {}
  at::Tensor attend(const AttentionCall& call) override {
    if (twin_) twin_->compare(call);
    return recorder_.attend(call);
  }

 private:
  Recorder& recorder_;
  std::optional<DenseTwin>& twin_;
};

}  // namespace

void CaptureRun::Mean::add(const std::vector<float>& losses) {
  for (const float loss : losses) {
    if (!std::isfinite(loss)) continue;  // of the text's first token
    sum_ += loss;
    ++count_;
  }
}

std::optional<double> CaptureRun::Mean::value() const {
  if (count_ == 0) return std::nullopt;
  return sum_ / static_cast<double>(count_);
}

std::string text_of_answer(const Tokenizer& tokenizer, std::vector<std::int32_t> ids) {
  if (!ids.empty() && tokenizer.ends_answer(ids.back())) ids.pop_back();
  return tokenizer.decode(ids);
}

std::int64_t cache_tokens(const std::vector<trace::ChunkInfo>& plan, std::int64_t prompt_tokens,
                          const Probe& probe) {
  return std::max<std::int64_t>(plan.back().end(), prompt_tokens + std::ssize(probe.ids));
}

CaptureRun::CaptureRun(std::shared_ptr<const LoadedModel> model, Decoder& decoder, Course course,
                       const RecorderOptions& recording, const Probe& probe, Recorder& recorder,
                       const trace::TraceReader* left)
    : model_(std::move(model)),
      decoder_(decoder),
      course_(std::move(course)),
      prompt_len_(std::ssize(course_.prompt)),
      prefill_len_(recording.prefill_len),
      ids_(course_.prompt),
      probe_(probe),
      store_nll_(recording.store.has(trace::Part::Loss)),
      store_top_(recording.store.has(trace::Part::Top)),
      recorder_(recorder),
      left_(left) {
  if (recording.store.has(trace::Part::Drift)) {
    const DecoderOptions alike{course_.plan.back().end(), recording.dtype == trace::DType::F16};
    twin_.emplace(model_, alike, recording.layers, prompt_len_);
  }
  const auto next =
      std::find_if(course_.plan.begin(), course_.plan.end(),
                   [&](const trace::ChunkInfo& chunk) { return chunk.begin == decoder_.length(); });
  KVLOUPE_CHECK(next != course_.plan.end());
  chunks_done_ = static_cast<int>(next - course_.plan.begin());
  recorder_.recalled(chunks_done_);
  if (left_ == nullptr) return;
  const std::vector<std::int32_t> fed = left_->token_ids();
  if (fed.size() > ids_.size()) {
    generated_.assign(fed.begin() + static_cast<std::ptrdiff_t>(ids_.size()), fed.end());
    ids_.insert(ids_.end(), generated_.begin(), generated_.end());
  }
  if (store_nll_) left_novelty_ = left_->read<float>(trace::Field::Nll);
}

bool CaptureRun::run(const WorkContext& context) {
  if (left_ != nullptr) restore();
  const std::int64_t restored = decoder_.length();
  const auto begin = Clock::now();
  while (chunks_done_ < static_cast<int>(course_.plan.size())) {
    const trace::ChunkInfo& chunk = course_.plan[static_cast<std::size_t>(chunks_done_)];
    if (static_cast<std::int64_t>(ids_.size()) < chunk.end()) break;  // the answer has ended
    const auto chunk_begin = Clock::now();
    feed(chunk);
    add_seconds(seconds_, chunk, seconds_since(chunk_begin));
    const double seconds = seconds_since(begin);
    const auto tokens = static_cast<double>(chunk.end() - restored);
    context.report(chunk.end(), course_.plan.back().end(),
                   fmt::format("{:.0f} tokens/s", tokens / std::max(1e-9, seconds)));
    if (chunks_done_ < static_cast<int>(course_.plan.size()) && context.cancel.cancelled())
      return false;
  }
  return true;
}

void CaptureRun::add_seconds(Seconds& seconds, const trace::ChunkInfo& chunk, double more) const {
  (chunk.phase == trace::Phase::Prefill ? seconds.prefill : seconds.decode) += more;
  if (chunk.end() <= prompt_len_) seconds.prompt += more;
}

trace::ModelSpeed CaptureRun::speed_of(const Seconds& seconds) const {
  const auto rate = [](std::int64_t count, double time) {
    return count > 0 ? static_cast<double>(count) / std::max(1e-9, time) : 0;
  };
  return {1000 * seconds.prompt, rate(prefill_len_, seconds.prefill),
          rate(tokens() - prefill_len_, seconds.decode)};
}

std::optional<trace::CaptureSpeed> CaptureRun::speed() const {
  if (left_ != nullptr || tokens() < prompt_len_) return std::nullopt;
  trace::CaptureSpeed speed{
      speed_of({seconds_.prefill - twin_seconds_.prefill, seconds_.decode - twin_seconds_.decode,
                seconds_.prompt - twin_seconds_.prompt}),
      std::nullopt};
  if (twin_) speed.dense = speed_of(twin_seconds_);
  return speed;
}

std::string CaptureRun::answer() const { return text_of_answer(model_->tokenizer, generated_); }

std::vector<std::int32_t> CaptureRun::dense_answer(const CancelToken& cancel) {
  return twin_ ? twin_->answer(course_.max_new_tokens, model_->tokenizer, cancel)
               : std::vector<std::int32_t>{};
}

// The dense model has no keys in the trace: it runs the chunks once more.
void CaptureRun::restore() {
  chunks_done_ = capture::restore(*left_, decoder_, recorder_);
  if (chunks_done_ == 0) return;
  const auto losses_of = [&](const std::vector<float>& all) {
    const auto end = course_.plan[static_cast<std::size_t>(chunks_done_ - 1)].end();
    return std::vector(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(end));
  };
  if (store_nll_) mean_loss_.add(losses_of(left_novelty_));
  if (!twin_) return;
  mean_dense_loss_.add(losses_of(left_->read_drift().dense_nll));
  for (int c = 0; c < chunks_done_; ++c) {
    const trace::ChunkInfo& chunk = course_.plan[static_cast<std::size_t>(c)];
    twin_->forward({ids_.data() + chunk.begin, static_cast<std::size_t>(chunk.length)});
  }
}

void CaptureRun::feed(const trace::ChunkInfo& chunk) {
  const std::span<const std::int32_t> ids(ids_.data() + chunk.begin,
                                          static_cast<std::size_t>(chunk.length));
  recorder_.begin_chunk(chunk, stands_in_trace() ? left_ : nullptr);
  const bool prompt_done = chunk.end() == static_cast<std::int64_t>(ids_.size());
  const bool wants_token =
      prompt_done && static_cast<int>(generated_.size()) < course_.max_new_tokens;
  const at::Tensor logits = forward(chunk, ids, wants_token);
  if (store_top_) recorder_.add_top(top_tokens(wants_token ? logits : at::Tensor()));
  if (!probe_.ids.empty() && chunk.phase == trace::Phase::Prefill) run_probe(chunk);
  std::vector<std::string> texts;
  for (const std::int32_t id : ids) texts.push_back(model_->tokenizer.decode_bytes(id));
  recorder_.end_chunk({ids.begin(), ids.end()}, std::move(texts));
  ++chunks_done_;
  if (wants_token) sample(logits);
}

// The chunk, and its losses where they are stored. Returns the logits after it.
at::Tensor CaptureRun::forward(const trace::ChunkInfo& chunk, std::span<const std::int32_t> ids,
                               bool wants_token) {
  const bool scored =
      !course_.scored.empty() && chunk.end() > prompt_len_ - std::ssize(course_.scored);
  if (!store_nll_ && !scored) return decoder_.forward(ids, recorder_, wants_token);
  if (twin_) {
    const auto begin = Clock::now();
    twin_->forward(ids);
    device::wait_for(model_->device());
    add_seconds(twin_seconds_, chunk, seconds_since(begin));
  }
  ComparedAttention hook(recorder_, twin_);
  Forecast forecast;
  forecast.last = decoder_.forward(ids, hook, true, &forecast.earlier);
  if (scored) score(chunk, forecast);
  if (store_nll_) record_losses(chunk, forecast, ids, wants_token);
  last_logits_ = forecast.last;
  return forecast.last;
}

void CaptureRun::record_losses(const trace::ChunkInfo& chunk, const Forecast& forecast,
                               std::span<const std::int32_t> ids, bool wants_token) {
  std::vector<float> nll;
  if (stands_in_trace()) {
    nll.assign(left_novelty_.begin() + chunk.begin, left_novelty_.begin() + chunk.end());
  } else {
    nll = losses(decoder_, forecast, last_logits_, ids);
  }
  mean_loss_.add(nll);
  recorder_.add_novelty(std::move(nll));
  if (!twin_) return;
  trace::DriftChunk drift = twin_->drift(decoder_, forecast, ids);
  mean_dense_loss_.add(drift.dense_nll);
  if (!wants_token) drift.dense_top = top_tokens({});
  recorder_.add_drift(std::move(drift));
}

void CaptureRun::score(const trace::ChunkInfo& chunk, const Forecast& forecast) {
  const std::int64_t begin = prompt_len_ - std::ssize(course_.scored);  // the first scored row
  const std::int64_t first = std::max<std::int64_t>(begin, chunk.begin);
  const std::span<const std::int32_t> next(course_.scored.data() + (first - begin),
                                           static_cast<std::size_t>(chunk.end() - first));
  add_likelihood(decoder_, forecast, first - chunk.begin, next, likelihood_);
}

void CaptureRun::run_probe(const trace::ChunkInfo& chunk) {
  recorder_.begin_probe();
  decoder_.forward(probe_.ids, recorder_, false);
  decoder_.truncate(chunk.end());
}

bool CaptureRun::stands_in_trace() const {
  return left_ != nullptr && chunks_done_ < static_cast<int>(left_->info().chunks.size());
}

// The new token is fed by the next chunk of the plan, unless it ends the answer.
void CaptureRun::sample(const at::Tensor& logits) {
  const std::int32_t token = greedy_token(logits);
  generated_.push_back(token);
  ended_ = model_->tokenizer.ends_answer(token) || (course_.stops && course_.stops(token));
  if (!ended_) ids_.push_back(token);
}

}  // namespace kvloupe::capture
