#include "core/replay/cell_metrics.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/selection/attend.h"
#include "core/selection/ranking.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace kvloupe::replay {
namespace {

// Relative Frobenius distance; 0 for two zero matrices.
double relative_error(const float* reference, const float* other, std::int64_t count) {
  double difference = 0;
  double size = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double a = static_cast<double>(reference[i]);
    const double delta = a - static_cast<double>(other[i]);
    difference += delta * delta;
    size += a * a;
  }
  return difference == 0 ? 0 : std::sqrt(difference) / std::sqrt(size);
}

// Stored values are finite, their products need not be.
Error overflow_error(const selection::Cell& cell, const char* head_kind, std::int64_t head) {
  return input_error(
      fmt::format("layer {}, {} head {}, chunk {} cannot be measured", cell.layer, head_kind, head,
                  cell.chunk),
      "products of its queries and keys are beyond single precision, so its attention is not known",
      "choose other layers or chunks");
}

}  // namespace

at::Tensor row_mass(const selection::Cell& cell, const selection::RowLayout& layout) {
  if (layout.axis == trace::RowAxis::KvHead) return session::cell_mass(cell);
  std::vector<at::Tensor> rows;
  for (std::int64_t row = 0; row < cell.num_q_heads() / layout.q_heads_per_row; ++row)
    rows.push_back(mass_of_row(cell, layout, row));
  return at::stack(rows, 0);
}

at::Tensor mass_of_row(const selection::Cell& cell, const selection::RowLayout& layout,
                       std::int64_t row) {
  const std::int64_t head = row * layout.q_heads_per_row;
  const auto q = cell.q.narrow(0, head, layout.q_heads_per_row);
  const auto k = cell.k.narrow(0, head / cell.gqa_group_size(), 1);
  const SoftmaxForm softmax = cell.softmax.of_heads(head, layout.q_heads_per_row);
  return attention::chunk_mass(q, k, softmax).key_mass.squeeze(0);
}

RowTruth::RowTruth(const float* mass, std::int64_t first_candidate, std::int64_t num_candidates,
                   std::int64_t num_visible, trace::Phase phase)
    : first_candidate_(first_candidate),
      mass_(mass + first_candidate),
      num_candidates_(num_candidates),
      phase_(phase),
      sees_more_(first_candidate + num_candidates < num_visible) {
  for (std::int64_t i = 0; i < num_candidates; ++i) whole_ += static_cast<double>(mass_[i]);
  for (std::int64_t i = first_candidate + num_candidates; i < num_visible; ++i)
    beyond_ += static_cast<double>(mass[i]);
}

const RowTruth::Best& RowTruth::best(std::int64_t count) {
  Best& best = best_[count];
  if (best.marks.empty()) {
    best.marks.resize(static_cast<std::size_t>(num_candidates_), 0);
    const auto kept =
        selection::keep_best(std::span(mass_, static_cast<std::size_t>(num_candidates_)), count);
    for (const std::int32_t index : kept.indices) {
      best.marks[static_cast<std::size_t>(index)] = 1;
      best.mass += static_cast<double>(mass_[index]);
    }
  }
  return best;
}

namespace {

RowMetrics shares_of(const RowTruth::Sums& sums) {
  RowMetrics metrics;
  if (sums.whole <= 0) return metrics;
  metrics.mass_recall = sums.kept / sums.whole;
  // Sums of the same masses in another order may differ in their last bits.
  metrics.gap = std::max(0.0, (sums.best - sums.kept) / sums.whole);
  return metrics;
}

}  // namespace

RowTruth::Sums RowTruth::sums(const std::vector<std::int32_t>& selected) {
  Sums sums;
  sums.whole = whole_;
  for (const std::int32_t position : selected)
    sums.kept += static_cast<double>(mass_[position - first_candidate_]);
  if (!selected.empty()) sums.best = best(static_cast<std::int64_t>(selected.size())).mass;
  return sums;
}

