#include "capture/run/resume.h"

#include "capture/run/capture.h"
#include "core/base/error.h"
#include "core/selection/spec/recorded_spec.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/write/part_file.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;

trace::CaptureRequest request_of(const trace::TraceReader& left) {
  auto request = left.capture_request();
  if (!request)
    throw input_error("cannot resume " + left.info().path,
                      "it does not say what it was asked for, being of an older version",
                      "capture anew with --force");
  return std::move(*request);
}

void require_same(const trace::TraceReader& left, const std::string& what, const std::string& begun,
                  const std::string& asked) {
  if (begun == asked) return;
  throw input_error("cannot resume " + left.info().path,
                    fmt::format("it was begun with {} {}, not {}", what, begun, asked),
                    "give what it was begun with, or leave the option out");
}

std::string method_of(const trace::RunInfo& run, const trace::ModelInfo& model) {
  return selection::spec_of_run(run, selection::shape_of(model)).canonical();
}

std::string text_of(const std::vector<trace::RunInfo>& runs, const trace::ModelInfo& model) {
  std::vector<std::string> texts;
  for (const trace::RunInfo& run : runs)
    texts.push_back(fmt::format("{} {}{}", trace::to_text(run.mode), method_of(run, model),
                                run.basis_hash.empty() ? "" : " on basis " + run.basis_hash));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, "; "));
}

std::string decoded_from(const std::vector<trace::TokenSpan>& spans) {
  for (const trace::TokenSpan& span : spans)
    if (span.name == trace::kDecodedPrompt) return std::to_string(span.begin);
  return "";
}

std::string text_of(const std::vector<std::int32_t>& prompt,
                    const std::vector<std::int32_t>& other) {
  std::size_t same = 0;
  while (same < prompt.size() && same < other.size() && prompt[same] == other[same]) ++same;
  if (same == prompt.size() && same == other.size()) return "";
  return fmt::format("{} tokens ({} from token {} on)", prompt.size(),
                     same < prompt.size() ? std::to_string(prompt[same]) : "nothing", same);
}

// `rows` may lie on a device.
void fill(const trace::TraceReader& left, trace::Stored what, int layer, const at::Tensor& rows) {
  const at::Tensor host = rows.is_cpu() ? rows : at::empty(rows.sizes(), at::kFloat);
  for (std::int64_t head = 0; head < host.size(0); ++head)
    left.read_rows(what, layer, static_cast<int>(head), 0, static_cast<std::int32_t>(host.size(1)),
                   host[head].data_ptr<float>());
  if (!rows.is_cpu()) rows.copy_(host);
}

bool has_all_keys(const trace::TraceReader& left) {
  const trace::TraceInfo& info = left.info();
  if (info.layers.size() != static_cast<std::size_t>(info.model.num_layers)) return false;
  return left.has_stored(trace::Stored::K, 0);
}

// The methods that evict see the layer's chunks, the first `num_chunks`, once more.
void recall_layer(const trace::TraceReader& left, int num_chunks, int layer, const at::Tensor& k,
                  const at::Tensor& v, Recorder& recorder) {
  const trace::TraceInfo& info = left.info();
  const at::Tensor q =
      at::empty({info.model.num_q_heads, k.size(1), info.model.head_dim}, k.options());
  fill(left, trace::Stored::Q, layer, q);
  for (int c = 0; c < num_chunks; ++c) {
    const trace::ChunkInfo& chunk = info.chunks[static_cast<std::size_t>(c)];
    AttentionCall call;
    call.layer = layer;
    call.past_len = chunk.begin;
    call.softmax = info.model.softmax_of(layer);
    call.q = q.slice(1, chunk.begin, chunk.end()).contiguous();
    call.k = k.slice(1, 0, chunk.end());
    call.v = v.slice(1, 0, chunk.end());
    at::Tensor probe_q;
    if (const auto values = left.read_probe(layer, c))
      probe_q = at::tensor(*values)
                    .view({info.model.num_q_heads, info.probe_len, info.model.head_dim})
                    .to(k.device());
    recorder.recall(c, chunk, call, probe_q);
  }
}

}  // namespace

