// Losses, the most probable tokens and the drift of a closed loop, against tokens fed one by one and
// plain loops over their logits and over what other traces hold.
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/run/forecast.h"
#include "core/base/error.h"
#include "core/trace/check/repair.h"
#include "core/trace/trace_reader.h"
#include "tests/base/matchers.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::int32_t> some_ids(int count) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back((i * 37 + i * i) % 97);
  return ids;
}

// Each row attends to the nearest keys alone.
class NearKeys final : public AttentionHook {
 public:
  at::Tensor attend(const AttentionCall& call) override {
    at::Tensor output = at::empty_like(call.q, at::MemoryFormat::Contiguous);
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      for (std::int64_t row = 0; row < call.q.size(1); ++row) {
        const std::int64_t end = call.past_len + row + 1,
                           begin = std::max<std::int64_t>(0, end - 5);
        const at::Tensor keys = call.k[head / group].slice(0, begin, end);
        const at::Tensor p = at::softmax(keys.mv(call.q[head][row]) * call.softmax.scale, 0);
        output[head][row].copy_(call.v[head / group].slice(0, begin, end).t().mv(p));
      }
    }
    return output;
  }
};

// By position, from one token at a time.
std::vector<std::vector<double>> log_probs_of(AttentionHook& hook,
                                              const std::vector<std::int32_t>& ids) {
  Decoder decoder(make_tiny_model(), {512, false});
  std::vector<std::vector<double>> rows;
  for (const std::int32_t id : ids) {
    const at::Tensor logits = decoder.forward(std::span(&id, 1), hook).to(at::kDouble).contiguous();
    const double* values = logits.const_data_ptr<double>();
    double sum = 0;
    for (std::int64_t v = 0; v < logits.numel(); ++v) sum += std::exp(values[v]);
    std::vector<double> row;
    for (std::int64_t v = 0; v < logits.numel(); ++v) row.push_back(values[v] - std::log(sum));
    rows.push_back(row);
  }
  return rows;
}

std::int64_t argmax(const std::vector<double>& row) {
  return std::max_element(row.begin(), row.end()) - row.begin();
}

class Forecasts : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    for (const std::size_t begin : {std::size_t{0}, std::size_t{17}}) {
      const std::size_t count = begin == 0 ? 17 : 23;
      const std::span<const std::int32_t> chunk(ids.data() + begin, count);
      p_before = p.last;
      q_before = q.last;
      p.last = p_decoder.forward(chunk, dense, true, &p.earlier);
      q.last = q_decoder.forward(chunk, near, true, &q.earlier);
    }
    p_truth = log_probs_of(dense, ids);
    q_truth = log_probs_of(near, ids);
  }

  std::vector<std::int32_t> ids = some_ids(40);
  DenseAttention dense;
  NearKeys near;
  Decoder p_decoder{make_tiny_model(), {512, false}}, q_decoder{make_tiny_model(), {512, false}};
  Forecast p, q;  // of the second chunk, tokens 17 to 39
  at::Tensor p_before, q_before;
  std::vector<std::vector<double>> p_truth, q_truth;
};

TEST_F(Forecasts, LossesAreOfEachTokenGivenThoseBefore) {
  const std::vector<float> found = losses(q_decoder, q, q_before, std::span(ids).subspan(17));
  ASSERT_EQ(found.size(), 23u);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], -q_truth[16 + i][ids[17 + i]], 1e-3) << i;
  EXPECT_EQ(losses(q_decoder, q, {}, std::span(ids).subspan(17)).front(), kInfinity);
}

TEST_F(Forecasts, DivergenceIsFromTheFirstToTheSecond) {
  const Divergence found = divergence(p_decoder, p, q_decoder, q);
  ASSERT_EQ(found.kl.size(), 23u);
  ASSERT_EQ(found.agrees.size(), 23u);
  double largest = 0;
  for (std::size_t i = 0; i < found.kl.size(); ++i) {
    const auto &one = p_truth[17 + i], &other = q_truth[17 + i];
    double kl = 0;
    for (std::size_t v = 0; v < one.size(); ++v) kl += std::exp(one[v]) * (one[v] - other[v]);
    EXPECT_NEAR(found.kl[i], kl, 1e-3 * (1 + kl)) << i;
    EXPECT_EQ(found.agrees[i], argmax(one) == argmax(other)) << i;
    largest = std::max(largest, kl);
  }
  EXPECT_GT(largest, 0.1);  // the test tells them apart
  EXPECT_THAT(found.agrees, Contains(0));
  EXPECT_THAT(divergence(p_decoder, p, p_decoder, p).kl, Each(0.0F));
}

