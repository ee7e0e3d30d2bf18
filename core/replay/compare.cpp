#include "core/replay/compare.h"

#include "core/replay/block_report.h"
#include "core/selection/selector.h"

#include <array>
#include <map>
#include <utility>

namespace kvloupe::replay {

using selection::MethodSpec;

namespace {

// A mean over what was added; empty when nothing was.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  std::optional<double> value() const {
    if (count_ == 0) return std::nullopt;
    return sum_ / static_cast<double>(count_);
  }

 private:
  double sum_ = 0;
  std::int64_t count_ = 0;
};

struct Averages {
  std::int64_t cells = 0;
  std::int64_t fallback_cells = 0;
  Mean requested_budget, effective_budget, mass_recall, topk_overlap, output_error, density;
  Mean forced, kv_bytes;
  Mean native_past, native_causal, native_rectangle, set_causal, set_rectangle;
};

// Of one row of a block method.
struct RowDensity {
  PairShares native, set;
};

double mean_error(const ReplayCell& cell, std::size_t row, int q_heads_per_row) {
  Mean mean;
  const std::size_t first = row * static_cast<std::size_t>(q_heads_per_row);
  for (std::size_t head = first; head < first + static_cast<std::size_t>(q_heads_per_row); ++head)
    mean.add(cell.output_error[head]);
  return mean.value().value_or(0);
}

constexpr std::array kScopes = {"all", "layer", "kv_head", "chunk"};

}  // namespace

class Averager::Tables {
 public:
  Tables(const std::optional<MethodSpec>& spec, int q_heads_per_row,
         const session::TraceSession& session)
      : q_heads_per_row_(q_heads_per_row),
        gqa_group_size_(session.info().model.gqa_group_size()),
        bytes_per_key_(static_cast<double>(bytes_per_key(spec, session.info()))) {
    tables_[trace::Phase::Prefill][{0, 0}];  // stands even where no cell is averaged
  }

  void add(const ReplayCell& cell) {
    Table& table = tables_[cell.span.phase];
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      const auto density = density_of(cell, row);
      const int kv_head = static_cast<int>(row) * q_heads_per_row_ / gqa_group_size_;
      const std::array indices = {0, cell.layer, kv_head, cell.chunk};
      for (int scope = 0; scope < static_cast<int>(kScopes.size()); ++scope)
        add_row(cell, row, density, table[{scope, indices[static_cast<std::size_t>(scope)]}]);
    }
  }

  std::vector<CompareRow> rows(const ReplayResult& result) const {
    std::vector<CompareRow> rows;
    for (const auto& [phase, table] : tables_) {
      for (const auto& [place, averages] : table) {
        CompareRow row;
        row.method = result.method;
        row.phase = phase == trace::Phase::Prefill ? "prefill" : "decode";
        row.scope = kScopes[static_cast<std::size_t>(place.first)];
        row.index = place.second;
        row.cells = averages.cells;
        row.fallback_cells = averages.fallback_cells;
        row.requested_budget = averages.requested_budget.value();
        row.effective_budget = averages.effective_budget.value();
        row.mass_recall = averages.mass_recall.value();
        row.topk_overlap = averages.topk_overlap.value();
        row.output_error = averages.output_error.value();
        row.density = averages.density.value();
        row.forced = averages.forced.value();
        row.kv_bytes = averages.kv_bytes.value();
        row.native_density = averages.native_past.value();
        row.native_density_causal = averages.native_causal.value();
        row.native_density_rectangle = averages.native_rectangle.value();
        row.density_causal = averages.set_causal.value();
        row.density_rectangle = averages.set_rectangle.value();
        row.basis = result.basis;
        rows.push_back(std::move(row));
      }
    }
    return rows;
  }

 private:
  // Averages by (place in kScopes, index), in the order of the rows.
  using Table = std::map<std::pair<int, int>, Averages>;

  std::optional<RowDensity> density_of(const ReplayCell& cell, std::size_t row) const {
    if (!cell.blocks) return std::nullopt;
    RowDensity density;
    density.native =
        native_shares(*cell.blocks, static_cast<int>(row) * q_heads_per_row_, q_heads_per_row_);
    density.set = shares_of_set(cell.blocks->grid,
                                static_cast<std::int64_t>(cell.rows[row].positions.size()));
    return density;
  }

  void add_row(const ReplayCell& cell, std::size_t row, const std::optional<RowDensity>& density,
               Averages& averages) const {
    if (cell.dense_fallback()) ++averages.fallback_cells;
    if (cell.dense_reason) return;
    ++averages.cells;
    const trace::SelectedRow& kept = cell.rows[row];
    const auto past_end =
        std::lower_bound(kept.positions.begin(), kept.positions.end(), cell.span.begin);
    const auto kept_past = static_cast<double>(past_end - kept.positions.begin());
    if (cell.budget_tokens) averages.requested_budget.add(static_cast<double>(*cell.budget_tokens));
    averages.effective_budget.add(static_cast<double>(kept.positions.size()));
    if (cell.lane_counts.empty() && !cell.metrics.empty()) {
      averages.mass_recall.add(cell.metrics[row].mass_recall);
      averages.topk_overlap.add(cell.metrics[row].topk_overlap);
    }
    averages.density.add(kept_past / static_cast<double>(cell.span.begin));
    averages.forced.add(static_cast<double>(kept.forced.size()));
    averages.kv_bytes.add(kept_past * bytes_per_key_);
    if (density) {
      averages.native_past.add(density->native.past);
      averages.native_causal.add(density->native.causal);
      averages.native_rectangle.add(density->native.rectangle);
      averages.set_causal.add(density->set.causal);
      averages.set_rectangle.add(density->set.rectangle);
    }
    if (!cell.output_error.empty())
      averages.output_error.add(mean_error(cell, row, q_heads_per_row_));
  }

  int q_heads_per_row_;
  int gqa_group_size_;
  double bytes_per_key_;
  std::map<trace::Phase, Table> tables_;
};