void require_same_request(const trace::TraceHeader& asked, const trace::TraceReader& left) {
  const trace::TraceInfo& info = left.info();
  const trace::CaptureRequest begun = request_of(left);
  const trace::CaptureRequest& request = asked.request;
  require_same(left, "the model file of SHA-256", info.model.file_hash, asked.model.file_hash);
  require_same(left, "a prompt of", text_of(begun.prompt, request.prompt),
               text_of(request.prompt, begun.prompt));
  require_same(left, "--chunk-size", std::to_string(begun.chunk_size),
               std::to_string(request.chunk_size));
  const auto decoded = [](const std::vector<trace::TokenSpan>& spans) {
    const std::string position = decoded_from(spans);
    return position.empty() ? "the prompt's end" : "position " + position;
  };
  require_same(left, "--decode-from", decoded(info.spans), decoded(asked.spans));
  require_same(left, "--max-new-tokens", std::to_string(begun.max_new_tokens),
               std::to_string(request.max_new_tokens));
  require_same(left, "--dtype", std::string(trace::to_text(info.dtype)),
               std::string(trace::to_text(asked.dtype)));
  const auto compute = [](const trace::ModelInfo& model) {
    return std::string(trace::to_text(model.compute.value_or(ComputeType::Fp32)));
  };
  require_same(left, "--compute", compute(info.model), compute(asked.model));
  if (!begun.device.empty()) require_same(left, "--device", begun.device, request.device);
  require_same(left, "--layers", fmt::format("{}", fmt::join(info.layers, ",")),
               fmt::format("{}", fmt::join(asked.layers, ",")));
  require_same(left, "--store", trace::text_of(begun.store), trace::text_of(request.store));
  require_same(left, "the methods", text_of(info.runs, info.model),
               text_of(asked.runs, info.model));
}

int restore(const trace::TraceReader& left, Decoder& decoder, Recorder& recorder) {
  const trace::TraceInfo& info = left.info();
  if (info.chunks.empty() || !has_all_keys(left)) return 0;
  const c10::InferenceMode no_gradients;
  const int first = static_cast<int>(info.chunks.size()) - 1;
  const std::int32_t length = info.chunks.back().begin;
  if (info.has_losses) {
    std::vector<float> novelty = left.read<float>(trace::Field::Nll);
    novelty.resize(static_cast<std::size_t>(length));
    recorder.restore_novelty(std::move(novelty));
  }
  decoder.restore(length, [&](int layer, const at::Tensor& k, const at::Tensor& v) {
    fill(left, trace::Stored::K, layer, k);
    fill(left, trace::Stored::V, layer, v);
    if (recorder.evicts()) recall_layer(left, first, layer, k, v, recorder);
  });
  recorder.recalled(first);
  return first;
}

CaptureOptions options_left(const fs::path& output) {
  // Its sentences for what is not there or under way.
  { const trace::DiskFile part = trace::open_left_part(output, {}, /*force=*/true); }
  const trace::TraceReader left(trace::part_path(output_target(output)));
  const trace::TraceInfo& info = left.info();
  trace::CaptureRequest request = request_of(left);
  CaptureOptions options;
  options.resume = true;
  options.output = output;
  options.model = request.model;
  options.chunk_size = request.chunk_size;
  options.max_new_tokens = request.max_new_tokens;
  if (!request.device.empty()) options.device = request.device;
  options.dtype = info.dtype;
  options.compute = info.model.compute.value_or(ComputeType::Fp32);
  options.store = request.store;
  options.mass_if_small = false;
  options.layers = info.layers;
  for (const trace::RunInfo& run : info.runs) {
    if (run.from_sidecar) continue;
    selection::MethodSpec spec = selection::spec_of_run(run, selection::shape_of(info.model));
    if (run.mode == trace::LoopMode::ClosedLoop) {
      options.closed_loop = std::move(spec);
    } else {
      options.methods.push_back(std::move(spec));
    }
  }
  options.decode_from = decoded_from(info.spans);
  std::vector<trace::TokenSpan> spans = info.spans;
  std::erase_if(spans, [](const auto& span) { return span.name == trace::kDecodedPrompt; });
  options.tokens =
      TaskPrompt{{std::move(request.prompt), std::move(spans)}, std::move(request.answers)};
  return options;
}

}  // namespace kvloupe::capture
