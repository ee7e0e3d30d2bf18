#include "core/trace/repair.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/trace/half_bits.h"
#include "core/trace/part_file.h"
#include "core/trace/trace_writer.h"
#include "core/trace/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <system_error>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

// What of the damaged trace goes into the copy.
struct Plan {
  TraceHeader header;
  std::vector<ChunkInfo> chunks;
  std::vector<std::int32_t> ids;
  std::vector<std::string> texts;
  std::vector<float> novelty;  // empty where there is none
  TopTokens top;               // as is this
  std::optional<Drift> drift;
  std::vector<int> run_ids;  // of the damaged trace, in the order of header.runs
};

void plan_chunks(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  const auto& all = reader.info().chunks;
  const auto odd = std::find_if(all.begin(), all.end(), [](const ChunkInfo& chunk) {
    return chunk.phase == Phase::Decode && chunk.length != 1;
  });
  plan.chunks.assign(all.begin(), odd);
  if (odd != all.end()) {
    left_out.push_back(
        fmt::format("the chunks from {} on: that one is a decoded token of length {}",
                    odd - all.begin(), odd->length));
  }
}

void plan_tokens(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  plan.ids = reader.token_ids();
  plan.texts = reader.token_texts();
  plan.texts.resize(plan.ids.size());
  const auto end = static_cast<std::size_t>(plan.chunks.back().end());
  for (std::size_t t = 0; t < end; ++t) {
    if (plan.ids[t] >= 0) continue;
    left_out.push_back(fmt::format("the id {} of token {}: 0 stands there", plan.ids[t], t));
    plan.ids[t] = 0;
  }
  for (const auto& span : reader.info().spans) {
    if (span.end <= plan.chunks.back().end()) {
      plan.header.spans.push_back(span);
    } else {
      left_out.push_back(fmt::format("the span {}: it ends at token {} of {}", span.name, span.end,
                                     plan.chunks.back().end()));
    }
  }
}

std::string first_defect(const Validation& found) {
  return found.defects.empty() ? std::string("it was not recorded") : found.defects.front();
}

// A layer whose rows are sound, and whether what is derived from them is.
struct LayerHealth {
  bool copied = false, has_rows = false;
  Validation lse, mass;
};

LayerHealth look_at_layer(const TraceReader& reader, int layer, const WorkContext& context,
                          std::vector<std::string>& left_out) {
  LayerHealth health;
  Validation rows;
  bool finite = false;
  check_guarded(rows, [&] { finite = check_rows(reader, layer, context, rows); });
  if (!rows.defects.empty()) {
    left_out.push_back(fmt::format("layer {}: {}", layer, rows.defects.front()));
    return health;
  }
  health.copied = true;
  health.has_rows = reader.has_stored(Stored::Q, layer);
  if (!finite || reader.info().model.lacks_window(layer)) return health;
  check_guarded(health.lse, [&] { check_lse(reader, layer, context, health.lse); });
  check_guarded(health.mass, [&] { check_key_mass(reader, layer, context, health.mass); });
  return health;
}

bool has_key_mass(const TraceReader& reader, int layer, const std::vector<ChunkInfo>& chunks) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].phase == Phase::Prefill && !reader.read_key_mass(layer, static_cast<int>(c))) {
      return false;
    }
  }
  return true;
}

