// make_fuzz_seeds FOLDER: small sound inputs of every kind, FOLDER/KIND/NAME, by the code that makes such files. Fuzzing
// starts from them.
#include "app/shell/saved/settings.h"
#include "core/base/paths.h"
#include "core/base/safetensors.h"
#include "core/base/whole_file.h"
#include "core/selection/blocks/gate_file.h"
#include "core/selection/blocks/pattern_file.h"
#include "core/trace/basis_file.h"
#include "tests/base/temporary_folder.h"
#include "tests/capture/tiny_llama.h"
#include "tests/fuzz/shapes.h"
#include "tests/trace/trace_fixture.h"

#include <cstdio>
#include <exception>

namespace kvloupe::fuzz {
namespace {

namespace fs = std::filesystem;

fs::path seed(const fs::path& folder, const char* kind, const std::string& name) {
  fs::create_directories(folder / kind);
  return folder / kind / name;
}

void make_traces(const fs::path& folder) {
  using namespace trace::testing;
  ReferenceTrace reference = make_reference(trace::DType::F16);
  write_trace(seed(folder, "trace", "f16"), reference, true);
  add_probe_and_lanes(reference);
  add_blocks(reference);
  write_trace(seed(folder, "trace", "everything"), reference, true);
  fs::copy_file(fs::path(KVLOUPE_TEST_DATA_DIR) / "v1_h5py_tiny.h5", seed(folder, "trace", "h5py"),
                fs::copy_options::overwrite_existing);
}

// Two runs, the second evicting, of the trace that the target has it beside.
void make_sidecar(const fs::path& folder) {
  const TemporaryFolder work;
  const fs::path path = work / "t.h5";
  fs::copy_file(fs::path(KVLOUPE_TEST_DATA_DIR) / "v1_h5py_tiny.h5", path);
  const trace::TraceReader reader(path);
  const trace::TraceInfo& info = reader.info();
  for (const bool evicting : {false, true}) {
    trace::RunInfo run;
    run.method = evicting ? "keydiff:budget_tokens=4" : "sliding_window:budget_tokens=4";
    run.q_heads_per_row = info.model.gqa_group_size();
    run.state_action = evicting ? trace::StateAction::Eviction : trace::StateAction::Visibility;
    trace::LayerRecord layer;
    for (const trace::ChunkInfo& chunk : info.chunks) {
      trace::CellRecord& cell = layer.cells.emplace_back();
      cell.num_candidates = chunk.begin;
      if (chunk.begin == 0) cell.dense_reason = trace::DenseReason::EmptyPast;
      for (int row = 0; row < info.model.num_kv_heads; ++row) {
        trace::SelectedRow& kept = cell.rows.emplace_back();
        for (std::int32_t key = row; key < chunk.begin; key += 3) kept.positions.push_back(key);
      }
    }
    if (evicting)
      layer.evict_chunk.assign(
          static_cast<std::size_t>(info.model.num_kv_heads),
          std::vector<std::uint16_t>(static_cast<std::size_t>(info.num_tokens), trace::kAlive));
    trace::append_sidecar_run(path, run, info.layers,
                              std::vector<trace::LayerRecord>(info.layers.size(), layer));
  }
  fs::copy_file(work / "t.h5.runs.h5", seed(folder, "sidecar", "two_runs"),
                fs::copy_options::overwrite_existing);
}

void make_results(const fs::path& folder) {
  fs::copy_file(fs::path(KVLOUPE_TEST_DATA_DIR) / "results/needles.h5",
                seed(folder, "results", "needles"), fs::copy_options::overwrite_existing);
}

void make_basis(const fs::path& folder) {
  trace::Basis basis;
  basis.model_name = "tiny";
  basis.model_hash = std::string(64, '7');
  basis.num_kv_heads = 2;
  basis.head_dim = 2;
  basis.source = "text";
  basis.source_hash = "abc";
  basis.num_tokens = 30;
  for (const int layer : {0, 1})
    basis.layers.emplace(
        layer, trace::LayerBasis{{1, 0, 0, 1, 0, 1, 1, 0}, {2, 1, 2, 1}, {0, 1, 1, 0, 1, 0, 0, 1}});
  basis.shingles = trace::shingles_of(std::vector<std::int32_t>(30, 1));
  trace::write_basis(seed(folder, "basis", "loki"), basis);
}

void make_gates(const fs::path& folder) {
  const selection::ModelShape shape = small_shape();
  for (const bool published : {false, true}) {
    selection::Gate gate;
    gate.hidden = published ? shape.head_dim : 2;
    gate.metadata = {{"model_name", "tiny"}, {"block_size", "64"}};
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      selection::GateLayer& weights = gate.layers[layer];
      weights.num_k_heads = published ? shape.num_q_heads : shape.num_kv_heads;
      weights.k_weight.assign(
          static_cast<std::size_t>(weights.num_k_heads * 3 * shape.head_dim * gate.hidden), 0.5F);
      if (!published)
        weights.q_weight.assign(
            static_cast<std::size_t>(shape.num_q_heads * shape.head_dim * gate.hidden), 0.5F);
    }
    const char* name = published ? "published" : "ours";
    selection::write_gate(seed(folder, "gate", name), gate, shape);
    selection::write_gate(seed(folder, "safetensors", name), gate, shape);
  }
  const std::string header = R"({"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"BF16","shape":[1,1],"data_offsets":[4,6]}})";
  std::string bytes;
  capture::append_string(bytes, header);  // the same eight bytes before a text
  write_whole_file(seed(folder, "safetensors", "halves"), bytes + "abcdef");
}

