#include "core/analysis/decode_drift.h"

#include "core/base/error.h"
#include "core/trace/decoded_prompt.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>

namespace kvloupe::analysis {
namespace {

template <typename T>
double mean_of(const std::vector<T>& values, std::int32_t begin) {
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = static_cast<std::size_t>(begin); i < values.size(); ++i) {
    if (!std::isfinite(static_cast<double>(values[i]))) continue;
    sum += static_cast<double>(values[i]);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

// [chunks, layers] as stored -> [layers, chunks].
Matrix transposed(const std::vector<float>& values, std::int64_t layers) {
  const std::int64_t chunks = static_cast<std::int64_t>(values.size()) / layers;
  Matrix result{layers, chunks, std::vector<float>(values.size())};
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
    for (std::int64_t layer = 0; layer < layers; ++layer)
      result.values[static_cast<std::size_t>(layer * chunks + chunk)] =
          values[static_cast<std::size_t>(chunk * layers + layer)];
  return result;
}

// The last sampled token was never fed, so the trace has its id alone: the dense model's answer has the
// text of the same token.
void add_unfed(const std::vector<std::int32_t>& generated, DecodeDrift& result) {
  if (generated.size() != result.answer.size() + 1) return;
  for (const AnswerToken& token : result.dense_answer)
    if (token.id == generated.back()) {
      result.answer.push_back(token);
      return;
    }
}

void add_answers(const trace::TraceReader& reader, const trace::Drift& drift, DecodeDrift& result) {
  const trace::TraceInfo& info = reader.info();
  const std::int32_t prompt = trace::answer_begin(info);
  if (prompt >= info.num_tokens && info.generated.empty()) return;
  result.first_sampled = prompt - 1;
  const std::vector<std::int32_t> ids = reader.token_ids();
  const std::vector<std::string> texts = reader.token_texts();
  for (auto t = static_cast<std::size_t>(prompt); t < ids.size() && t < texts.size(); ++t)
    result.answer.push_back({texts[t], ids[t]});
  for (std::size_t i = 0; i < drift.dense_answer.size(); ++i)
    result.dense_answer.push_back({drift.dense_texts[i], drift.dense_answer[i]});
  add_unfed(info.generated, result);
  for (auto t = static_cast<std::size_t>(prompt) - 1; t < drift.agrees.size(); ++t) {
    if (drift.agrees[t] != 0) continue;
    result.first_divergent_step = static_cast<std::int64_t>(t) - (prompt - 1);
    return;
  }
}

}  // namespace

double DecodeDrift::mean_nll() const { return mean_of(nll, 1); }
double DecodeDrift::mean_dense_nll() const { return mean_of(dense_nll, 1); }
double DecodeDrift::mean_kl(std::int32_t begin) const { return mean_of(kl, begin); }
double DecodeDrift::agreement(std::int32_t begin) const { return mean_of(agrees, begin); }

DecodeDrift decode_drift(const trace::TraceReader& reader) {
  const trace::TraceInfo& info = reader.info();
  if (!info.has_losses)
    throw input_error("this trace holds no losses", "it was captured without them",
                      "capture with --store qkv,lse,loss, or with --closed-loop SPEC --drift");
  DecodeDrift result;
  result.nll = reader.read<float>(trace::Field::Nll);
  result.nll_mean = running_mean(result.nll, kMeanOf);
  if (!info.has_drift) return result;
  trace::Drift drift = reader.read_drift();
  add_answers(reader, drift, result);
  result.q = transposed(drift.q, drift.num_layers);
  result.k = transposed(drift.k, drift.num_layers);
  result.dense_nll = std::move(drift.dense_nll);
  result.kl = std::move(drift.kl);
  result.agrees = std::move(drift.agrees);
  result.dense_nll_mean = running_mean(result.dense_nll, kMeanOf);
  result.kl_mean = running_mean(result.kl, kMeanOf);
  std::ranges::transform(result.nll_mean, result.dense_nll_mean,
                         std::back_inserter(result.excess_mean), std::minus<>());
  return result;
}

std::vector<double> running_mean(const std::vector<float>& values, std::int64_t window) {
  std::vector<double> means;
  means.reserve(values.size());
  double sum = 0;
  std::int64_t count = 0;
  const auto add = [&](float value, int sign) {
    if (!std::isfinite(value)) return;
    sum += sign * static_cast<double>(value);
    count += sign;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    add(values[i], 1);
    if (i >= static_cast<std::size_t>(window))
      add(values[i - static_cast<std::size_t>(window)], -1);
    means.push_back(count > 0 ? sum / static_cast<double>(count)
                              : std::numeric_limits<double>::quiet_NaN());
  }
  return means;
}

}  // namespace kvloupe::analysis