void plan_layers(const TraceReader& reader, const WorkContext& context, Plan& plan,
                 std::vector<std::string>& left_out) {
  std::map<int, LayerHealth> sound;
  for (const int layer : reader.info().layers) {
    LayerHealth health = look_at_layer(reader, layer, context, left_out);
    if (health.copied) sound.emplace(layer, std::move(health));
  }
  TraceHeader& header = plan.header;
  header.store_qkv = std::any_of(sound.begin(), sound.end(),
                                 [](const auto& entry) { return entry.second.has_rows; });
  header.store_lse = header.store_mass = true;
  std::optional<std::string> lse_lost, mass_lost;
  for (const auto& [layer, health] : sound) {
    if (health.has_rows != header.store_qkv) {
      left_out.push_back(fmt::format("layer {}: it has no q, k and v", layer));
      continue;
    }
    header.layers.push_back(layer);
    if (!health.lse.defects.empty() || !reader.has_lse(layer)) {
      header.store_lse = false;
      lse_lost = fmt::format("layer {}: {}", layer, first_defect(health.lse));
    }
    if (!health.mass.defects.empty() || !has_key_mass(reader, layer, plan.chunks)) {
      header.store_mass = false;
      mass_lost = fmt::format("layer {}: {}", layer, first_defect(health.mass));
    }
  }
  // Not told where no layer ever had it.
  const auto& layers = header.layers;
  const bool lse_anywhere =
      std::any_of(layers.begin(), layers.end(), [&](int layer) { return reader.has_lse(layer); });
  if (lse_lost && lse_anywhere) left_out.push_back("lse, of all layers, for " + *lse_lost);
  const bool mass_damaged = std::any_of(sound.begin(), sound.end(), [](const auto& entry) {
    return !entry.second.mass.defects.empty();
  });
  if (mass_lost && mass_damaged) left_out.push_back("key_mass, of all layers, for " + *mass_lost);
}

void plan_runs(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  for (const RunInfo& run : reader.info().runs) {
    Validation found;
    check_guarded(found, [&] { check_run(reader, run, found); });
    for (const int layer : plan.header.layers) {
      if (!found.defects.empty() || reader.has_run_layer(run.id, layer)) continue;
      found.defects.push_back(fmt::format("it has no selections of layer {}", layer));
    }
    if (!found.defects.empty()) {
      left_out.push_back(fmt::format("run {}, {}: {}", run.id, run.method, found.defects.front()));
      continue;
    }
    // The copy is of a version that records what was kept by rule, and has nothing to record.
    const bool forced_known = std::all_of(
        plan.header.layers.begin(), plan.header.layers.end(),
        [&](int layer) { return !reader.read_run_layer(run.id, layer).forced_offsets.empty(); });
    if (!forced_known) {
      left_out.push_back(fmt::format(
          "run {}, {}: which keys were kept by rule is not recorded; the copy lists none", run.id,
          run.method));
    }
    plan.run_ids.push_back(run.id);
    RunInfo copied = run;
    copied.id = static_cast<int>(plan.header.runs.size());
    copied.from_sidecar = false;
    plan.header.runs.push_back(std::move(copied));
  }
}

// The losses, and the statistics of next tokens beside them.
void plan_next_tokens(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  Validation losses, next_tokens;
  check_guarded(losses, [&] {
    check_losses(reader, losses);
    if (losses.defects.empty()) plan.novelty = reader.read_novelty();
  });
  if (!losses.defects.empty()) left_out.push_back("the losses: " + losses.defects.front());
  plan.header.store_nll = !plan.novelty.empty();
  check_guarded(next_tokens, [&] {
    check_next_tokens(reader, next_tokens);
    if (!next_tokens.defects.empty()) return;
    plan.top = reader.read_top_tokens();
    const bool whole = plan.header.layers == reader.info().layers && plan.header.store_nll;
    if (reader.info().has_drift && whole) plan.drift = reader.read_drift();
  });
  if (!next_tokens.defects.empty())
    left_out.push_back("what the model foretold: " + next_tokens.defects.front());
  else if (reader.info().has_drift && !plan.drift)
    left_out.emplace_back("the drift: it is of layers or losses that are left out");
  plan.header.store_top = !plan.top.ids.empty();
  plan.header.store_drift = plan.drift.has_value();
}

// The probe's queries go along only where every layer and prefill chunk has them.
void plan_probe(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  const TraceInfo& info = reader.info();
  if (info.probe_len == 0) return;
  Validation found;
  check_guarded(found, [&] {
    check_probe(reader, found);
    if (plan.novelty.empty()) found.defects.push_back("the tokens have no novelty");
    for (const int layer : plan.header.layers) {
      for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
        if (plan.chunks[c].phase != Phase::Prefill) continue;
        if (reader.read_probe(layer, static_cast<int>(c))) continue;
        found.defects.push_back(fmt::format("layer {} lacks its queries of chunk {}", layer, c));
      }
    }
  });
  if (!found.defects.empty()) {
    left_out.push_back("the probe: " + found.defects.front());
    return;
  }
  plan.header.probe_text = info.probe_text;
  plan.header.probe_len = info.probe_len;
}

