#include "core/replay/stage_runs.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/device/torch_device.h"
#include "core/replay/cells_of_heads.h"
#include "core/replay/request_checks.h"
#include "core/selection/cell_rows.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/ranking.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::replay {

using selection::Ablation;
using selection::Cell;
using selection::SelectedRow;

namespace {

bool holds(const SelectedRow& row, std::int64_t key) {
  return std::binary_search(row.positions.begin(), row.positions.end(), key);
}

}  // namespace

bool Alternative::keeps(int row, std::int64_t key) const {
  return holds(rows[static_cast<std::size_t>(row)], key);
}

bool CellRun::keeps(int row, std::int64_t key) const {
  return holds(selection.rows[static_cast<std::size_t>(row)], key);
}

Stage CellRun::cause(int row, std::int64_t key, const std::vector<Stage>& stages,
                     int q_heads_per_row) const {
  if (stages.front() == Stage::Evicted) return Stage::Evicted;
  for (const Alternative& alternative : alternatives)
    if (alternative.speaks_for(row, q_heads_per_row) && alternative.keeps(row, key))
      return alternative.stage;
  return stages.back();  // threshold or budget
}

// The cell as the changed selector is given it, and the rows that its answer stands for.
struct StageRuns::Changed {
  Stage stage;
  std::optional<selection::MethodSpec> spec;
  std::string change;
  std::unique_ptr<selection::Selector> selector;
  enum class Sight { Whole, OneOfEachGroup, SingleHead, HeadsApart } sight = Sight::Whole;
  std::int64_t head = 0;  // of the group, or of all

  Cell seen(const Cell& cell) const {
    if (sight == Sight::OneOfEachGroup) return one_of_each_group(cell, head);
    return sight == Sight::SingleHead ? single_head(cell, head) : cell;
  }
};

namespace {

// Throws what a replay of the layer would be refused with.
PreparedMethod prepared(const session::TraceSession& session, const selection::MethodSpec& spec,
                        int layer, const std::string& device, const WorkContext& context) {
  ReplayRequest request;
  request.spec = spec;
  request.layers = {layer};
  if (const std::optional<Error> refusal = why_unavailable(session, request, context))
    throw *refusal;
  return prepare(session, spec, {layer}, device, context);
}

}  // namespace

StageRuns::StageRuns(const session::TraceSession& session, const selection::MethodSpec& spec,
                     int layer, const std::string& device, const WorkContext& context)
    : session_(session),
      method_(prepared(session, spec, layer, device, context)),
      layer_(layer),
      stages_(stages_of(spec, method_.shape, layer)),
      source_layer_(selection::source_layer(spec, method_.shape, layer)),
      cells_(session, device::torch_device(device)),
      source_cells_(session, device::torch_device(device)),
      copies_(std::make_shared<selection::KeyCopies>()),
      source_copies_(std::make_shared<selection::KeyCopies>()) {
  selector_ = method_.selector();
  selector_->keep_evidence();
  prepare_changes();
}

StageRuns::~StageRuns() = default;

void StageRuns::prepare_changes() {
  for (const auto& [stage, ablation, change] :
       {std::tuple{Stage::QuerySampling, Ablation::AllRows, "all rows of the chunk"},
        std::tuple{Stage::HeadMerge, Ablation::HeadsApart, ""},
        std::tuple{Stage::Approximation, Ablation::ExactLogits, "exact logits"}}) {
    if (std::find(stages_.begin(), stages_.end(), stage) == stages_.end()) continue;
    if (stage == Stage::HeadMerge) {
      add_head_changes();
      continue;
    }
    // The rows of a chunk are as many as no chunk exceeds: the longest one's.
    std::int64_t longest = 1;
    for (const trace::ChunkInfo& chunk : session_.info().chunks)
      longest = std::max<std::int64_t>(longest, chunk.length);
    const auto spec = selection::ablated(method_.spec, ablation, longest, method_.shape);
    PreparedMethod changed = method_;
    if (spec) changed.spec = *spec;
    changes_.push_back({stage, spec, change, changed.selector(ablation)});
  }
}

