// See gui_trace.h.
#include "tests/gui/gui_trace.h"

#include "core/attention/attention.h"
#include "core/replay/replay.h"
#include "core/trace/trace_writer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <random>
#include <utility>

namespace kvloupe::test {
namespace {

constexpr std::int32_t kNeedleTokens = 16;
constexpr std::int32_t kAskingTokens = 20;  // at the end of the prompt: few, so that they stand out

const char* const kWords[] = {" the",  " of",      " and",  " to",           " her",       " was",
                              " in",   " it",      " she",  " had",          " not",       " be",
                              ",",     ".",        " with", " his",          " very",      " could",
                              " Anne", " Captain", "\n",    " acquaintance", " sentiment", " been",
                              " all",  " which",   ";",     " would",        " they",      " must"};
const char* const kNeedle[kNeedleTokens] = {
    "\n",      "One", " of",    " the", " special", " magic", " numbers", " for",
    " lively", "-",   "harbor", " is",  ":",        " 7",     "3",        "9."};

struct LayerTensors {
  at::Tensor q, k, v;  // [heads, T, head_dim]
};

class TraceMaker {
 public:
  explicit TraceMaker(const GuiTraceOptions& options)
      : options_(options),
        num_tokens_(options.num_tokens + options.decoded),
        needle_(options.needle_begin >= 0 ? options.needle_begin : options.num_tokens * 3 / 8),
        random_(options.seed) {
    for (const int layer : options.layers) layers_.push_back(make_layer(layer));
    make_texts();
  }

  void write(const std::filesystem::path& file, std::int32_t nan_key_at) {
    if (nan_key_at >= 0)
      for (LayerTensors& layer : layers_)
        layer.k.select(1, nan_key_at).fill_(std::numeric_limits<float>::quiet_NaN());
    trace::TraceWriter writer(file, header(), true);
    for (std::int32_t begin = 0; begin < num_tokens_;) {
      const trace::ChunkInfo chunk = chunk_at(begin);
      for (std::size_t i = 0; i < layers_.size(); ++i) write_layer(writer, chunk, i);
      write_forecasts(writer, chunk);
      writer.end_chunk(chunk, {ids_.begin() + chunk.begin, ids_.begin() + chunk.end()},
                       {texts_.begin() + chunk.begin, texts_.begin() + chunk.end()});
      begin = chunk.end();
    }
    const auto decoded = static_cast<std::size_t>(options_.decoded);
    // The dense model's own answer: other words from the third on.
    std::vector<std::string> answer(texts_.end() - options_.decoded, texts_.end());
    for (std::size_t i = 2; i < decoded; ++i) answer[i] = kWords[i % std::size(kWords)];
    writer.write_dense_answer(std::vector<std::int32_t>(decoded, 1), answer);
    writer.finish(std::vector<std::int32_t>(decoded, 1), true);
  }

 private:
  // Lanes: 0 the sink, 1 to 4 where a token stands, 5 the needle, the rest differs from token to
  // token.
  LayerTensors make_layer(int layer) {
    constexpr int kSinkLane = 0, kNeedleLane = 5;
    LayerTensors made{noise(options_.num_q_heads, 0.8F), noise(options_.num_kv_heads, 1.0F),
                      noise(options_.num_kv_heads, 1.0F)};
    for (const at::Tensor& heads : {made.q, made.k})
      for (std::int64_t head = 0; head < heads.size(0); ++head) add_position(heads[head]);
    made.q.select(2, kSinkLane).fill_(3.0F);
    made.k.select(2, kSinkLane).fill_(-1.0F);
    made.k.select(1, 0).select(1, kSinkLane).fill_(6.0F);
    made.k.select(2, kNeedleLane).narrow(1, needle_, kNeedleTokens).fill_(5.0F);
    const std::int64_t asks = options_.num_tokens - kAskingTokens;
    for (int head = 0; head < options_.num_q_heads; ++head)
      made.q[head]
          .select(1, kNeedleLane)
          .narrow(0, asks, num_tokens_ - asks)
          .fill_(6.0F + 1.5F * static_cast<float>((layer + head) % 3));
    return made;
  }

