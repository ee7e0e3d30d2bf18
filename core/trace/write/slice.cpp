#include "core/trace/write/slice.h"

#include "core/base/error.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/trace_reader.h"
#include "core/trace/trace_writer.h"
#include "core/trace/write/part_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

constexpr float kLargestHalf = 65504;

struct Plan {
  TraceHeader header;
  std::vector<ChunkInfo> chunks;
  std::vector<TokenRange> queries;  // that the chunks have
  std::vector<int> runs;            // of the trace, in the order of header.runs
  std::vector<std::int32_t> generated;
  bool whole = false;  // all layers and chunks, in the type of the trace
  std::vector<std::string> left_out;
};

Error cannot(const TraceInfo& info, const std::string& why, const std::string& what_to_do) {
  return input_error("cannot slice " + info.path, why, what_to_do);
}

std::vector<int> layers_of(const TraceInfo& info, const SliceRequest& request) {
  for (const int layer : request.layers)
    if (!info.has_layer(layer))
      throw cannot(info, fmt::format("it has no layer {}", layer),
                   fmt::format("it has the layers {}", fmt::join(info.layers, ", ")));
  return request.layers.empty() ? info.layers : request.layers;
}

std::vector<ChunkInfo> chunks_of(const TraceInfo& info, const SliceRequest& request) {
  const auto count = static_cast<int>(info.chunks.size());
  if (count == 0) throw cannot(info, "it holds no chunk", "capture the trace again");
  const int last = request.until_chunk.value_or(count - 1);
  if (last < 0 || last >= count)
    throw cannot(info, fmt::format("it has no chunk {}", last),
                 fmt::format("name a chunk from 0 to {}", count - 1));
  return {info.chunks.begin(), info.chunks.begin() + last + 1};
}

void plan_runs(const TraceReader& reader, const SliceRequest& request, Plan& plan) {
  const TraceInfo& info = reader.info();
  const auto is_asked = [&](int id) {
    return !request.runs ||
           std::find(request.runs->begin(), request.runs->end(), id) != request.runs->end();
  };
  for (const int id : request.runs.value_or(std::vector<int>()))
    if (std::none_of(info.runs.begin(), info.runs.end(),
                     [&](const RunInfo& run) { return run.id == id; }))
      throw cannot(info, fmt::format("it has no run {}", id), "kvloupe info lists its runs");
  const auto refuse_without = [&](const RunInfo& run, const std::string& why,
                                  const std::string& what_to_do) {
    if (&run == info.closed_loop_run())
      throw cannot(info,
                   fmt::format("run {} is the method that the model ran with, and {}", run.id, why),
                   what_to_do);
  };
  for (const RunInfo& run : info.runs) {
    if (!is_asked(run.id)) {
      refuse_without(run, "is not among the runs named", fmt::format("name run {} too", run.id));
      continue;
    }
    const auto lacking =
        std::find_if_not(plan.header.layers.begin(), plan.header.layers.end(),
                         [&](int layer) { return reader.has_run_layer(run.id, layer); });
    if (lacking != plan.header.layers.end()) {
      refuse_without(run, fmt::format("has no selections of layer {}", *lacking),
                     "name layers that it has by --layers");
      plan.left_out.push_back(fmt::format("run {}, {}: it has no selections of layer {}", run.id,
                                          run.method, *lacking));
      continue;
    }
    plan.runs.push_back(run.id);
    RunInfo copied = run;
    copied.id = static_cast<int>(plan.header.runs.size());
    copied.from_sidecar = false;
    plan.header.runs.push_back(std::move(copied));
  }
}

bool has_mass(const TraceReader& reader, const Plan& plan) {
  bool any = false;
  for (const int layer : plan.header.layers)
    for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
      if (plan.chunks[c].phase != Phase::Prefill) continue;
      if (!reader.read_key_mass(layer, static_cast<int>(c))) return false;
      any = true;
    }
  return any;
}

bool has_probe(const TraceReader& reader, const Plan& plan) {
  if (reader.info().probe_len == 0 || !reader.info().has_losses) return false;
  for (const int layer : plan.header.layers)
    for (std::size_t c = 0; c < plan.chunks.size(); ++c)
      if (plan.chunks[c].phase == Phase::Prefill && !reader.read_probe(layer, static_cast<int>(c)))
        return false;
  return true;
}

void plan_store(const TraceReader& reader, Plan& plan) {
  const TraceInfo& info = reader.info();
  TraceHeader& header = plan.header;
  const auto all = [&](const auto& has) {
    return std::all_of(header.layers.begin(), header.layers.end(), has);
  };
  header.store = {};
  header.store.set(Part::Qkv, all([&](int l) { return reader.has_stored(Stored::Q, l); }));
  TraceInfo kept = info;
  kept.chunks = plan.chunks;
  kept.cut_query_offsets();
  plan.queries = kept.query_ranges();
  if (header.store.has(Part::Qkv)) header.query_offsets = kept.query_offsets;
  header.store.set(Part::SomeQueries, !header.query_offsets.empty());
  const bool rounded = info.dtype == DType::F32 && header.dtype == DType::F16;
  const bool lse = all([&](int l) { return reader.has_lse(l); }), mass = has_mass(reader, plan);
  header.store.set(Part::Lse, lse && !rounded);
  header.store.set(Part::Mass, mass && !rounded);
  if (rounded && (lse || mass))
    plan.left_out.emplace_back("lse and key_mass: they are of the values before rounding");
  header.store.set(Part::Loss, info.has_losses);
  header.store.set(Part::Top, !reader.read_top_tokens().ids.empty());
  if (has_probe(reader, plan)) {
    header.store.set(Part::Probe);
    header.probe_text = info.probe_text;
    header.probe_len = info.probe_len;
  } else if (info.probe_len > 0) {
    plan.left_out.emplace_back("the probe: layers or chunks lack its queries");
  }
  header.store.set(Part::Drift, info.has_drift && plan.whole);
  if (info.has_drift && !plan.whole)
    plan.left_out.emplace_back("the drift: it is of all layers and chunks");
}

