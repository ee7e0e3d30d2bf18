// Attention logits are inner products of coefficients over an orthonormal set of directions, one
// set per KV head: direction 0 is common to all queries, then come the topics, then the needles.
//   key of topic t:  2 e_t - 0.5 e_0      query of topic t:   1.75 e_t + 3 e_0
//   needle key i:    5 n_i - 1.5 e_0      query for needle i: 6.5 n_i + 3 e_0 +- 2 sqrt(i) u
// No key lies along u: it only sets how unlike the mean query a query is, by which QuoKA samples.
// A query meets keys of its topic at a logit of 2, others at -1.5 and its needle at 28, while
// the mean of a block holds a run at about a quarter of that and a single token at 1/128.
#include "capture/run/synthetic.h"

#include "capture/run/recorder.h"
#include "capture/tasks/seeded_random.h"
#include "core/base/error.h"
#include "core/selection/spec/method_files.h"
#include "core/trace/write/part_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <string>
#include <utility>

namespace kvloupe::capture {
namespace {

constexpr int kQHeads = 8, kKvHeads = 2, kDim = 128;
constexpr int kTopics = 8;
// Of the directions: 0 is common, then the topics, the needles, and the last one, u.
constexpr int kFirstNeedle = 1 + kTopics;
constexpr int kMostNeedles = kDim - 1 - kFirstNeedle;
constexpr int kTopicLength = 256;  // tokens of a stretch of text on one topic
constexpr int kNeedleBlock = 128;  // needles lie in different stretches of this length
constexpr float kNoise = 0.01f;    // standard deviation in every channel
constexpr int kQuestionTopic = 0;
// Queries and keys are this multiple of their coefficients, so that a softmax scale of
// 1/sqrt(head_dim) gives their inner product: 128^(1/4).
constexpr float kLength = 3.3635857f;

class Noise {
 public:
  explicit Noise(std::uint64_t seed) : random_(seed) {}
  // Standard normal (Box and Muller).
  float operator()() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform()));
  }

 private:
  double uniform() { return (static_cast<double>(random_.next() >> 11) + 0.5) * 0x1.0p-53; }
  SeededRandom random_;
};

// [kDim, kDim], rows orthonormal: Gram-Schmidt over normal draws.
at::Tensor random_directions(Noise& noise) {
  at::Tensor rows = at::empty({kDim, kDim}, at::kDouble);
  double* data = rows.mutable_data_ptr<double>();
  for (int i = 0; i < kDim * kDim; ++i) data[i] = static_cast<double>(noise());
  for (int i = 0; i < kDim; ++i) {
    at::Tensor row = rows[i];
    for (int again = 0; again < 2 && i > 0; ++again) {
      const at::Tensor before = rows.narrow(0, 0, i);
      row.sub_(at::mv(before.t(), at::mv(before, row)));
    }
    row.div_(row.norm());
  }
  return rows.to(at::kFloat);
}

void check(const SyntheticOptions& options) {
  const auto refuse = [](std::string what, std::string why, std::string how) {
    throw usage_error(std::move(what), std::move(why), std::move(how));
  };
  if (options.chunk_size < 1 || options.length % options.chunk_size != 0)
    refuse(fmt::format("a text of {} tokens is not whole chunks of {}", options.length,
                       options.chunk_size),
           "the two question chunks end it", "give a length that is a multiple of the chunk size");
  if (options.many_keys < 1 || options.few_keys < 1 || options.run_length < 1 ||
      options.many_keys + options.few_keys > kMostNeedles)
    refuse("so many keys cannot be planted",
           fmt::format("each has a direction of its own, and {} are free", kMostNeedles),
           "ask for fewer");
  if (options.many_keys > options.chunk_size || options.few_keys > options.chunk_size)
    refuse("so many keys cannot be asked for", "each has a query of its own in one chunk",
           "ask for fewer keys or give a larger chunk size");
  if (options.run_length > kNeedleBlock)
    refuse(fmt::format("a run of {} tokens is too long", options.run_length),
           fmt::format("it lies inside a stretch of {}", kNeedleBlock), "give a shorter run");
}

// Where everything is.
class Plan {
 public:
  explicit Plan(const SyntheticOptions& options)
      : options_(options), random_(static_cast<std::uint64_t>(options.seed)) {
    const auto chunks = static_cast<int>(options.length / options.chunk_size);
    const std::int64_t text_end = options.length - 2 * options.chunk_size;
    for (std::int64_t at = 0; at < text_end; at += kTopicLength)
      topics_.push_back(static_cast<int>(random_.below(kTopics)));
    place(report_.few, chunks - 2, options.few_keys, 1, text_end);
    place(report_.many, chunks - 1, options.many_keys, options.run_length, text_end);
    needle_of_.assign(static_cast<std::size_t>(options.length), -1);
    int needle = 0;
    for (const Question* question : {&report_.few, &report_.many})
      for (const PlantedKey& key : question->keys) {
        std::fill(needle_of_.begin() + key.begin, needle_of_.begin() + key.end, needle);
        needle_of_[static_cast<std::size_t>(key.query)] = needle++;
      }
  }