void StageRuns::add_head_changes() {
  using Sight = Changed::Sight;
  if (method_.traits().granularity == trace::Granularity::Block) {
    changes_.push_back(
        {Stage::HeadMerge, {}, "", method_.selector(Ablation::HeadsApart), Sight::HeadsApart});
    return;
  }
  // Sets that pass from layer to layer may be made by all heads together: each is alone then.
  const bool single = method_.spec.info().crosses_layers;
  const int count =
      single ? method_.shape.num_q_heads : method_.shape.num_q_heads / method_.shape.num_kv_heads;
  selection::ModelShape shape = method_.shape;
  shape.num_kv_heads = single ? 1 : method_.shape.num_kv_heads;
  shape.num_q_heads = shape.num_kv_heads;
  for (int head = 0; head < count; ++head)
    changes_.push_back({Stage::HeadMerge,
                        {},
                        "",
                        selection::make_selector(method_.spec, shape, method_.basis),
                        single ? Sight::SingleHead : Sight::OneOfEachGroup,
                        head});
}

Cell StageRuns::load(session::CellLoader& loader, int layer, int chunk) const {
  const auto& chunks = session_.info().chunks;
  check_chunk(chunk, chunks.size());
  Cell cell = loader.load(layer, chunk, chunks[static_cast<std::size_t>(chunk)]);
  cell.copies = layer == layer_ ? copies_ : source_copies_;
  if (method_.traits().needs_probe) session::add_probe(session_, cell);
  return cell;
}

CellRun StageRuns::step(int chunk, const StagesWanted& wanted) {
  CellRun run;
  run.cell = load(cells_, layer_, chunk);
  std::optional<Cell> source;
  if (source_layer_) {
    source = load(source_cells_, *source_layer_, chunk);
    selector_->select(*source);
  }
  run.selection = selector_->select(run.cell);
  if (wanted.evidence) decide(run, source);
  if (wanted.mass || wanted.alternatives) {
    CellMass truth = cell_mass_and_lse(run.cell, method_.layout);
    run.mass = std::move(truth.mass);
    run.lse = std::move(truth.lse);
  }
  if (wanted.alternatives && !run.selection.dense_reason) add_alternatives(run, source);
  evicted_ = selector_->evict(run.cell);
  auto evidence = method_.traits().evicts() ? selector_->evidence(run.cell)
                                            : std::vector<selection::RowEvidence>();
  last_cut_.resize(evidence.size());
  for (std::size_t row = 0; row < evidence.size(); ++row)
    if (evidence[row].was_cut()) last_cut_[row] = Decision{layer_, chunk, std::move(evidence[row])};
  return run;
}

// What the sets of this cell come from.
void StageRuns::decide(CellRun& run, const std::optional<Cell>& source) {
  run.decided.resize(run.selection.rows.size());
  if (method_.traits().evicts()) {
    if (!last_cut_.empty()) run.decided = last_cut_;
    return;
  }
  if (run.selection.dense_reason) return;
  auto evidence = selector_->evidence(source ? *source : run.cell);
  for (std::size_t row = 0; row < evidence.size(); ++row)
    if (evidence[row].was_cut())
      run.decided[row] =
          Decision{source ? *source_layer_ : layer_, run.cell.chunk, std::move(evidence[row])};
}

std::vector<SelectedRow> StageRuns::rows_of(Changed& changed, const Cell& cell,
                                            const std::optional<Cell>& source) const {
  if (source) changed.selector->select(changed.seen(*source));
  return changed.selector->select(changed.seen(cell)).rows;
}