// Sampled tokens that the chunks have been fed, and the one after them.
void plan_generated(const TraceInfo& info, Plan& plan) {
  const std::ptrdiff_t fed = plan.chunks.back().end() - answer_begin(info);
  if (fed < 0) return;
  const auto count = std::min<std::ptrdiff_t>(fed + 1, std::ssize(info.generated));
  plan.generated.assign(info.generated.begin(), info.generated.begin() + count);
}

void check_halves(const TraceReader& reader, const Plan& plan, const WorkContext& context) {
  const TraceInfo& info = reader.info();
  const std::int32_t end = plan.chunks.back().end();
  const auto dim = static_cast<std::size_t>(info.model.head_dim);
  std::vector<float> values(static_cast<std::size_t>(end) * dim);
  const std::vector<TokenRange> all = {{0, end}};
  for (const int layer : plan.header.layers)
    for (const Stored what : {Stored::Q, Stored::K, Stored::V}) {
      const int heads = what == Stored::Q ? info.model.num_q_heads : info.model.num_kv_heads;
      for (int head = 0; head < heads; ++head) {
        context.cancel.throw_if_cancelled();
        for (const auto& [first, last] : what == Stored::Q ? plan.queries : all)
          reader.read_rows(what, layer, head, first, last,
                           values.data() + static_cast<std::size_t>(first) * dim);
        if (std::any_of(values.begin(), values.end(), [](float value) {
              return std::isfinite(value) && std::abs(value) > kLargestHalf;
            }))
          throw cannot(info,
                       fmt::format("layer {} has values beyond {} in head {}, the largest of "
                                   "float16",
                                   layer, kLargestHalf, head),
                       "leave --dtype f16 out");
      }
    }
}

Plan make_plan(const TraceReader& reader, const SliceRequest& request, const WorkContext& context) {
  const TraceInfo& info = reader.info();
  Plan plan;
  TraceHeader& header = plan.header;
  header.model = info.model;
  header.mode = info.mode;
  header.dtype = request.dtype.value_or(info.dtype);
  header.layers = layers_of(info, request);
  plan.chunks = chunks_of(info, request);
  header.max_tokens = plan.chunks.back().end();
  header.max_chunks = static_cast<std::int32_t>(plan.chunks.size());
  plan.whole = header.layers == info.layers && plan.chunks.size() == info.chunks.size() &&
               header.dtype == info.dtype;
  for (const TokenSpan& span : info.spans) {
    if (const auto kept = decoded_prompt_within(span, header.max_tokens))
      header.spans.push_back(*kept);
    else if (span.end <= header.max_tokens)
      header.spans.push_back(span);
    else
      plan.left_out.push_back(fmt::format("the span {}: it ends at token {} of {}", span.name,
                                          span.end, header.max_tokens));
  }
  plan_runs(reader, request, plan);
  plan_store(reader, plan);
  plan_generated(info, plan);
  if (info.dtype == DType::F32 && header.dtype == DType::F16 && header.store.has(Part::Qkv))
    check_halves(reader, plan, context);
  return plan;
}

}  // namespace

Slice slice_trace(const fs::path& from, const SliceRequest& request, const fs::path& to,
                  bool overwrite, const WorkContext& context) {
  check_trace_file(to, files_of_trace(from), overwrite);
  const TraceReader reader(from);
  const TraceInfo& info = reader.info();
  Plan plan = make_plan(reader, request, context);
  auto writer = std::make_unique<TraceWriter>(to, plan.header, overwrite);
  try {
    writer->copy({info.path, plan.header.max_chunks, plan.runs}, context);
    if (plan.header.store.has(Part::Drift)) {
      const Drift drift = reader.read_drift();
      writer->write_dense_answer(drift.dense_answer, drift.dense_texts);
    }
    writer->finish(plan.generated, info.complete || plan.chunks.size() < info.chunks.size());
  } catch (...) {
    if (writer->lacks_name_alone()) throw;  // it says where the trace is
    writer.reset();
    std::error_code none;
    fs::remove(part_path(to), none);
    throw;
  }
  Slice slice;
  slice.num_tokens = plan.header.max_tokens;
  slice.num_chunks = plan.header.max_chunks;
  slice.layers = plan.header.layers;
  slice.num_runs = static_cast<int>(plan.header.runs.size());
  slice.bytes = fs::file_size(to);
  slice.left_out = std::move(plan.left_out);
  return slice;
}

}  // namespace kvloupe::trace
