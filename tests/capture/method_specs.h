// SPECs of all methods of the catalogue for the tiny model, with bases of it where they need one.
#pragma once

#include "core/selection/basis.h"
#include "core/selection/method_spec.h"
#include "tests/capture/capture_fixture.h"

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

// One SPEC of a method: its budget, if it takes one, and these further parameters.
inline std::string spec_text(const selection::MethodInfo& method, int budget,
                             const std::string& more = "") {
  std::string params;
  const auto add = [&](const std::string& text) {
    if (!text.empty()) params += (params.empty() ? ":" : ",") + text;
  };
  if (method.budget != selection::BudgetUse::None) add("budget_tokens=" + std::to_string(budget));
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