Alternative StageRuns::best_by_mass(const CellRun& run, const std::vector<float>& mass,
                                    Stage stage) const {
  Alternative best{stage, {}, "the keys of most true mass", {}, {}};
  const std::int64_t first = run.selection.first_candidate, count = run.selection.num_candidates;
  for (std::size_t row = 0; row < run.selection.rows.size(); ++row) {
    const auto kept = static_cast<std::int64_t>(run.selection.rows[row].positions.size());
    const std::int64_t budget =
        stage == Stage::Unit ? run.selection.budget_tokens.value_or(kept) : kept;
    const auto scores = std::span(mass).subspan(
        row * static_cast<std::size_t>(run.cell.kv_len()) + static_cast<std::size_t>(first),
        static_cast<std::size_t>(count));
    SelectedRow& positions = best.rows.emplace_back();
    for (const std::int32_t index : selection::keep_best(scores, budget).indices)
      positions.positions.push_back(static_cast<std::int32_t>(first) + index);
  }
  return best;
}

void StageRuns::add_alternatives(CellRun& run, const std::optional<Cell>& source) {
  for (const Stage stage : stages_) {
    if (stage == Stage::ReusedSet) {
      Alternative own = best_by_mass(run, cell_mass_and_lse(*source, method_.layout).mass, stage);
      own.change = fmt::format("the keys of most true mass in layer {}", *source_layer_);
      run.alternatives.push_back(std::move(own));
    }
    if (stage == Stage::Unit) run.alternatives.push_back(best_by_mass(run, run.mass, stage));
    for (Changed& changed : changes_) {
      if (changed.stage != stage) continue;
      std::vector<SelectedRow> rows = rows_of(changed, run.cell, source);
      if (stage != Stage::HeadMerge) {
        run.alternatives.push_back({stage, changed.spec, changed.change, std::move(rows), {}});
        continue;
      }
      // Each row of the answer is one query head's.
      const auto group = run.cell.gqa_group_size();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto index = static_cast<std::int64_t>(i);
        const std::int64_t head = changed.sight == Changed::Sight::HeadsApart ? index
                                  : changed.sight == Changed::Sight::OneOfEachGroup
                                      ? index * group + changed.head
                                      : changed.head;
        Alternative alone{stage, {}, fmt::format("query head {} alone", head), {}, {}};
        alone.q_head = static_cast<int>(head);
        alone.rows.resize(run.selection.rows.size());
        alone.rows[static_cast<std::size_t>(head / method_.layout.q_heads_per_row)] =
            std::move(rows[i]);
        run.alternatives.push_back(std::move(alone));
      }
    }
  }
}

std::vector<std::vector<std::int32_t>> StageRuns::sampled_rows(const Cell& cell) {
  return method_.traits().samples_rows ? selector_->sampled_rows(cell)
                                       : std::vector<std::vector<std::int32_t>>();
}

CellMass cell_mass_and_lse(const Cell& cell, const selection::RowLayout& layout) {
  std::vector<at::Tensor> mass, lse;
  for (std::int64_t head = 0; head < cell.num_q_heads();) {
    // All heads at once where rows are KV heads.
    const bool whole = layout.axis == trace::RowAxis::KvHead;
    const std::int64_t count = whole ? cell.num_q_heads() : layout.q_heads_per_row;
    const at::Tensor k = whole ? cell.k : cell.k.narrow(0, head / cell.gqa_group_size(), 1);
    const auto result =
        attention::chunk_mass(cell.q.narrow(0, head, count), k, cell.softmax.of_heads(head, count));
    mass.push_back(result.key_mass);
    lse.push_back(result.lse);
    head += count;
  }
  CellMass truth{selection::on_host<float>(at::cat(mass, 0)),
                 selection::on_host<float>(at::cat(lse, 0))};
  for (const float value : truth.mass)
    if (!std::isfinite(value))
      throw input_error(
          fmt::format("layer {}, chunk {} cannot be measured", cell.layer, cell.chunk),
          "products of its queries and keys are beyond single precision, so its attention is not "
          "known",
          "choose other layers or chunks");
  return truth;
}

}  // namespace kvloupe::replay