double RowTruth::share_of_best(std::int64_t count, const std::vector<std::int32_t>& selected) {
  const std::int64_t asked = std::min(count, num_candidates_);
  if (asked == 0) return 1;
  const Best& truth = best(asked);
  std::int64_t found = 0;
  for (const std::int32_t position : selected)
    found += truth.marks[static_cast<std::size_t>(position - first_candidate_)];
  return static_cast<double>(found) / static_cast<double>(asked);
}

double RowTruth::span_gap(const std::vector<std::int32_t>& selected, const trace::KeySet& span) {
  const Best& truth = best(static_cast<std::int64_t>(selected.size()));
  std::int64_t candidates = 0, best = 0;
  for (const std::int64_t key :
       span.positions_in(first_candidate_, first_candidate_ + num_candidates_)) {
    ++candidates;
    best += truth.marks[static_cast<std::size_t>(key - first_candidate_)];
  }
  if (candidates == 0) return 0;
  const auto kept = std::ranges::count_if(
      selected, [&](std::int32_t position) { return span.contains(position); });
  return static_cast<double>(best - kept) / static_cast<double>(candidates);
}

RowMetrics RowTruth::metrics(const std::vector<std::int32_t>& selected) {
  const Sums sums = this->sums(selected);
  RowMetrics metrics = shares_of(sums);
  metrics.visible_recall = sees_more_ ? (sums.kept + beyond_) / (whole_ + beyond_)
                                      : std::numeric_limits<double>::quiet_NaN();
  if (phase_ == trace::Phase::Decode)
    for (std::size_t i = 0; i < kRecallAt.size(); ++i)
      metrics.recall_at[i] = share_of_best(kRecallAt[i], selected);
  if (selected.empty()) return metrics;
  const Best& truth = best(static_cast<std::int64_t>(selected.size()));
  std::int64_t common = 0;
  for (const std::int32_t position : selected)
    common += truth.marks[static_cast<std::size_t>(position - first_candidate_)];
  metrics.topk_overlap = static_cast<double>(common) / static_cast<double>(selected.size());
  return metrics;
}

// Where mass is wanted as well, both come from one pass.
const at::Tensor& CellTruth::dense_output() {
  if (output_.defined()) return output_;
  auto& mass = mass_[{trace::RowAxis::KvHead, static_cast<int>(cell_.gqa_group_size())}];
  const bool with_mass = wanted_.mass && !mass.defined();
  auto dense =
      attention::dense_chunk_attention(cell_.q, cell_.k, cell_.v, cell_.softmax, with_mass);
  if (with_mass) mass = dense.key_mass.cpu();
  output_ = dense.output.cpu().contiguous();
  return output_;
}

const at::Tensor& CellTruth::mass(const selection::RowLayout& layout) {
  const bool per_kv_head = layout.axis == trace::RowAxis::KvHead;
  if (per_kv_head && wanted_.output_error) dense_output();
  at::Tensor& mass = mass_[{layout.axis, layout.q_heads_per_row}];
  if (!mass.defined()) mass = row_mass(cell_, layout).cpu();
  return mass;
}

RowTruth& CellTruth::row(const selection::RowLayout& layout, std::size_t row,
                         std::int64_t num_candidates) {
  const std::tuple key{layout.axis, layout.q_heads_per_row, row, num_candidates};
  const auto found = rows_.find(key);
  if (found != rows_.end()) return found->second;
  const at::Tensor& values = mass(layout);
  const float* of_row =
      values.const_data_ptr<float>() + static_cast<std::int64_t>(row) * values.stride(0);
  const RowTruth truth(of_row, cell_.first_candidate(), num_candidates, cell_.kv_len(),
                       cell_.phase);
  if (!truth.is_finite()) {
    const bool of_kv_head = layout.axis == trace::RowAxis::KvHead;
    throw overflow_error(
        cell_, of_kv_head ? "KV" : "query",
        static_cast<std::int64_t>(row) * (of_kv_head ? 1 : layout.q_heads_per_row));
  }
  return rows_.emplace(key, truth).first->second;
}

