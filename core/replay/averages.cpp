#include "core/replay/averages.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/replay/block_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <sstream>

namespace kvloupe::replay {

using selection::MethodSpec;

namespace {

constexpr std::array<Scope, 4> kScopes = {
    {{}, {.layer = true}, {.kv_head = true}, {.chunk = true}}};

constexpr std::array<Number, kRecallAt.size()> kRecallNumbers = {
    Number::RecallAt1, Number::RecallAt10, Number::RecallAt64};

struct RowCell {
  int layer = 0, kv_head = 0, chunk = 0;
  trace::Phase phase = trace::Phase::Prefill;
  std::int32_t queries = 0;
  bool dense = false, fallback = false;
  Numbers numbers;
};

struct Sums {
  std::int64_t cells = 0, fallback_cells = 0;
  std::array<double, kNumRowNumbers> sums{}, weights{};
};

double mean_error(const ReplayCell& cell, std::size_t row, int q_heads_per_row) {
  const auto heads = static_cast<std::size_t>(q_heads_per_row);
  double sum = 0;
  for (std::size_t head = row * heads; head < (row + 1) * heads; ++head)
    sum += cell.output_error[head];
  return sum / static_cast<double>(heads);
}

}  // namespace

std::string name_of(const Scope& scope) {
  std::vector<const char*> names;
  if (scope.layer) names.push_back("layer");
  if (scope.kv_head) names.push_back("kv_head");
  if (scope.chunk) names.push_back("chunk");
  return names.empty() ? "all" : fmt::format("{}", fmt::join(names, ","));
}

Scope parse_scope(const std::string& text) {
  Scope scope;
  std::stringstream words(text + ",");
  for (std::string word; std::getline(words, word, ',');) {
    bool* const part = word == "layer"     ? &scope.layer
                       : word == "kv_head" ? &scope.kv_head
                       : word == "chunk"   ? &scope.chunk
                                           : nullptr;
    if (part == nullptr || *part)
      throw usage_error(fmt::format("'{}' is not a scope", printable(text)),
                        "a scope is layer, kv_head or chunk, or several of them, each once",
                        "write for example layer,kv_head");
    *part = true;
  }
  return scope;
}

class Averager::Cells {
 public:
  Cells(const std::optional<MethodSpec>& spec, int q_heads_per_row,
        const session::TraceSession& session, const Counted& counted)
      : q_heads_per_row_(q_heads_per_row),
        gqa_group_size_(session.info().model.gqa_group_size()),
        bytes_per_key_(static_cast<double>(bytes_per_key(spec, session.info()))),
        dtype_(session.info().dtype),
        counted_(counted) {
    for (const auto& [layer, softmax] : session.info().model.shaped_softmax)
      if (softmax.window > 0) windowed_.insert(layer);
    if (!spec) return;
    chooses_ = spec->traits().granularity != trace::Granularity::None;
    metadata_ = selection::metadata_of(*spec, session.shape());
    page_size_ = spec->traits().page_size;
  }

  void add(const ReplayCell& cell) {
    if (!counted_.has(cell)) return;
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      RowCell& added = cells_.emplace_back();
      added.layer = cell.layer;
      added.kv_head = static_cast<int>(row) * q_heads_per_row_ / gqa_group_size_;
      added.chunk = cell.chunk;
      added.phase = cell.span.phase;
      added.queries = cell.span.length;
      added.dense = cell.dense_reason.has_value();
      added.fallback = cell.dense_fallback();
      if (!added.dense) added.numbers = numbers_of(cell, row);
    }
  }

  std::optional<CellSet> cells(std::optional<trace::Phase> phase) const {
    if (!chooses_) return std::nullopt;
    CellSet cells;
    for (const RowCell& cell : cells_)
      if (!cell.dense && (!phase || cell.phase == *phase)) cells.emplace(cell.layer, cell.chunk);
    return cells;
  }

  std::int64_t all_cells(trace::Phase phase) const {
    return std::count_if(cells_.begin(), cells_.end(),
                         [&](const RowCell& cell) { return cell.phase == phase; });
  }