TEST_F(Forecasts, TopTokensFall) {
  const trace::TopTokens top = top_tokens(p.last);
  std::vector<std::int32_t> order(p_truth.back().size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return p_truth.back()[a] > p_truth.back()[b];
  });
  ASSERT_EQ(top.ids.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(top.ids[i], order[i]) << i;
    EXPECT_NEAR(top.log_probs[i], p_truth.back()[order[i]], 1e-3) << i;
  }
  const trace::TopTokens few = top_tokens(at::tensor({0.0F, 1.0F, 1.0F}));
  EXPECT_THAT(std::vector(few.ids.begin(), few.ids.begin() + 4), ElementsAre(1, 2, 0, -1));
  EXPECT_EQ(few.log_probs[3], -kInfinity);
  EXPECT_THAT(top_tokens({}).ids, Each(-1));
}

// --- captures

CaptureOptions drifting(const char* method, const std::string& name) {
  CaptureOptions options = tiny_options(name);
  options.closed_loop = MethodSpec::parse(method);
  options.store.set(trace::Part::Drift);
  return options;
}

double relative_distance(const at::Tensor& rows, const at::Tensor& other) {
  const at::Tensor one = rows.contiguous(), two = other.contiguous();
  double norm = 0, distance = 0;
  for (std::int64_t i = 0; i < one.numel(); ++i) {
    const double a = one.const_data_ptr<float>()[i], b = two.const_data_ptr<float>()[i];
    norm += a * a;
    distance += (a - b) * (a - b);
  }
  return std::sqrt(distance / norm);
}

TEST(Drift, ADenseLoopDoesNotDrift) {
  CaptureOptions options = drifting("dense", "same.h5");
  const CaptureReport report = capture_tiny(options);
  const trace::TraceReader reader("same.h5");
  ASSERT_TRUE(reader.info().has_drift);
  const trace::Drift drift = reader.read_drift();
  EXPECT_THAT(drift.kl, Each(0.0F));
  EXPECT_THAT(drift.agrees, Each(1));
  EXPECT_THAT(drift.q, Each(0.0F));
  EXPECT_THAT(drift.k, Each(0.0F));
  EXPECT_EQ(drift.dense_nll, reader.read<float>(trace::Field::Nll));
  EXPECT_EQ(drift.dense_answer, reader.info().generated);
  // All but the last sampled token were fed, and have a text in the trace.
  const std::vector<std::string> texts = reader.token_texts();
  for (std::size_t i = 0; i + 1 < drift.dense_texts.size(); ++i)
    EXPECT_EQ(drift.dense_texts[i], texts[230 + i]);
  EXPECT_EQ(drift.dense_texts.size(), drift.dense_answer.size());
  EXPECT_EQ(drift.dense_top.ids, reader.read_top_tokens().ids);
  EXPECT_EQ(report.mean_loss, report.mean_dense_loss);
  EXPECT_TRUE(trace::validate_trace("same.h5").empty());
}