// A query block is a chunk of its own, with all before it as its past.
const at::Tensor& CellTruth::mass_by_query_block(const trace::BlockGrid& grid) {
  at::Tensor& mass = block_mass_[grid.block_size];
  if (mass.defined()) return mass;
  mass = at::empty({cell_.num_q_heads(), grid.num_query_blocks(), grid.past_len}, at::kFloat);
  for (std::int64_t head = 0; head < cell_.num_q_heads(); ++head)
    for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
      const std::int64_t begin = grid.row_begin(i), end = grid.row_end(i);
      const at::Tensor q = cell_.q.narrow(0, head, 1).narrow(1, begin, end - begin);
      const at::Tensor k =
          cell_.k.narrow(0, head / cell_.gqa_group_size(), 1).narrow(1, 0, grid.past_len + end);
      mass[head][i].copy_(attention::chunk_mass(q, k, cell_.softmax.of_heads(head, 1))
                              .key_mass[0]
                              .narrow(0, 0, grid.past_len));
    }
  return mass;
}

RowTruth::Sums CellTruth::sums_of_masks(const trace::BlockMasks& masks, std::int64_t q_head) {
  const trace::BlockGrid& grid = masks.grid;
  const at::Tensor& mass = mass_by_query_block(grid);
  RowTruth::Sums all;
  for (std::int64_t i = 0; i < grid.num_query_blocks(); ++i) {
    std::vector<std::int32_t> kept;
    const std::int64_t first = cell_.softmax.first_visible(grid.past_len + grid.row_begin(i));
    for (std::int64_t key = first; key < grid.past_len; ++key)
      if (masks.kept[masks.index(q_head, i, key / grid.block_size)] != 0)
        kept.push_back(static_cast<std::int32_t>(key));
    const float* of_block =
        mass.const_data_ptr<float>() + (q_head * grid.num_query_blocks() + i) * grid.past_len;
    const RowTruth::Sums sums =
        RowTruth(of_block, 0, grid.past_len, grid.past_len, cell_.phase).sums(kept);
    all.kept += sums.kept;
    all.best += sums.best;
    all.whole += sums.whole;
  }
  return all;
}

RowMetrics CellTruth::metrics(const selection::RowLayout& layout, const trace::CellRecord& record,
                              std::size_t row) {
  if (!record.reads_masks && record.keeps_every_key()) return {};
  RowTruth& truth = this->row(layout, row, record.num_candidates);
  const std::vector<std::int32_t>& selected = record.rows[row].positions;
  RowMetrics metrics;
  if (wanted_.mass) {
    metrics = truth.metrics(selected);
    if (record.reads_masks) {
      const double overlap = metrics.topk_overlap;
      metrics =
          shares_of(sums_of_masks(selection::masks_of(record), static_cast<std::int64_t>(row)));
      // Masks leave out keys of the chunk, too: how much of all that is seen, is not summed here.
      metrics.visible_recall = std::numeric_limits<double>::quiet_NaN();
      metrics.topk_overlap = overlap;
    }
  }
  if (wanted_.span) metrics.span_gap = truth.span_gap(selected, *wanted_.span);
  return metrics;
}

std::vector<double> CellTruth::output_errors(const at::Tensor& sparse) {
  const at::Tensor& dense = dense_output();
  const at::Tensor other = sparse.cpu().contiguous();
  KVLOUPE_CHECK(other.sizes() == dense.sizes());
  const std::int64_t per_head = dense.size(1) * dense.size(2);
  std::vector<double> errors;
  for (std::int64_t head = 0; head < dense.size(0); ++head)
    errors.push_back(relative_error(dense.const_data_ptr<float>() + head * per_head,
                                    other.const_data_ptr<float>() + head * per_head, per_head));
  for (std::size_t head = 0; head < errors.size(); ++head)
    if (std::isnan(errors[head]))
      throw overflow_error(cell_, "query", static_cast<std::int64_t>(head));
  return errors;
}