  at::Tensor noise(int heads, float width) {
    std::normal_distribution<float> normal(0, width);
    at::Tensor values = at::empty({heads, num_tokens_, options_.head_dim}, at::kFloat);
    float* at = values.data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i) at[i] = normal(random_);
    return values;
  }

  // Two waves: tokens that stand close point the same way.
  static void add_position(const at::Tensor& tokens) {
    constexpr double kWaves[] = {24, 300};
    const at::Tensor position = at::arange(tokens.size(0), at::kFloat);
    for (int wave = 0; wave < 2; ++wave) {
      tokens.select(1, 1 + 2 * wave).copy_((position / kWaves[wave]).cos() * 1.8);
      tokens.select(1, 2 + 2 * wave).copy_((position / kWaves[wave]).sin() * 1.8);
    }
  }

  void make_texts() {
    std::mt19937 of_text(options_.text_seed);
    std::mt19937& random = options_.text_seed == 0 ? random_ : of_text;
    const std::int32_t inserted_end = options_.inserted_at + options_.inserted;
    for (std::int32_t t = 0; t < num_tokens_; ++t) {
      const bool inserted = t >= options_.inserted_at && t < inserted_end;
      texts_.push_back(inserted ? " own" + std::to_string(t)
                                : kWords[random() % std::size(kWords)]);
    }
    texts_[0] = "<|im_start|>";
    if (num_tokens_ > 50) texts_[40] = "\xE6";
    std::copy(std::begin(kNeedle), std::end(kNeedle), texts_.begin() + needle_);
    for (std::size_t i = 0; i < options_.hostile_names.size(); ++i)
      texts_[60 + i] = options_.hostile_names[i];
    for (const std::string& text : texts_)
      ids_.push_back(options_.text_seed == 0
                         ? 1
                         : static_cast<std::int32_t>(std::hash<std::string>()(text) % 1'000'000));
  }

  trace::TraceHeader header() const {
    trace::TraceHeader header;
    header.model = {.name = "Small-test",
                    .architecture = "llama",
                    .num_layers = options_.num_layers,
                    .num_q_heads = options_.num_q_heads,
                    .num_kv_heads = options_.num_kv_heads,
                    .head_dim = options_.head_dim,
                    .hidden_size = options_.num_q_heads * options_.head_dim,
                    .softmax_scale = scale(),
                    .rope_theta = 10000,
                    .file_hash = std::string(64, 'a'),
                    .compute = ComputeType::Fp32,
                    .layer_types = std::vector(static_cast<std::size_t>(options_.num_layers),
                                               trace::LayerType::Full)};
    header.dtype = trace::DType::F32;
    for (const auto part : {trace::Part::Loss, trace::Part::Top, trace::Part::Drift})
      header.store.set(part);
    header.layers = options_.layers;
    header.max_tokens = num_tokens_;
    header.max_chunks = options_.num_tokens / options_.chunk_size + 1 + options_.decoded;
    header.spans = {{"needle", needle_, needle_ + kNeedleTokens},
                    {"question", options_.num_tokens - kAskingTokens, options_.num_tokens - 4}};
    std::int32_t at = 3;
    for (const std::string& name : options_.hostile_names) {
      header.model.architecture = std::exchange(header.model.name, name);
      header.spans.push_back({name, at, at + 9});
      header.spans.push_back({"needle" + name, at + 4, at + 7});
      at += 21;
    }
    return header;
  }

  double scale() const { return 1 / std::sqrt(static_cast<double>(options_.head_dim)); }

  trace::ChunkInfo chunk_at(std::int32_t begin) const {
    if (begin >= options_.num_tokens) return {begin, 1, trace::Phase::Decode};
    return {begin, std::min(options_.chunk_size, options_.num_tokens - begin),
            trace::Phase::Prefill};
  }

