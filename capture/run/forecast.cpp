#include "capture/run/forecast.h"

#include "core/base/error.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

namespace kvloupe::capture {
namespace {

// All rows by the whole vocabulary would be hundreds of MiB.
constexpr std::int64_t kSliceLogits = std::int64_t{1} << 23;  // 32 MiB of fp32

void for_each_slice(std::int64_t rows, std::int64_t vocab_size,
                    const std::function<void(std::int64_t begin, std::int64_t count)>& visit) {
  const std::int64_t slice = std::max<std::int64_t>(1, kSliceLogits / vocab_size);
  for (std::int64_t begin = 0; begin < rows; begin += slice)
    visit(begin, std::min(slice, rows - begin));
}

// [rows] from logits [rows, vocab_size]; never below zero by rounding.
at::Tensor losses_of_rows(const at::Tensor& logits, const at::Tensor& tokens) {
  const at::Tensor chosen = logits.gather(1, tokens.unsqueeze(1)).squeeze(1);
  return (at::logsumexp(logits, 1) - chosen).clamp_min(0);
}

at::Tensor ids_on(c10::Device device, std::span<const std::int32_t> tokens) {
  const at::Tensor on_host = at::empty({static_cast<std::int64_t>(tokens.size())}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), on_host.data_ptr<std::int64_t>());
  return on_host.to(device);
}

template <typename T>
void append(const at::Tensor& values, std::vector<T>& to) {
  const at::Tensor flat = values.to(at::kCPU).contiguous();
  to.insert(to.end(), flat.const_data_ptr<T>(), flat.const_data_ptr<T>() + flat.numel());
}

// Rows of logits [rows, vocab_size].
void append_divergence(const at::Tensor& p, const at::Tensor& q, Divergence& result) {
  const at::Tensor log_p = at::log_softmax(p, 1), log_q = at::log_softmax(q, 1);
  const at::Tensor kl = (log_p.exp() * (log_p - log_q)).sum(1, false, at::kDouble);
  append<float>(kl.clamp_min(0).to(at::kFloat), result.kl);
  append<std::uint8_t>((p.argmax(1) == q.argmax(1)).to(at::kByte), result.agrees);
}

}  // namespace

std::vector<float> losses(const Decoder& decoder, const Forecast& forecast,
                          const at::Tensor& before, std::span<const std::int32_t> tokens) {
  const c10::InferenceMode no_gradients;
  const auto count = static_cast<std::int64_t>(tokens.size());
  const at::Tensor ids = ids_on(forecast.last.device(), tokens);
  std::vector<float> result;
  if (before.defined()) {
    append<float>(losses_of_rows(before.unsqueeze(0), ids.narrow(0, 0, 1)), result);
  } else {
    result.push_back(std::numeric_limits<float>::infinity());
  }
  if (count == 1) return result;
  KVLOUPE_CHECK(forecast.earlier.size(0) == count - 1);
  for_each_slice(count - 1, forecast.last.size(0), [&](std::int64_t begin, std::int64_t rows) {
    const at::Tensor logits = decoder.logits_of(forecast.earlier.narrow(0, begin, rows));
    append<float>(losses_of_rows(logits, ids.narrow(0, 1 + begin, rows)), result);
  });
  return result;
}

void add_likelihood(const Decoder& decoder, const Forecast& forecast, std::int64_t first,
                    std::span<const std::int32_t> next, Likelihood& likelihood) {
  const c10::InferenceMode no_gradients;
  const at::Tensor ids = ids_on(forecast.last.device(), next);
  const auto add = [&](const at::Tensor& logits, const at::Tensor& tokens) {
    likelihood.log_prob -= losses_of_rows(logits, tokens).sum(at::kDouble).item<double>();
    likelihood.greedy &= at::equal(logits.argmax(1), tokens);
  };
  const auto earlier = static_cast<std::int64_t>(next.size()) - 1;
  for_each_slice(earlier, forecast.last.size(0), [&](std::int64_t begin, std::int64_t rows) {
    add(decoder.logits_of(forecast.earlier.narrow(0, first + begin, rows)),
        ids.narrow(0, begin, rows));
  });
  add(forecast.last.unsqueeze(0), ids.narrow(0, earlier, 1));
}

trace::TopTokens top_tokens(const at::Tensor& logits) {
  trace::TopTokens top{
      std::vector<std::int32_t>(trace::kTopTokens, -1),
      std::vector<float>(trace::kTopTokens, -std::numeric_limits<float>::infinity())};
  if (!logits.defined()) return top;
  const c10::InferenceMode no_gradients;
  const at::Tensor log_probs = at::log_softmax(logits, 0).to(at::kCPU).contiguous();
  const std::span values(log_probs.const_data_ptr<float>(),
                         static_cast<std::size_t>(log_probs.numel()));
  const std::vector<std::int32_t> ids = selection::ranked(values, trace::kTopTokens);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    top.ids[i] = ids[i];
    top.log_probs[i] = std::min(0.0F, values[static_cast<std::size_t>(ids[i])]);
  }
  return top;
}

std::int32_t greedy_token(const at::Tensor& logits) {
  const at::Tensor row = logits.to(at::kCPU).contiguous();
  const float* values = row.const_data_ptr<float>();
  return static_cast<std::int32_t>(std::max_element(values, values + row.numel()) - values);
}

Divergence divergence(const Decoder& p_decoder, const Forecast& p, const Decoder& q_decoder,
                      const Forecast& q) {
  const c10::InferenceMode no_gradients;
  Divergence result;
  const std::int64_t rows = p.earlier.defined() ? p.earlier.size(0) : 0;
  for_each_slice(rows, p.last.size(0), [&](std::int64_t begin, std::int64_t count) {
    append_divergence(p_decoder.logits_of(p.earlier.narrow(0, begin, count)),
                      q_decoder.logits_of(q.earlier.narrow(0, begin, count)), result);
  });
  append_divergence(p.last.unsqueeze(0), q.last.unsqueeze(0), result);
  return result;
}

}  // namespace kvloupe::capture
