// Runs both sides of a comparison, a layer at a time: the sets of all layers need not fit into memory.
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/replay/diff.h"
#include "core/replay/request_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvloupe::replay {
namespace {

void check_keys_chosen(const DiffSide& side) {
  const trace::RunInfo* run = side.method.run_info(side.session.info());
  const bool keeps_all = run != nullptr ? run->granularity == trace::Granularity::Lane &&
                                              run->state_action != trace::StateAction::Eviction
                                        : side.method.spec->traits().keeps_every_key();
  if (keeps_all)
    throw input_error(fmt::format("{} cannot be compared by its keys", printable(side.method.text)),
                      "it prunes lanes and keeps every key",
                      "name a method that chooses among keys");
}

void check_models(const trace::ModelInfo& a, const trace::ModelInfo& b) {
  const auto shape = [](const trace::ModelInfo& model) {
    return fmt::format("{} layers, {} query heads and {} KV heads", model.num_layers,
                       model.num_q_heads, model.num_kv_heads);
  };
  if (shape(a) != shape(b))
    throw input_error("the two traces cannot be compared",
                      fmt::format("their models do not agree: {} and {}", shape(a), shape(b)),
                      "choose traces of one model");
}

std::vector<int> layers_of(const DiffSide& side, const std::vector<int>& wanted) {
  if (side.method.recorded()) return checked_layers_of_run(side.session, side.method.run, wanted);
  return checked_layers(side.session.info(), wanted);
}

std::vector<int> layers_of_both(const DiffSide& a, const DiffSide& b,
                                const std::vector<int>& wanted) {
  const std::vector<int> of_a = layers_of(a, wanted), of_b = layers_of(b, wanted);
  std::vector<int> both;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                        std::back_inserter(both));
  if (both.empty())
    throw input_error("the two selections cannot be compared", "no layer is in both",
                      "see kvloupe info for the layers of each");
  return both;
}

selection::RowLayout layout_of_both(const DiffSide& a, const DiffSide& b) {
  const selection::RowLayout of_a = layout_of(a.method, a.session.info());
  const selection::RowLayout of_b = layout_of(b.method, b.session.info());
  const auto layout = finer_layout(of_a, of_b);
  if (!layout)
    throw input_error(
        "the two selections cannot be compared",
        fmt::format("a row of one is {} query heads and of the other {}, and neither is made of "
                    "the other",
                    of_a.q_heads_per_row, of_b.q_heads_per_row),
        "choose sizes of sub-groups that divide each other");
  return *layout;
}

// The cells of one layer in these chunks, ascending, measured in rows of the layout.
ReplayResult cells_of(const DiffSide& side, int layer, const std::vector<int>& chunks,
                      const selection::RowLayout& layout, const std::string& device,
                      const CancelToken& cancel) {
  ReplayResult result;
  if (side.method.recorded()) {
    result = read_run(side.session, side.method.run, {layer}, std::nullopt, {cancel, {}});
    std::erase_if(result.cells, [&](const ReplayCell& cell) {
      return !std::binary_search(chunks.begin(), chunks.end(), cell.chunk);
    });
  } else {
    ReplayRequest request;
    request.spec = *side.method.spec;
    request.layers = {layer};
    request.chunks = chunks;
    request.want_mass = false;
    request.device = device;
    result = replay(side.session, request, {cancel, {}});
  }
  split_rows(result, layout);
  add_metrics(side.session, result, {true, false}, {cancel, {}}, device);
  return result;
}

std::string queries_text(const trace::TraceInfo& info) {
  return info.query_offsets.empty() ? "all chunks" : trace::text_of_query_chunks(info);
}

const ReplayCell& cell_in(const ReplayResult& result, int chunk) {
  const auto found =
      std::lower_bound(result.cells.begin(), result.cells.end(), chunk,
                       [](const ReplayCell& cell, int wanted) { return cell.chunk < wanted; });
  KVLOUPE_CHECK(found != result.cells.end() && found->chunk == chunk);
  return *found;
}

}  // namespace

Diff diff_selections(const DiffSide& a, const DiffSide& b, const DiffRequest& request,
                     const WorkContext& context) {
  check_keys_chosen(a);
  check_keys_chosen(b);
  check_models(a.session.info().model, b.session.info().model);
  Diff diff;
  diff.layout = layout_of_both(a, b);
  diff.two_traces = &a.session != &b.session;
  const std::vector<int> layers = layers_of_both(a, b, request.layers);
  const std::vector<trace::ChunkInfo>& chunks = a.session.info().chunks;
  const KeyPairs pairs = diff.two_traces ? paired_keys(a.session, b.session, context.cancel)
                                         : same_keys(a.session.info().num_tokens);
  diff.aligned_tokens = pairs.count;
  const std::vector<int> partners = paired_chunks(chunks, b.session.info().chunks, pairs);
  std::vector<int> chunks_a, chunks_b;
  bool any_partner = false;
  for (const int chunk : checked_chunks(a.session.info(), request.chunks, chunks.size())) {
    const int partner = partners[static_cast<std::size_t>(chunk)];
    any_partner |= partner >= 0;
    if (partner < 0 || !b.session.info().has_queries(partner)) continue;
    chunks_a.push_back(chunk);
    chunks_b.push_back(partner);
  }
  if (chunks_a.empty() && any_partner)
    throw input_error("A and B cannot be compared",
                      fmt::format("A has the queries of {}, and B those of {}: none is of the "
                                  "same tokens",
                                  queries_text(a.session.info()), queries_text(b.session.info())),
                      "name chunks that both have, or record with queries=all");
  if (chunks_a.empty()) return diff;
  std::int64_t done = 0;
  for (const int layer : layers) {
    const ReplayResult of_a =
        cells_of(a, layer, chunks_a, diff.layout, request.device, context.cancel);
    const ReplayResult of_b =
        cells_of(b, layer, chunks_b, diff.layout, request.device, context.cancel);
    for (std::size_t i = 0; i < chunks_a.size(); ++i) {
      const ReplayCell& cell_a = cell_in(of_a, chunks_a[i]);
      const ReplayCell& cell_b = cell_in(of_b, chunks_b[i]);
      for (std::size_t r = 0; r < cell_a.rows.size(); ++r) {
        DiffRow row{layer, chunks_a[i], chunks_b[i], static_cast<int>(r)};
        count_keys(cell_a, cell_b, pairs, row);
        row.mass_a = cell_a.metrics[r].mass_recall;
        row.mass_b = cell_b.metrics[r].mass_recall;
        if (a.watched) row.span_kept_a = span_kept(cell_a, r, *a.watched);
        if (b.watched) row.span_kept_b = span_kept(cell_b, r, *b.watched);
        diff.rows.push_back(std::move(row));
      }
    }
    context.report(++done, std::ssize(layers), "comparing");
  }
  return diff;
}

}  // namespace kvloupe::replay