  int topic(std::int64_t position) const {
    const auto stretch = static_cast<std::size_t>(position / kTopicLength);
    return in_question(position) || stretch >= topics_.size() ? kQuestionTopic : topics_[stretch];
  }
  // Number of the needle that the token holds, or asks for; -1.
  int needle(std::int64_t position) const { return needle_of_[static_cast<std::size_t>(position)]; }
  bool in_question(std::int64_t position) const {
    return position >= options_.length - 2 * options_.chunk_size;
  }
  const SyntheticReport& report() const { return report_; }

 private:
  void place(Question& question, int chunk, int count, int length, std::int64_t text_end) {
    question.chunk = chunk;
    // Not in the first stretch nor near the end: those are kept by rule by many methods.
    std::vector<std::int32_t> free;
    for (std::int64_t at = 8 * kNeedleBlock; at + 8 * kNeedleBlock <= text_end; at += kNeedleBlock)
      if (topic(at) != kQuestionTopic && !taken_.contains(at))
        free.push_back(static_cast<std::int32_t>(at));
    if (static_cast<int>(free.size()) < count)
      throw usage_error(fmt::format("a text of {} tokens is too short", options_.length),
                        fmt::format("{} planted keys need a stretch each", count),
                        "give a greater length or fewer keys");
    for (int i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(random_.below(free.size()));
      PlantedKey key;
      key.begin = free[at] + static_cast<std::int32_t>(random_.below(
                                 static_cast<std::uint64_t>(kNeedleBlock - length + 1)));
      key.end = key.begin + length;
      key.query = chunk * options_.chunk_size + (2 * i + 1) * options_.chunk_size / (2 * count);
      taken_.insert(free[at]);
      free.erase(free.begin() + static_cast<std::ptrdiff_t>(at));
      question.keys.push_back(key);
    }
  }

  const SyntheticOptions& options_;
  SeededRandom random_;
  std::vector<int> topics_;
  std::set<std::int64_t> taken_;
  std::vector<int> needle_of_;
  SyntheticReport report_;
};

// q, k, v of a range of tokens, rounded to half precision and widened again.
class Source {
 public:
  Source(const Plan& plan, std::uint64_t seed) : plan_(plan), noise_(seed) {
    for (int head = 0; head < kKvHeads; ++head) directions_.push_back(random_directions(noise_));
  }

  at::Tensor queries(std::int64_t begin, std::int64_t end) {
    return rows(kQHeads, kLength, begin, end, [&](std::int64_t at, float* out) {
      const int needle = plan_.needle(at);
      out[0] = 3;
      if (needle >= 0 && plan_.in_question(at)) {
        out[kFirstNeedle + needle] = 6.5f;
        out[kDim - 1] = (needle % 2 == 0 ? 2.0f : -2.0f) * std::sqrt(static_cast<float>(needle));
      } else {
        out[1 + plan_.topic(at)] = 1.75f;
      }
    });
  }
  at::Tensor keys(std::int64_t begin, std::int64_t end) {
    return rows(kKvHeads, kLength, begin, end, [&](std::int64_t at, float* out) {
      const int needle = plan_.needle(at);
      const bool planted = needle >= 0 && !plan_.in_question(at);
      out[0] = planted ? -1.5f : -0.5f;
      out[planted ? kFirstNeedle + needle : 1 + plan_.topic(at)] = planted ? 5.0f : 2.0f;
    });
  }
  // A needle's tokens share a value, so that an output shows which needles it holds.
  at::Tensor values(std::int64_t begin, std::int64_t end) {
    return rows(kKvHeads, 1, begin, end, [&](std::int64_t at, float* out) {
      const int needle = plan_.needle(at);
      const bool planted = needle >= 0 && !plan_.in_question(at);
      out[planted ? kFirstNeedle + needle : 1 + plan_.topic(at)] = 1;
    });
  }

 private:
  template <typename Coefficients>
  at::Tensor rows(int heads, float length, std::int64_t begin, std::int64_t end,
                  const Coefficients& coefficients) {
    at::Tensor all = at::zeros({heads, end - begin, kDim}, at::kFloat);
    float* data = all.mutable_data_ptr<float>();
    for (int head = 0; head < heads; ++head)
      for (std::int64_t at = begin; at < end; ++at, data += kDim) {
        coefficients(at, data);
        for (int i = 0; i < kDim; ++i) data[i] += kNoise * noise_();
      }
    for (int head = 0; head < heads; ++head) {
      at::Tensor rows = all[head];
      rows.copy_(at::mm(rows, directions_[static_cast<std::size_t>(head * kKvHeads / heads)]));
    }
    return all.mul_(length).to(at::kHalf).to(at::kFloat);
  }