  std::uint64_t bytes() const { return sizeof(*this) + cells_.capacity() * sizeof(RowCell); }

  CompareRow overall(const ReplayResult& result, trace::Phase phase,
                     const RowOptions& options) const {
    Sums sums;
    for (const RowCell& cell : cells_)
      if (cell.phase == phase) enter(sums, cell, options);
    CompareRow row = row_of(result, phase, sums);
    row.scope = name_of(Scope());
    return row;
  }

  std::vector<CompareRow> rows(const ReplayResult& result, const RowOptions& options) const {
    std::vector<Scope> scopes(kScopes.begin(), kScopes.end());
    for (const Scope& scope : options.scopes)
      if (std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) scopes.push_back(scope);
    // By phase, then (place in scopes, indices), in the order of the rows.
    std::map<trace::Phase, std::map<std::pair<std::size_t, std::vector<int>>, Sums>> tables;
    tables[trace::Phase::Prefill][{0, {}}];  // stands even where no cell is averaged
    for (const RowCell& cell : cells_)
      for (std::size_t i = 0; i < scopes.size(); ++i)
        enter(tables[cell.phase][{i, indices_of(cell, scopes[i])}], cell, options);
    std::vector<CompareRow> rows;
    for (const auto& [phase, table] : tables)
      for (const auto& [place, sums] : table) {
        CompareRow& row = rows.emplace_back(row_of(result, phase, sums));
        row.scope = name_of(scopes[place.first]);
        if (place.second.size() == 1) row.index = place.second.front();
        if (place.second.size() > 1) row.grid = place.second;
      }
    return rows;
  }

 private:
  static std::vector<int> indices_of(const RowCell& cell, const Scope& scope) {
    std::vector<int> indices;
    if (scope.layer) indices.push_back(cell.layer);
    if (scope.kv_head) indices.push_back(cell.kv_head);
    if (scope.chunk) indices.push_back(cell.chunk);
    return indices;
  }

  static void enter(Sums& sums, const RowCell& cell, const RowOptions& options) {
    if (cell.fallback) ++sums.fallback_cells;
    if (cell.dense || (options.among && !options.among->contains({cell.layer, cell.chunk}))) return;
    const double weight = options.weights == Weights::Cells ? 1 : cell.queries;
    ++sums.cells;
    for (std::size_t i = 0; i < kNumRowNumbers; ++i) {
      const auto number = cell.numbers[kNumbers[i].number];
      if (!number) continue;
      sums.sums[i] += weight * *number;
      sums.weights[i] += weight;
    }
  }

  static CompareRow row_of(const ReplayResult& result, trace::Phase phase, const Sums& sums) {
    CompareRow row;
    row.method = result.method;
    row.run = result.run;
    row.phase = phase == trace::Phase::Prefill ? "prefill" : "decode";
    row.cells = sums.cells;
    row.fallback_cells = sums.fallback_cells;
    for (std::size_t i = 0; i < kNumRowNumbers; ++i)
      if (sums.weights[i] > 0) row.numbers.set(kNumbers[i].number, sums.sums[i] / sums.weights[i]);
    // Earlier versions did not record which keys were kept by rule.
    if (result.run && row.numbers[Number::Forced] == 0.0) row.numbers.set(Number::Forced, {});
    row.basis = result.basis;
    return row;
  }

