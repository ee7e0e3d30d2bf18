#include "core/trace/check/repair.h"

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/trace/check/validate.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/queries_note.h"
#include "core/trace/trace_writer.h"
#include "core/trace/write/part_file.h"

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
  const std::vector<std::int32_t> ids = reader.token_ids();
  const auto end = static_cast<std::size_t>(plan.chunks.back().end());
  for (std::size_t t = 0; t < end; ++t) {
    if (ids[t] >= 0) continue;
    left_out.push_back(fmt::format("the id {} of token {}: 0 stands there", ids[t], t));
  }
  for (const auto& span : reader.info().spans) {
    if (const auto kept = decoded_prompt_within(span, plan.chunks.back().end())) {
      plan.header.spans.push_back(*kept);
    } else if (span.end <= plan.chunks.back().end()) {
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
  BrokenHeads broken;
  check_guarded(rows, [&] { broken = check_rows(reader, layer, context, rows); });
  if (!rows.defects.empty()) {
    left_out.push_back(fmt::format("layer {}: {}", layer, rows.defects.front()));
    return health;
  }
  health.copied = true;
  health.has_rows = reader.has_stored(Stored::Q, layer);
  if (reader.info().model.lacks_window(layer)) return health;
  check_guarded(health.lse, [&] { check_lse(reader, layer, broken, context, health.lse); });
  check_guarded(health.mass, [&] { check_key_mass(reader, layer, broken, context, health.mass); });
  return health;
}

// Of all prefill chunks, and there is one.
bool has_key_mass(const TraceReader& reader, int layer, const std::vector<ChunkInfo>& chunks) {
  bool any = false;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].phase != Phase::Prefill) continue;
    if (!reader.read_key_mass(layer, static_cast<int>(c))) return false;
    any = true;
  }
  return any;
}

void plan_layers(const TraceReader& reader, const WorkContext& context, Plan& plan,
                 std::vector<std::string>& left_out) {
  std::map<int, LayerHealth> sound;
  for (const int layer : reader.info().layers) {
    LayerHealth health = look_at_layer(reader, layer, context, left_out);
    if (health.copied) sound.emplace(layer, std::move(health));
  }
  TraceHeader& header = plan.header;
  header.store = {Part::Lse, Part::Mass};
  header.store.set(Part::Qkv, std::any_of(sound.begin(), sound.end(),
                                          [](const auto& entry) { return entry.second.has_rows; }));
  std::optional<std::string> lse_lost, mass_lost;
  for (const auto& [layer, health] : sound) {
    if (health.has_rows != header.store.has(Part::Qkv)) {
      left_out.push_back(fmt::format("layer {}: it has no q, k and v", layer));
      continue;
    }
    header.layers.push_back(layer);
    if (!health.lse.defects.empty() || !reader.has_lse(layer)) {
      header.store.set(Part::Lse, false);
      lse_lost = fmt::format("layer {}: {}", layer, first_defect(health.lse));
    }
    if (!health.mass.defects.empty() || !has_key_mass(reader, layer, plan.chunks)) {
      header.store.set(Part::Mass, false);
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
      if (&run == reader.info().closed_loop_run())
        left_out.back() += "; the model ran with this method, and the copy does not show it";
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
    plan.header.store.set(Part::Loss,
                          losses.defects.empty() && !reader.read<float>(Field::Nll).empty());
  });
  if (!losses.defects.empty()) left_out.push_back("the losses: " + losses.defects.front());
  check_guarded(next_tokens, [&] {
    check_next_tokens(reader, next_tokens);
    if (!next_tokens.defects.empty()) return;
    plan.header.store.set(Part::Top, !reader.read_top_tokens().ids.empty());
    const bool whole =
        plan.header.layers == reader.info().layers && plan.header.store.has(Part::Loss);
    if (reader.info().has_drift && whole) plan.drift = reader.read_drift();
  });
  if (!next_tokens.defects.empty())
    left_out.push_back("the statistics of next tokens: " + next_tokens.defects.front());
  else if (reader.info().has_drift && !plan.drift)
    left_out.emplace_back("the drift: it is of layers or losses that are left out");
  plan.header.store.set(Part::Drift, plan.drift.has_value());
}

// The probe's queries go along only where every layer and prefill chunk has them.
void plan_probe(const TraceReader& reader, Plan& plan, std::vector<std::string>& left_out) {
  const TraceInfo& info = reader.info();
  if (info.probe_len == 0) return;
  Validation found;
  check_guarded(found, [&] {
    check_probe(reader, found);
    if (!plan.header.store.has(Part::Loss)) found.defects.push_back("the tokens have no novelty");
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
  plan.header.store.set(Part::Probe);
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
  if (plan.header.store.has(Part::Qkv)) {
    TraceInfo kept = info;
    kept.chunks = plan.chunks;
    kept.cut_query_offsets();
    plan.header.query_offsets = kept.query_offsets;
    plan.header.store.set(Part::SomeQueries, !kept.query_offsets.empty());
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

void write_copy(const TraceReader& reader, const Plan& plan, const fs::path& path,
                const WorkContext& context) {
  const TraceInfo& info = reader.info();
  TraceWriter writer(path, plan.header, /*overwrite=*/true);
  writer.copy({info.path, plan.header.max_chunks, plan.run_ids}, context);
  if (plan.drift) writer.write_dense_answer(plan.drift->dense_answer, plan.drift->dense_texts);
  writer.finish(info.generated, info.complete && plan.chunks.size() == info.chunks.size());
}

}  // namespace

Repair repair_trace(const fs::path& damaged, const fs::path& clean, bool overwrite,
                    const WorkContext& context) {
  check_trace_file(clean, files_of_trace(damaged), overwrite);
  const TraceReader reader(damaged);
  Repair repair;
  repair.left_out = reader.info().warnings;
  // The original lacked them: the copy lacks nothing that it had.
  std::erase(repair.left_out, queries_note(reader.info()));
  const Plan plan = make_plan(reader, context, repair.left_out);

  // Under a name of its own until it is proved: an older file at `clean` is not lost for nothing.
  const fs::path target = output_target(clean);
  fs::path candidate = target;
  candidate += ".repaired";
  std::error_code code;
  try {
    write_copy(reader, plan, candidate, context);
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