  // Losses of prose, and a drift that grows with the layer and along the text.
  void write_forecasts(trace::TraceWriter& writer, const trace::ChunkInfo& chunk) {
    std::exponential_distribution<float> loss(0.4F);
    trace::DriftChunk drift;
    std::vector<float> nll;
    for (std::int32_t t = chunk.begin; t < chunk.end(); ++t) {
      const float along = static_cast<float>(t) / static_cast<float>(num_tokens_);
      drift.dense_nll.push_back(t == 0 ? std::numeric_limits<float>::infinity() : loss(forecasts_));
      drift.kl.push_back(0.02F * along * loss(forecasts_));
      nll.push_back(drift.dense_nll.back() + drift.kl.back());
      drift.agrees.push_back(drift.kl.back() < 0.08F ? 1 : 0);
    }
    for (std::size_t i = 0; i < options_.layers.size(); ++i) {
      const float far = 0.05F * static_cast<float>(i) * static_cast<float>(chunk.end()) /
                        static_cast<float>(num_tokens_);
      drift.q.push_back(2 * far);
      drift.k.push_back(far);
    }
    trace::TopTokens top{std::vector<std::int32_t>(trace::kTopTokens, 1),
                         std::vector<float>(trace::kTopTokens, -4.0F)};
    drift.dense_top = top;
    writer.write<float>(trace::Field::Nll, chunk, nll);
    writer.write_top(chunk, top);
    writer.write_drift(chunk, drift);
  }

  void write_layer(trace::TraceWriter& writer, const trace::ChunkInfo& chunk, std::size_t index) {
    const LayerTensors& layer = layers_[index];
    const auto part = [&](const at::Tensor& whole) {
      return whole.narrow(1, chunk.begin, chunk.length).contiguous();
    };
    const at::Tensor q = part(layer.q), k = part(layer.k), v = part(layer.v);
    const at::Tensor lse =
        attention::chunk_mass(q, layer.k.narrow(1, 0, chunk.end()), scale()).lse.contiguous();
    writer.write_layer(chunk, {options_.layers[index], q.data_ptr<float>(), k.data_ptr<float>(),
                               v.data_ptr<float>(), lse.data_ptr<float>(), nullptr});
  }

  GuiTraceOptions options_;
  std::int32_t num_tokens_;
  std::int32_t needle_;
  std::mt19937 random_, forecasts_{7};
  std::vector<LayerTensors> layers_;
  std::vector<std::string> texts_;  // [T]
  std::vector<std::int32_t> ids_;   // [T]
};

struct RecordedRun {
  trace::RunInfo info;
  std::vector<int> layers;
  std::vector<trace::LayerRecord> data;
};

// `unknown`: the run of another method is called so.
RecordedRun record(const session::TraceSession& session, const std::string& method, bool unknown) {
  replay::ReplayRequest request;
  request.spec = selection::MethodSpec::parse(unknown ? "keydiff:budget_tokens=200" : method)
                     .resolved(session.shape());
  request.want_mass = false;
  const replay::ReplayResult result = replay::replay(session, request, {});
  RecordedRun run{replay::run_info(result, request.spec, session.shape()), result.layers,
                  replay::layer_records(result)};
  if (unknown) run.info.method = method;
  return run;
}

}  // namespace

std::string write_gui_trace(const std::filesystem::path& file, const GuiTraceOptions& options) {
  const std::filesystem::path path = std::filesystem::absolute(file);
  std::filesystem::remove(path.string() + ".runs.h5");
  TraceMaker maker(options);
  maker.write(path, -1);
  std::vector<RecordedRun> runs;
  {
    const session::TraceSession session(path);
    for (const std::string& method : options.runs)
      runs.push_back(record(session, method, method == kUnknownMethod));
    for (const std::string& name : options.hostile_names)
      runs.push_back(record(session, name, true));
  }
  if (options.nan_key_at >= 0) maker.write(path, options.nan_key_at);
  for (const RecordedRun& run : runs)
    trace::append_sidecar_run(path, run.info, run.layers, run.data);
  return path.string();
}

}  // namespace kvloupe::test