TEST(Drift, IsFromTheDenseModelOnTheSameTokens) {
  const CaptureReport report = capture_tiny(drifting("sliding_window:budget_tokens=8", "far.h5"));
  const trace::TraceReader far("far.h5");
  const trace::Drift drift = far.read_drift();
  const auto& chunks = far.info().chunks;
  ASSERT_EQ(chunks.size(), 9u);
  ASSERT_EQ(drift.q.size(), 9u * 3);

  // The dense model, fed the tokens that the closed loop saw and sampled.
  CaptureOptions fed = tiny_options("fed.h5");
  fed.prompt_text.reset();
  fed.tokens = TaskPrompt{{far.token_ids(), {}}, {}};
  fed.max_new_tokens = 0;
  fed.store.set(trace::Part::Loss);
  capture_tiny(fed);
  const trace::TraceReader dense("fed.h5");
  const std::vector<float> nll = dense.read<float>(trace::Field::Nll);
  ASSERT_EQ(drift.dense_nll.size(), nll.size());
  EXPECT_EQ(drift.dense_nll.front(), kInfinity);
  for (std::size_t t = 1; t < nll.size(); ++t) EXPECT_NEAR(drift.dense_nll[t], nll[t], 2e-2) << t;
  for (int layer = 0; layer < 3; ++layer) {
    const StoredLayer one = read_layer(dense, layer), other = read_layer(far, layer);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const auto of = [&](const at::Tensor& rows) {
        return rows.slice(1, chunks[c].begin, chunks[c].end());
      };
      EXPECT_NEAR(drift.q[c * 3 + layer], relative_distance(of(one.q), of(other.q)), 5e-3);
      EXPECT_NEAR(drift.k[c * 3 + layer], relative_distance(of(one.k), of(other.k)), 5e-3);
    }
  }
  EXPECT_GT(drift.q[3 * 3 + 2], 0.05);
  EXPECT_EQ(drift.q[3 * 3], 0);  // layer 0 sees the tokens alone
  EXPECT_THAT(drift.kl, Contains(testing::Gt(0.01F)));

  // What each answers when it is left alone.
  capture_tiny(tiny_options("free.h5"));
  EXPECT_EQ(drift.dense_answer, trace::TraceReader("free.h5").info().generated);
  // The sampled tokens are the most probable ones of the steps that sampled.
  const trace::TopTokens top = far.read_top_tokens();
  for (std::size_t step = 0; step < far.info().generated.size(); ++step)
    EXPECT_EQ(top.ids[(3 + step) * 32], far.info().generated[step]) << step;
  EXPECT_EQ(top.ids[0], -1);  // nothing was sampled after the first chunk

  double sum = 0;
  for (std::size_t t = 1; t < drift.dense_nll.size(); ++t) sum += drift.dense_nll[t];
  EXPECT_NEAR(report.mean_dense_loss.value(), sum / (drift.dense_nll.size() - 1.0), 1e-9);
}

TEST(Drift, OfMethodsThatEvictAndProbe) {
  CaptureOptions options = drifting("infinipot:budget_tokens=24", "probe.h5");
  capture_tiny(options);
  const trace::TraceReader reader("probe.h5");
  EXPECT_GT(reader.info().probe_len, 0);
  EXPECT_THAT(reader.read_drift().kl, Contains(testing::Gt(0.001F)));
  EXPECT_TRUE(trace::validate_trace("probe.h5").empty());
}

TEST(Drift, NeedsAClosedLoop) {
  CaptureOptions options = tiny_options("none.h5");
  options.store.set(trace::Part::Drift);
  try {
    capture_tiny(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
  }
}

TEST(Drift, SurvivesRepair) {
  capture_tiny(drifting("random:budget_tokens=8", "whole.h5"));
  trace::repair_trace("whole.h5", "copy.h5", true, {});
  const trace::TraceReader one("whole.h5"), other("copy.h5");
  EXPECT_EQ(one.read_drift().kl, other.read_drift().kl);
  EXPECT_EQ(one.read_drift().k, other.read_drift().k);
  EXPECT_EQ(one.read_drift().dense_answer, other.read_drift().dense_answer);
  EXPECT_EQ(one.read_top_tokens().log_probs, other.read_top_tokens().log_probs);
  EXPECT_EQ(one.read<float>(trace::Field::Nll), other.read<float>(trace::Field::Nll));
}

TEST(Losses, AreStoredWhenAskedFor) {
  CaptureOptions options = tiny_options("plain.h5");
  EXPECT_FALSE(capture_tiny(options).mean_loss.has_value());
  EXPECT_FALSE(trace::TraceReader("plain.h5").info().has_losses);
  options.store.set(trace::Part::Loss);
  EXPECT_TRUE(capture_tiny(options).mean_loss.has_value());
  const trace::TraceReader reader("plain.h5");
  EXPECT_EQ(reader.read<float>(trace::Field::Nll).size(),
            static_cast<std::size_t>(reader.info().num_tokens));
  EXPECT_EQ(reader.info().probe_len, 0);
}

}  // namespace
}  // namespace kvloupe::capture
