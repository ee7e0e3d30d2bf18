// Bases of an open trace.
#include "core/replay/trace_basis.h"

#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/session/session_cache.h"
#include "core/session/session_tensors.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

namespace kvloupe::replay {
namespace {

std::string hash_of_tokens(const session::TraceSession& session) {
  Sha256 hash;
  for (const std::int32_t id : session.token_ids()) hash.update(fmt::format("{}\n", id));
  return hash.hex_digest();
}

// Cells of whole chunks report values that are not finite by layer, head and position.
trace::LayerBasis fit_layer(const session::TraceSession& session, trace::BasisKind kind, int layer,
                            const WorkContext& context) {
  selection::BasisFit fit(kind);
  const auto& chunks = session.info().chunks;
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    context.cancel.throw_if_cancelled();
    const selection::Cell cell = session::load_cell(session, layer, static_cast<int>(i), chunks[i]);
    const auto own = [&](const at::Tensor& cached) {
      return cached.narrow(1, cell.past_len, cell.chunk_len);
    };
    fit.add(layer, cell.q, own(cell.k), own(cell.v));
  }
  auto fitted = fit.finish();
  if (fitted.empty())
    throw input_error("no basis can be fitted", "the trace holds no chunk", "capture again");
  return std::move(fitted.begin()->second);
}

selection::BasisPtr basis_of_trace(const session::TraceSession& session, trace::BasisKind kind,
                                   const std::vector<int>& layers, const WorkContext& context) {
  const trace::TraceInfo& info = session.info();
  trace::require_queries(info, static_cast<int>(info.chunks.size()), "basis=self cannot be fitted");
  auto basis = std::make_shared<trace::Basis>();
  basis->kind = kind;
  basis->model_name = info.model.name;
  basis->model_hash = info.model.file_hash;
  basis->num_kv_heads = info.model.num_kv_heads;
  basis->head_dim = info.model.head_dim;
  basis->source = "this trace";
  basis->source_hash = hash_of_tokens(session);
  basis->num_tokens = info.num_tokens;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    basis->layers.emplace(layers[i], session.cache().basis(kind, layers[i], [&] {
      return fit_layer(session, kind, layers[i], context);
    }));
    context.report(static_cast<std::int64_t>(i) + 1, static_cast<std::int64_t>(layers.size()),
                   "fitting a basis");
  }
  return basis;
}

}  // namespace

selection::BasisPtr basis_for(const session::TraceSession& session,
                              const selection::MethodSpec& spec, const std::vector<int>& layers,
                              const WorkContext& context) {
  const auto& wanted = spec.traits().basis;
  if (!wanted) return nullptr;
  if (wanted->is_self()) return basis_of_trace(session, wanted->kind, layers, context);
  if (session.bases().make) session.bases().make(spec, session.info().model, context);
  selection::BasisPtr basis = selection::load_basis(spec, session.info().model);
  for (const int layer : layers) {
    if (basis->layers.count(layer) == 0)
      throw input_error(fmt::format("{} cannot be used on layer {}", spec.id(), layer),
                        fmt::format("its basis, from {}, does not hold that layer", basis->source),
                        "name other layers, or make the basis again by kvloupe calibrate");
  }
  return basis;
}

std::optional<BasisNote> basis_note(const session::TraceSession& session,
                                    const selection::BasisPtr& basis) {
  if (!basis) return std::nullopt;
  BasisNote note;
  note.source = basis->source;
  note.hash = basis->source_hash;
  note.num_tokens = basis->num_tokens;
  note.leakage = basis->source_hash == hash_of_tokens(session) ||
                 trace::shares_text(*basis, session.token_ids());
  return note;
}

}  // namespace kvloupe::replay