  Numbers numbers_of(const ReplayCell& cell, std::size_t row) const {
    Numbers numbers;
    const trace::SelectedRow& kept = cell.rows[row];
    const auto past_end =
        std::lower_bound(kept.positions.begin(), kept.positions.end(), cell.span.begin);
    const auto kept_past = static_cast<double>(past_end - kept.positions.begin());
    if (cell.budget_tokens)
      numbers.set(Number::RequestedBudget, static_cast<double>(*cell.budget_tokens));
    numbers.set(Number::EffectiveBudget, static_cast<double>(kept.positions.size()));
    if (cell.lane_counts.empty() && !cell.metrics.empty()) {
      numbers.set(Number::MassRecall, cell.metrics[row].mass_recall);
      numbers.set(Number::TopkOverlap, cell.metrics[row].topk_overlap);
      numbers.set(Number::Gap, cell.metrics[row].gap);
      numbers.set(Number::VisibleRecall, cell.metrics[row].visible_recall);
      if (cell.span.phase == trace::Phase::Decode)
        for (std::size_t i = 0; i < kRecallAt.size(); ++i)
          numbers.set(kRecallNumbers[i], cell.metrics[row].recall_at[i]);
    }
    // Of masks it counts pairs, as add_densities() does.
    if (!cell.reads_masks)
      numbers.set(Number::Density,
                  kept_past / static_cast<double>(cell.span.begin - cell.first_candidate));
    numbers.set(Number::Forced, static_cast<double>(kept.forced.size()));
    numbers.set(Number::KvBytes, kept_past * bytes_per_key_);
    if (metadata_)
      numbers.set(Number::MetadataBytes,
                  metadata_bytes(*metadata_, page_size_, dtype_, cell.span.begin,
                                 past_end - kept.positions.begin()));
    if (!cell.output_error.empty())
      numbers.set(Number::OutputError, mean_error(cell, row, q_heads_per_row_));
    // Pairs are counted by blocks, of which a window hides parts: not known there.
    if (cell.blocks && !windowed_.contains(cell.layer)) add_densities(cell, row, numbers);
    if (counted_.watched && cell.span.end() > counted_.watched->from)
      numbers.set(Number::SpanKept, span_kept(cell, row, counted_.watched->keys));
    return numbers;
  }

  void add_densities(const ReplayCell& cell, std::size_t row, Numbers& numbers) const {
    const PairShares native =
        native_shares(*cell.blocks, static_cast<int>(row) * q_heads_per_row_, q_heads_per_row_);
    const PairShares set = shares_of_set(
        cell.blocks->grid, static_cast<std::int64_t>(cell.rows[row].positions.size()));
    numbers.set(Number::NativeDensity, native.past);
    numbers.set(Number::NativeDensityCausal, native.causal);
    numbers.set(Number::NativeDensityRectangle, native.rectangle);
    if (cell.reads_masks) numbers.set(Number::Density, native.past);
    numbers.set(Number::DensityCausal, cell.reads_masks ? native.causal : set.causal);
    numbers.set(Number::DensityRectangle, cell.reads_masks ? native.rectangle : set.rectangle);
  }

  int q_heads_per_row_;
  int gqa_group_size_;
  double bytes_per_key_;
  bool chooses_ = true;
  std::optional<selection::Metadata> metadata_;
  std::int64_t page_size_ = 0;
  trace::DType dtype_;
  Counted counted_;
  std::set<int> windowed_;  // layers
  std::vector<RowCell> cells_;
};

Averager::Averager(const std::optional<MethodSpec>& spec, int q_heads_per_row,
                   const session::TraceSession& session, const Counted& counted)
    : cells_(std::make_unique<Cells>(spec, q_heads_per_row, session, counted)) {}
Averager::~Averager() = default;
Averager::Averager(Averager&&) noexcept = default;
Averager& Averager::operator=(Averager&&) noexcept = default;

void Averager::add(const ReplayCell& cell) { cells_->add(cell); }

std::optional<CellSet> Averager::cells() const { return cells_->cells({}); }
std::optional<CellSet> Averager::cells(trace::Phase phase) const { return cells_->cells(phase); }
std::int64_t Averager::all_cells(trace::Phase phase) const { return cells_->all_cells(phase); }
std::uint64_t Averager::bytes() const { return cells_->bytes(); }

std::vector<CompareRow> Averager::rows(const ReplayResult& result,
                                       const RowOptions& options) const {
  return cells_->rows(result, options);
}

CompareRow Averager::overall(const ReplayResult& result, trace::Phase phase,
                             const RowOptions& options) const {
  return cells_->overall(result, phase, options);
}

std::vector<CompareRow> summarise(const ReplayResult& result, const session::TraceSession& session,
                                  const Counted& counted) {
  Averager averager(result.spec, result.q_heads_per_row, session, counted);
  for (const ReplayCell& cell : result.cells) averager.add(cell);
  return averager.rows(result);
}

}  // namespace kvloupe::replay