  const Plan& plan_;
  Noise noise_;
  std::vector<at::Tensor> directions_;
};

trace::ModelInfo model_info() {
  trace::ModelInfo model;
  model.name = "synthetic needles";
  model.architecture = "synthetic";
  model.num_layers = 1;
  model.num_q_heads = kQHeads;
  model.num_kv_heads = kKvHeads;
  model.head_dim = kDim;
  model.hidden_size = kQHeads * kDim;
  model.softmax_scale = 1 / std::sqrt(static_cast<double>(kDim));
  model.file_hash.assign(64, '0');
  model.layer_types = {trace::LayerType::Nope};
  return model;
}

std::vector<trace::TokenSpan> spans_of(const SyntheticReport& report, int chunk_size) {
  std::vector<trace::TokenSpan> spans;
  for (const auto& [question, name] : {std::pair{&report.few, "few"}, {&report.many, "many"}}) {
    for (const PlantedKey& key : question->keys)
      spans.push_back({fmt::format("needle_{}", name), key.begin, key.end});
    spans.push_back({fmt::format("question_{}", name), question->chunk * chunk_size,
                     (question->chunk + 1) * chunk_size});
  }
  return spans;
}

// Words for people: the topic, the needle, or what is asked for.
std::string text_of(const Plan& plan, std::int64_t position) {
  const int needle = plan.needle(position);
  if (needle < 0) return fmt::format(" topic{}", plan.topic(position));
  return fmt::format(" {}needle{}", plan.in_question(position) ? "?" : "", needle);
}

std::int32_t id_of(const Plan& plan, std::int64_t position) {
  const int needle = plan.needle(position);
  if (needle < 0) return plan.topic(position);
  return kTopics + 2 * needle + (plan.in_question(position) ? 1 : 0);
}

trace::TraceHeader header_of(const SyntheticOptions& options, const RecorderOptions& recording,
                             const SyntheticReport& report) {
  trace::TraceHeader header;
  header.model = model_info();
  header.dtype = recording.dtype;
  header.layers = recording.layers;
  header.max_tokens = static_cast<std::int32_t>(options.length);
  header.max_chunks = static_cast<std::int32_t>(options.length / options.chunk_size);
  header.runs = runs_of(recording, header.model, {});
  header.spans = spans_of(report, options.chunk_size);
  return header;
}

}  // namespace

SyntheticReport synthesize(const SyntheticOptions& options, const WorkContext& context) {
  check(options);
  InputFiles inputs;
  for (const selection::MethodSpec& spec : options.methods)
    for (const auto& file : selection::files_of(spec)) inputs.push_back(file);
  trace::check_trace_file(options.output, inputs, options.force);
  const Plan plan(options);
  RecorderOptions recording;
  recording.layers = {0};
  recording.prefill_len = static_cast<std::int32_t>(options.length);
  for (const selection::MethodSpec& spec : options.methods) {
    if (spec.traits().basis || spec.traits().needs_probe)
      throw input_error(fmt::format("{} cannot be recorded on synthetic keys", spec.id()),
                        "it needs a calibrated basis or a probe of a model", "leave it out");
    recording.open_loop.push_back({spec.resolved(selection::shape_of(model_info())), nullptr});
  }
  Source source(plan, static_cast<std::uint64_t>(options.seed) + 1);
  const at::Tensor k = source.keys(0, options.length);
  const at::Tensor v = source.values(0, options.length);

  trace::TraceWriter writer(options.output, header_of(options, recording, plan.report()),
                            options.force);
  Recorder recorder(&writer, model_info(), recording);
  bool complete = true;
  for (std::int64_t begin = 0; begin < options.length; begin += options.chunk_size) {
    const std::int64_t end = begin + options.chunk_size;
    recorder.begin_chunk({static_cast<std::int32_t>(begin),
                          static_cast<std::int32_t>(options.chunk_size), trace::Phase::Prefill});
    AttentionCall call;
    call.past_len = begin;
    call.softmax = model_info().softmax_scale;
    call.q = source.queries(begin, end);
    call.k = k.narrow(1, 0, end);
    call.v = v.narrow(1, 0, end);
    recorder.attend(call);
    std::vector<std::int32_t> ids;
    std::vector<std::string> texts;
    for (std::int64_t at = begin; at < end; ++at) {
      ids.push_back(id_of(plan, at));
      texts.push_back(text_of(plan, at));
    }
    recorder.end_chunk(std::move(ids), std::move(texts));
    context.report(end, options.length, "synthesizing");
    complete = end == options.length;
    if (!complete && context.cancel.cancelled()) break;
  }
  recorder.finish();
  writer.finish({}, complete);
  context.cancel.throw_if_cancelled();
  SyntheticReport report = plan.report();
  std::error_code code;
  report.bytes = std::filesystem::file_size(options.output, code);
  return report;
}

}  // namespace kvloupe::capture