Plan make_plan(const TraceReader& reader, const WorkContext& context,
               std::vector<std::string>& left_out) {
  const TraceInfo& info = reader.info();
  const auto nothing_sound = [&](const std::string& why) {
    return input_error("cannot repair " + info.path, why, "capture the trace again");
  };
  Plan plan;
  plan_chunks(reader, plan, left_out);
  if (plan.chunks.empty()) throw nothing_sound("it holds no sound chunk");
  plan_tokens(reader, plan, left_out);
  plan_layers(reader, context, plan, left_out);
  if (plan.header.layers.empty()) {
    throw nothing_sound(left_out.empty() ? "it holds no layer"
                                         : "none of its layers is sound; " + left_out.back());
  }
  plan_runs(reader, plan, left_out);
  plan_next_tokens(reader, plan, left_out);
  plan_probe(reader, plan, left_out);
  plan.header.model = info.model;
  plan.header.mode = info.mode;
  plan.header.dtype = info.dtype;
  plan.header.max_tokens = plan.chunks.back().end();
  plan.header.max_chunks = static_cast<std::int32_t>(plan.chunks.size());
  return plan;
}

// Values as the trace stores them.
class StoredValues {
 public:
  StoredValues(DType dtype, std::vector<float> values) : values_(std::move(values)) {
    if (dtype == DType::F32) return;
    halves_.reserve(values_.size());
    for (const float value : values_) halves_.push_back(half_bits_of_exact(value));
  }
  const void* data() const {
    return halves_.empty() ? static_cast<const void*>(values_.data()) : halves_.data();
  }

 private:
  std::vector<float> values_;
  std::vector<std::uint16_t> halves_;
};

class Copy {
 public:
  Copy(const TraceReader& reader, const Plan& plan, TraceWriter& writer)
      : reader_(reader), plan_(plan), writer_(writer) {
    for (const int run : plan_.run_ids) {
      for (const int layer : plan_.header.layers) {
        evict_chunks_[{run, layer}] = reader_.read_run_layer(run, layer).evict_chunk;
      }
    }
  }

  void copy_chunk(int index) {
    const ChunkInfo& chunk = plan_.chunks[index];
    for (const int layer : plan_.header.layers) {
      copy_layer(index, layer);
      for (std::size_t run = 0; run < plan_.run_ids.size(); ++run) {
        copy_run(index, layer, static_cast<int>(run));
      }
    }
    const auto begin = static_cast<std::size_t>(chunk.begin);
    const auto length = static_cast<std::size_t>(chunk.length);
    if (!plan_.novelty.empty()) {
      writer_.write_novelty(chunk, std::span(plan_.novelty).subspan(begin, length));
    }
    copy_next_tokens(index);
    writer_.end_chunk(chunk, std::span(plan_.ids).subspan(begin, length),
                      {plan_.texts.begin() + chunk.begin, plan_.texts.begin() + chunk.end()});
  }

 private:
  void copy_next_tokens(int index) {
    const ChunkInfo& chunk = plan_.chunks[index];
    if (plan_.header.store_top) writer_.write_top(chunk, top_of(plan_.top, index));
    if (plan_.drift) writer_.write_drift(chunk, drift_of(*plan_.drift, index, chunk));
  }

  // [heads, length, head_dim]
  StoredValues rows(Stored what, int layer, int heads, const ChunkInfo& chunk) const {
    std::vector<float> values;
    if (plan_.header.store_qkv) {
      const std::size_t per_head =
          static_cast<std::size_t>(chunk.length) * plan_.header.model.head_dim;
      values.resize(heads * per_head);
      for (int head = 0; head < heads; ++head) {
        reader_.read_rows(what, layer, head, chunk.begin, chunk.end(),
                          values.data() + head * per_head);
      }
    }
    return {plan_.header.dtype, std::move(values)};
  }

