// SPECs of all methods of the catalogue for the tiny model, with bases of it where they need one.
#pragma once

#include "core/selection/blocks/gate.h"
#include "core/selection/lanes/basis.h"
#include "core/selection/spec/method_spec.h"
#include "tests/capture/capture_fixture.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::capture {

// A basis of the tiny model, fitted on another text than some_text(), in a file of this folder.
inline std::string tiny_basis(trace::BasisKind kind) {
  const std::string path = std::string("tiny_") + trace::name_of(kind) + ".basis.h5";
  CaptureOptions options = tiny_options("basis_text.h5");
  options.prompt_text = "Another text, of which no piece is in the prompts that are captured.";
  options.max_new_tokens = 0;
  capture_tiny(options);
  const trace::TraceReader reader("basis_text.h5");
  const trace::TraceInfo& info = reader.info();
  selection::BasisFit fit(kind);
  for (const int layer : info.layers) {
    const StoredLayer stored = read_layer(reader, layer);
    fit.add(layer, stored.q, stored.k);
  }
  trace::Basis basis;
  basis.kind = kind;
  basis.model_name = info.model.name;
  basis.model_hash = info.model.file_hash;
  basis.num_kv_heads = info.model.num_kv_heads;
  basis.head_dim = info.model.head_dim;
  basis.layers = fit.finish();
  basis.source = "another text";
  basis.source_hash = std::string(64, 'c');
  basis.num_tokens = info.num_tokens;
  basis.shingles = trace::shingles_of(reader.token_ids());
  trace::write_basis(path, basis);
  return path;
}

// The tiny model's file for a parameter that has no default: a gate of random weights, or a list of
// patterns without entries. In this folder.
inline std::string tiny_file(const std::string& param) {
  if (param == "config") {
    std::ofstream("tiny_patterns.json") << "[]";
    return "tiny_patterns.json";
  }
  CaptureOptions options = tiny_options("gate_text.h5");
  options.max_new_tokens = 0;
  capture_tiny(options);
  const trace::TraceReader reader("gate_text.h5");
  const trace::ModelInfo& model = reader.info().model;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  selection::Gate gate;
  gate.hidden = 8;
  for (int layer = 0; layer < model.num_layers; ++layer) {
    selection::GateLayer& weights = gate.layers[layer];
    weights.num_k_heads = model.num_kv_heads;
    weights.q_weight.resize(static_cast<std::size_t>(model.num_q_heads * model.head_dim * 8));
    weights.k_weight.resize(static_cast<std::size_t>(model.num_kv_heads * 3 * model.head_dim * 8));
    for (auto* values : {&weights.q_weight, &weights.k_weight})
      for (float& value : *values) value = normal(random);
  }
  selection::write_gate("tiny_gate.safetensors", gate, selection::shape_of(model));
  return "tiny_gate.safetensors";
}

// One SPEC of a method: its budget, if it needs one, and these further parameters.
inline std::string spec_text(const selection::MethodInfo& method, int budget,
                             const std::string& more = "") {
  std::string params;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) params += (params.empty() ? ":" : ",") + text;
  };
  if (method.budget == selection::BudgetUse::Required)
    add("budget_tokens=" + std::to_string(budget));
  for (const selection::ParamInfo* param : selection::params_with(method, {}))
    if (param->required) add(param->name + "=" + tiny_file(param->name));
  add(more);
  if (method.basis) add("basis=" + tiny_basis(*method.basis));
  return method.id + params;
}

// Every method, and the variants that capture treats differently.
inline std::vector<std::string> all_method_specs(int budget = 40) {
  std::vector<std::string> specs;
  for (const selection::MethodInfo& method : selection::catalogue()) {
    specs.push_back(spec_text(method, budget));
    if (method.accepts_scope_all) {
      specs.push_back(spec_text(method, budget, "budget_scope=all"));
    }
    // The layers above reuse what the first and the last but one choose.
    if (method.crosses_layers) {
      specs.push_back(spec_text(method, budget, "first_layer=0,correction_layer=1"));
    }
    for (const selection::ParamInfo& param : method.params) {
      if (param.name == "state") specs.push_back(spec_text(method, budget, "state=select"));
      if (param.name == "decode") specs.push_back(spec_text(method, budget, "decode=dense"));
    }
  }
  specs.push_back("snapkv:budget_ratio=0.3");
  return specs;
}

}  // namespace kvloupe::capture