void make_patterns(const fs::path& folder) {
  using enum selection::PatternType;
  selection::write_patterns(seed(folder, "patterns", "each_type"),
                            {{{0, {VerticalSlash, 30, 800, 0.9}}, {3, {BlockSparse, 100, 100, 1}}},
                             {{1, {StreamLlm, 64, 4096, 1e-9}}}});
}

void make_model(const fs::path& folder) {
  capture::TinyLlama llama;
  llama.num_layers = 1;
  llama.num_q_heads = 2;
  llama.num_kv_heads = 1;
  llama.head_dim = 2;
  llama.hidden_size = 4;
  llama.ffn_size = 4;
  llama.build().write(seed(folder, "gguf", "tiny"));
}

void make_tokenizers(const fs::path& folder) {
  const fs::path data = fs::path(KVLOUPE_TEST_DATA_DIR) / "tokenizers";
  for (const char* kind : {"qwen2", "gemma", "words"})
    fs::copy_file(data / kind / "tokenizer.json", seed(folder, "tokenizer", kind),
                  fs::copy_options::overwrite_existing);
  write_whole_file(seed(folder, "chat_template", "chatml"), capture::kChatMl);
  write_whole_file(seed(folder, "chat_template", "spaces"),
                   "{{- bos_token }}{%- set ns = namespace(n=0) -%}{% for m in messages[::-1] if "
                   "m.role != 'x' %}"
                   "{% set ns.n = ns.n + 1 %}{{ m['content'] | trim ~ ns.n }}{% endfor %}");
}

void make_specs(const fs::path& folder) {
  const auto add = [&](const std::string& name, const std::string& text) {
    write_whole_file(seed(folder, "spec", name), text);
  };
  for (const selection::MethodInfo& method : selection::catalogue()) {
    selection::ParamValues none;
    std::string required;
    for (const selection::ParamInfo* param : selection::params_with(method, none))
      if (param->required) required += (required.empty() ? ":" : ",") + param->name + "=file";
    const auto spec = selection::MethodSpec::parse(method.id + required).resolved(small_shape());
    add(method.id, spec.canonical());
  }
  add("ratio", "loki:budget_ratio=0.25,budget_scope=all,basis=self");
  add("task", "task niah:length=2048,depth=0.5,seed=1");
}

void make_texts(const fs::path& folder) {
  write_whole_file(seed(folder, "messages", "chat"),
                   R"([{"role": "system", "content": "Be brief."},)"
                   R"({"role": "user", "content": "Hello \u00e9\ud83d\ude00 world\n12"},)"
                   R"({"role": "assistant", "content": ""}])");
  write_whole_file(seed(folder, "request", "prompt"),
                   R"({"id": "a", "prompt": "Hello \u00e9", "raw": true, "until": ["\n"],)"
                   R"( "max_new_tokens": 8, "decode_from": "lo"})");
  write_whole_file(seed(folder, "request", "likelihood"),
                   R"({"id": 2, "context": "Hello ", "continuation": "world"})");
  paths::set_config_dir(folder / "settings");
  shell::Settings settings;
  settings.last_folder = "/tmp";
  shell::save_settings(shell::text_of(settings));
  fs::rename(folder / "settings/settings.json", folder / "settings/settings");
  write_whole_file(seed(folder, "settings", "recent"), R"(["/a.h5", "/b.h5"])");
  write_whole_file(seed(folder, "session", "two"),
                   R"({"traces": ["/a.h5", [47, 255, 46]], "active": 1, "openings": 1})");
  write_whole_file(
      seed(folder, "places", "two"),
      R"([{"trace": "/a.h5", "goto": "layer=1,chunk=2", "methods": ["quoka", "run:1"],)"
      R"( "shown": "A", "more": ["h2o"], "tried": [[255]],)"
      R"( "options": {"kv_map.zoom": "fit"}}, {"trace": [47, 255]}])");
}

}  // namespace
}  // namespace kvloupe::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_fuzz_seeds FOLDER\n");
    return 2;
  }
  using namespace kvloupe::fuzz;
  try {
    const std::filesystem::path folder = argv[1];
    for (const auto make : {make_traces, make_sidecar, make_basis, make_results, make_gates,
                            make_patterns, make_model, make_tokenizers, make_specs, make_texts})
      make(folder);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