  void copy_layer(int index, int layer) {
    const ChunkInfo& chunk = plan_.chunks[index];
    const ModelInfo& model = plan_.header.model;
    const StoredValues q = rows(Stored::Q, layer, model.num_q_heads, chunk);
    const StoredValues k = rows(Stored::K, layer, model.num_kv_heads, chunk);
    const StoredValues v = rows(Stored::V, layer, model.num_kv_heads, chunk);
    std::vector<float> lse;
    if (plan_.header.store_lse) {
      lse.resize(static_cast<std::size_t>(model.num_q_heads) * chunk.length);
      for (int head = 0; head < model.num_q_heads; ++head) {
        reader_.read_lse(layer, head, chunk.begin, chunk.end(),
                         lse.data() + static_cast<std::size_t>(head) * chunk.length);
      }
    }
    std::optional<std::vector<float>> mass;
    if (plan_.header.store_mass) mass = reader_.read_key_mass(layer, index);
    writer_.write_layer(
        chunk, {layer, q.data(), k.data(), v.data(), lse.data(), mass ? mass->data() : nullptr});
    if (plan_.header.probe_len > 0 && chunk.phase == Phase::Prefill) {
      const StoredValues probe(plan_.header.dtype, reader_.read_probe(layer, index).value());
      writer_.write_probe(chunk, {layer, probe.data()});
    }
  }

  void copy_run(int index, int layer, int run) {
    const int source = plan_.run_ids[run];
    RunChunk data;
    data.run = run;
    data.layer = layer;
    data.record = std::move(reader_.read_run(source, layer, index).cells.at(0));
    const auto& evict_chunk = evict_chunks_.at({source, layer});
    if (!evict_chunk.empty()) {
      const std::size_t tokens = evict_chunk.size() / data.record.rows.size();
      data.evicted.resize(data.record.rows.size());
      for (std::size_t i = 0; i < evict_chunk.size(); ++i) {
        if (evict_chunk[i] == index) {
          data.evicted[i / tokens].push_back(static_cast<std::int32_t>(i % tokens));
        }
      }
    }
    writer_.write_run(plan_.chunks[index], data);
  }

  const TraceReader& reader_;
  const Plan& plan_;
  TraceWriter& writer_;
  std::map<std::pair<int, int>, std::vector<std::uint16_t>> evict_chunks_;  // by run and layer
};

void write_copy(const TraceReader& reader, const Plan& plan, const fs::path& path, bool overwrite,
                const WorkContext& context) {
  TraceWriter writer(path, plan.header, overwrite);
  Copy copy(reader, plan, writer);
  const auto chunks = static_cast<int>(plan.chunks.size());
  for (int c = 0; c < chunks; ++c) {
    context.cancel.throw_if_cancelled();
    context.report(c, chunks, "chunks");
    copy.copy_chunk(c);
  }
  if (plan.drift) writer.write_dense_answer(plan.drift->dense_answer, plan.drift->dense_texts);
  const TraceInfo& info = reader.info();
  if (info.speed && !plan.header.request.prompt.empty()) writer.write_speed(*info.speed);
  writer.finish(info.generated, info.complete && plan.chunks.size() == info.chunks.size());
}

}  // namespace

Repair repair_trace(const fs::path& damaged, const fs::path& clean, bool overwrite,
                    const WorkContext& context) {
  check_trace_file(clean, files_of_trace(damaged), overwrite);
  const TraceReader reader(damaged);
  Repair repair;
  repair.left_out = reader.info().warnings;
  const Plan plan = make_plan(reader, context, repair.left_out);

  // Under a name of its own until it is proved: an older file at `clean` is not lost for nothing.
  const fs::path target = output_target(clean);
  fs::path candidate = target;
  candidate += ".repaired";
  std::error_code code;
  try {
    write_copy(reader, plan, candidate, true, context);
    const Validation proof = check_trace(candidate, context);
    if (!proof.defects.empty()) {
      throw input_error("cannot repair " + damaged.string(),
                        "the copy is not sound either: " + proof.defects.front(),
                        "capture the trace again");
    }
  } catch (...) {
    fs::remove(candidate, code);
    fs::remove(part_path(candidate), code);
    throw;
  }
  fs::rename(candidate, target, code);
  if (code) {
    throw input_error("cannot rename " + candidate.string(), code.message(),
                      "the copy is complete there; move it where you want it");
  }
  repair.num_chunks = static_cast<int>(plan.chunks.size());
  repair.num_tokens = plan.header.max_tokens;
  repair.layers = plan.header.layers;
  repair.num_runs = static_cast<int>(plan.header.runs.size());
  return repair;
}

}  // namespace kvloupe::trace
