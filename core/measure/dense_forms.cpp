#include "core/measure/dense_forms.h"

#include "core/base/foreign_error.h"
#include "core/base/log.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

namespace kvloupe::measure {
namespace {

constexpr double kTolerance = 0.02;
constexpr std::int64_t kLogitsAtOnce = 1 << 24;

// Why what a form gave cannot be used; empty where it can.
std::string defect_of(const at::Tensor& found, const at::Tensor& expected) {
  if (found.sizes() != expected.sizes()) return "its result has another shape";
  const at::Tensor ignored = expected.isfinite().logical_not();
  const auto largest_of = [&](const at::Tensor& numbers) {
    return numbers.masked_fill(ignored, 0).abs().max().item<double>();
  };
  const double largest = largest_of(expected);
  const double apart = largest_of(found.to(expected.scalar_type()) - expected);
  if (apart <= kTolerance * largest) return {};
  return fmt::format("its result is {:.3g} apart from that of plain products, of {:.3g}", apart,
                     largest);
}

struct Trial {
  Attend run;
  std::string why_not;  // empty: it is chosen
  bool is_wrong = false;
};

Trial tried(const DenseForm& form, const at::Tensor& expected) {
  if (!form.why_not.empty()) return {{}, form.why_not};
  try {
    const Attend run = form.make();
    const std::string defect = expected.defined() ? defect_of(run(), expected) : std::string();
    return {run, defect, !defect.empty()};
  } catch (const c10::Error& error) {
    if (is_gpu_failure(error)) throw;
    // What Torch refuses is no bug of ours, so that its own words are all that there is to say.
    return {{}, error_from("dense attention was not run", error).why()};
  }
}

void log_left_out(const DenseForm& form, const Trial& trial) {
  if (form.name == kOwnForm && trial.is_wrong)
    log::warning("KVLoupe's own dense attention is wrong here: {}; please report this",
                 trial.why_not);
  else
    log::info("dense attention by {} is left out: {}", form.name, trial.why_not);
}

}  // namespace

MakeTensor made_once(MakeTensor make) {
  return [make = std::move(make), made = std::make_shared<at::Tensor>()] {
    if (!made->defined()) *made = make();
    return *made;
  };
}

ChosenForms choose_forms(const std::vector<DenseForm>& forms, const at::Tensor& expected) {
  ChosenForms chosen;
  for (const DenseForm& form : forms) {
    Trial trial = tried(form, expected);
    if (trial.why_not.empty()) {
      chosen.forms.push_back({form.name, std::move(trial.run)});
      continue;
    }
    if (form.why_not.empty()) log_left_out(form, trial);
    chosen.left_out.push_back({form.name, trial.why_not});
  }
  return chosen;
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const SoftmaxForm& softmax) {
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  const std::int64_t group = q.size(0) / k.size(0), chunk_len = q.size(1), kv_len = k.size(1);
  const std::int64_t rows_at_once = std::max<std::int64_t>(1, kLogitsAtOnce / kv_len);
  const auto positions = [&](std::int64_t begin, std::int64_t end) {
    return at::arange(begin, end, q.options().dtype(at::kLong));
  };
  const at::Tensor keys = positions(0, kv_len).unsqueeze(0);
  at::Tensor output = at::empty(q.sizes(), q.options().dtype(at::kFloat));
  for (std::int64_t head = 0; head < q.size(0); ++head) {
    const at::Tensor head_k = k[head / group].to(at::kFloat),
                     head_v = v[head / group].to(at::kFloat);
    for (std::int64_t first = 0; first < chunk_len; first += rows_at_once) {
      const std::int64_t count = std::min(rows_at_once, chunk_len - first);
      const std::int64_t position = kv_len - chunk_len + first;
      const at::Tensor rows = positions(position, position + count).unsqueeze(1);
      at::Tensor s = at::matmul(q[head].narrow(0, first, count).to(at::kFloat), head_k.t());
      s.mul_(softmax.scale);
      if (softmax.softcap > 0) s.div_(softmax.softcap).tanh_().mul_(softmax.softcap);
      s.masked_fill_(keys > rows, kHidden);
      if (softmax.window > 0) s.masked_fill_(keys <= rows - softmax.window, kHidden);
      // A sink is the logit of one more key, whose value is 0.
      if (!softmax.sink_logits.empty()) {
        const double sink = softmax.sink_logits[static_cast<std::size_t>(head)];
        s = at::cat({s, at::full({count, 1}, sink, s.options())}, 1);
      }
      const at::Tensor p = s.softmax(-1).narrow(1, 0, kv_len);
      output[head].narrow(0, first, count).copy_(at::matmul(p, head_v));
    }
  }
  return output;
}

}  // namespace kvloupe::measure