Averager::Averager(const std::optional<MethodSpec>& spec, int q_heads_per_row,
                   const session::TraceSession& session)
    : tables_(std::make_unique<Tables>(spec, q_heads_per_row, session)) {}
Averager::~Averager() = default;
Averager::Averager(Averager&&) noexcept = default;
Averager& Averager::operator=(Averager&&) noexcept = default;

void Averager::add(const ReplayCell& cell) { tables_->add(cell); }

std::vector<CompareRow> Averager::rows(const ReplayResult& result) const {
  return tables_->rows(result);
}

std::vector<CompareRow> summarise(const ReplayResult& result,
                                  const session::TraceSession& session) {
  Averager averager(result.spec, result.q_heads_per_row, session);
  for (const ReplayCell& cell : result.cells) averager.add(cell);
  return averager.rows(result);
}

Comparison compare_methods(const session::TraceSession& session,
                           const std::vector<MethodSpec>& specs, const ReplayRequest& request,
                           const WorkContext& context) {
  Comparison comparison;
  std::vector<MethodSpec> served;
  std::vector<Averager> averagers;
  for (const MethodSpec& given : specs) {
    ReplayRequest one = request;
    one.spec = given.resolved(session.shape());
    if (auto error = why_unavailable(session, one, context)) {
      comparison.unavailable.push_back({one.spec.canonical(), std::move(*error)});
      continue;
    }
    averagers.emplace_back(
        one.spec, selection::row_layout(one.spec, session.shape()).q_heads_per_row, session);
    served.push_back(std::move(one.spec));
  }
  if (served.empty()) throw comparison.unavailable.front().error;
  const auto results = replay_methods(
      session, served, request,
      [&](std::size_t method, ReplayCell&& cell) { averagers[method].add(cell); }, context);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto rows = averagers[i].rows(results[i]);
    comparison.rows.insert(comparison.rows.end(), rows.begin(), rows.end());
  }
  return comparison;
}

}  // namespace kvloupe::replay