// sum over rows x and visible keys k of <x, k>^2 for each query head. All rows see the whole past,
// where the sum over keys is x (sum k k^T) x^T: no m x T matrix is needed.
std::vector<double> CellTruth::score_energy(const at::Tensor& queries) {
  const std::int64_t past = cell_.past_len, dim = cell_.k.size(2), tile = 4096;
  if (past_moments_.empty()) {
    for (std::int64_t g = 0; g < cell_.num_kv_heads(); ++g) {
      at::Tensor moments = at::zeros({dim, dim}, cell_.k.options().dtype(at::kDouble));
      for (std::int64_t begin = 0; begin < past; begin += tile) {
        const at::Tensor keys =
            cell_.k.select(0, g).narrow(0, begin, std::min(tile, past - begin)).to(at::kDouble);
        moments.addmm_(keys.t(), keys);
      }
      past_moments_.push_back(std::move(moments));
    }
  }
  std::vector<double> energy;
  for (std::int64_t head = 0; head < cell_.num_q_heads(); ++head) {
    const std::int64_t g = head / cell_.gqa_group_size();
    const at::Tensor rows = queries.select(0, head).to(at::kDouble);
    const at::Tensor own = cell_.k.select(0, g).narrow(0, past, cell_.chunk_len).to(at::kDouble);
    const at::Tensor over_past =
        (at::matmul(rows, past_moments_[static_cast<std::size_t>(g)]) * rows).sum();
    const at::Tensor over_chunk = at::matmul(rows, own.t()).tril().square().sum();
    energy.push_back((over_past + over_chunk).item<double>());
  }
  return energy;
}

// The plain definition, a tile of keys at a time: capped scores are not linear, and in a window each
// row has keys of its own.
double CellTruth::shaped_score_error(const at::Tensor& pruned, std::int64_t head) const {
  const SoftmaxForm& softmax = cell_.softmax;
  const auto scores_of = [&](const at::Tensor& rows, const at::Tensor& keys) {
    const at::Tensor s = at::matmul(rows.to(at::kDouble), keys.t()) * softmax.scale;
    return softmax.softcap > 0 ? (s / softmax.softcap).tanh() * softmax.softcap : s;
  };
  const at::Tensor keys = cell_.k.select(0, head / cell_.gqa_group_size());
  const auto positions = cell_.k.options().dtype(at::kLong);
  const at::Tensor last = at::arange(cell_.past_len, cell_.kv_len(), positions).unsqueeze(1);
  double lost = 0, whole = 0;
  for (std::int64_t begin = cell_.first_candidate(); begin < cell_.kv_len(); begin += 4096) {
    const std::int64_t count = std::min<std::int64_t>(4096, cell_.kv_len() - begin);
    const at::Tensor tile = keys.narrow(0, begin, count).to(at::kDouble);
    const at::Tensor position = at::arange(begin, begin + count, positions).unsqueeze(0);
    at::Tensor hidden = position > last;
    if (softmax.window > 0) hidden = hidden.logical_or(position <= last - softmax.window);
    const at::Tensor s = scores_of(cell_.q.select(0, head), tile).masked_fill(hidden, 0);
    const at::Tensor other = scores_of(pruned.select(0, head), tile).masked_fill(hidden, 0);
    lost += (s - other).square().sum().item<double>();
    whole += s.square().sum().item<double>();
  }
  return lost == 0 ? 0 : std::sqrt(lost / whole);
}

std::vector<double> CellTruth::score_errors(const at::Tensor& pruned) {
  if (cell_.softmax.window > 0 || cell_.softmax.softcap > 0) {
    std::vector<double> errors;
    for (std::int64_t head = 0; head < cell_.num_q_heads(); ++head)
      errors.push_back(shaped_score_error(pruned, head));
    return errors;
  }
  if (dense_energy_.empty()) dense_energy_ = score_energy(cell_.q);
  const std::vector<double> lost = score_energy(cell_.q.to(at::kDouble) - pruned.to(at::kDouble));
  std::vector<double> errors;
  for (std::size_t head = 0; head < lost.size(); ++head)
    errors.push_back(lost[head] <= 0 ? 0 : std::sqrt(lost[head] / dense_energy_[head]));
  return errors;
}

}  // namespace kvloupe::replay
