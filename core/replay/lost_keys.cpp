#include "core/replay/lost_keys.h"

#include "core/base/error.h"
#include "core/replay/recorded_keys.h"
#include "core/replay/request_checks.h"
#include "core/replay/stage_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <tuple>

namespace kvloupe::replay {
namespace {

// One row of one layer, chunk after chunk.
class RowLosses {
 public:
  RowLosses(const LostKeysRequest& request, int layer, int row, std::int64_t num_tokens)
      : request_(request), layer_(layer), row_(row), streaks_(num_tokens) {}

  // Where the cell is not `counted` its keys are only followed.
  void add(const CellRun& run, const std::vector<Stage>& stages, int q_heads_per_row, bool counted,
           LostMass& sums) {
    const auto first = run.selection.first_candidate;
    const auto end = run.selection.end_of_candidates();
    const std::vector<std::uint8_t> causes = causes_of(run, stages, q_heads_per_row);
    const float* mass = run.mass_of(row_);
    double whole = 0;
    for (std::int64_t key = first; key < end; ++key) whole += static_cast<double>(mass[key]);
    for (std::int64_t key = first; key < end; ++key) {
      if (request_.span && !request_.span->keys.contains(key)) continue;
      const auto own = static_cast<double>(mass[key]);
      const std::uint8_t cause = causes[static_cast<std::size_t>(key - first)];
      follow(key, run.cell.chunk, cause != kKept, counted, own);
      if (!counted) continue;
      sums.whole += own;
      if (cause == kKept) continue;
      sums.lost += own;
      std::optional<Stage> known;
      if (cause != kUnknown) {
        sums.by_cause[cause] += own;
        known = static_cast<Stage>(cause);
      }
      if (own > 0)
        add({layer_, run.cell.chunk, row_, key, own, whole > 0 ? own / whole : 0, known},
            keys_[cause]);
    }
    sums.cells += counted;
  }

  void finish(LostKeys& result) {
    for (std::vector<LostKey>& keys : keys_) {
      const std::size_t count = std::min(keys.size(), request_.count);
      std::partial_sort(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count), keys.end(),
                        is_worse);
      result.keys.insert(result.keys.end(), keys.begin(),
                         keys.begin() + static_cast<std::ptrdiff_t>(count));
    }
    keep_all();
    const std::size_t count = std::min(regrets_.size(), request_.count);
    std::partial_sort(
        regrets_.begin(), regrets_.begin() + static_cast<std::ptrdiff_t>(count), regrets_.end(),
        [](const Regret& a, const Regret& b) { return a.mass_when_wanted > b.mass_when_wanted; });
    result.regrets.insert(result.regrets.end(), regrets_.begin(),
                          regrets_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  // The trace lacks the queries of a chunk that begins there. What was dropped in it is not known, but that its
  // own keys are first chosen from in the chunk after it.
  void skip_chunk(std::int64_t begin) {
    keep_all();
    gap_ = begin;
  }
  void end_gap() { gap_ = 0; }
  // A chunk that keeps every key.
  void keep_all() {
    for (std::size_t key = 0; key < streaks_.size(); ++key) close(static_cast<std::int64_t>(key));
  }

 private:
  static constexpr std::uint8_t kUnknown = kNumStages, kKept = kNumStages + 1;

  // For each candidate kKept, or the stage that lost it.
  std::vector<std::uint8_t> causes_of(const CellRun& run, const std::vector<Stage>& stages,
                                      int q_heads_per_row) const {
    const auto first = run.selection.first_candidate;
    std::uint8_t otherwise = kUnknown;
    if (!stages.empty())
      otherwise = static_cast<std::uint8_t>(stages.front() == Stage::Evicted ? Stage::Evicted
                                                                             : stages.back());
    std::vector<std::uint8_t> causes(static_cast<std::size_t>(run.selection.num_candidates),
                                     otherwise);
    const auto mark = [&](const trace::SelectedRow& row, std::uint8_t cause) {
      for (const std::int32_t key : row.positions)
        causes[static_cast<std::size_t>(key - first)] = cause;
    };
    // The first stage that keeps a key is written last.
    for (auto it = run.alternatives.rbegin(); it != run.alternatives.rend(); ++it)
      if (it->speaks_for(row_, q_heads_per_row))
        mark(it->rows[static_cast<std::size_t>(row_)], static_cast<std::uint8_t>(it->stage));
    mark(run.selection.rows[static_cast<std::size_t>(row_)], kKept);
    return causes;
  }

  // Of one row and cause.
  static bool is_worse(const LostKey& a, const LostKey& b) {
    return std::tuple(-a.mass, a.chunk, a.key) < std::tuple(-b.mass, b.chunk, b.key);
  }

  // In a long trace most keys are lost in most chunks: now and then those are let go that cannot be among the worst.
  void add(const LostKey& lost, std::vector<LostKey>& keys) const {
    constexpr std::size_t kRoom = 1024;
    keys.push_back(lost);
    if (keys.size() < 2 * request_.count + kRoom) return;
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(request_.count);
    std::nth_element(keys.begin(), end, keys.end(), is_worse);
    keys.erase(end, keys.end());
  }

  static constexpr int kNotYet = -1, kNotKnown = -2;

  // Chunks in a row in which the key was left out.
  struct Streak {
    int dropped = kNotYet, wanted = kNotYet;
    double when_dropped = 0, when_wanted = 0, lost = 0;
  };

  void follow(std::int64_t key, int chunk, bool lost, bool counted, double mass) {
    if (!lost) {
      close(key);
      return;
    }
    Streak& streak = streaks_[static_cast<std::size_t>(key)];
    streak.lost += mass;
    if (streak.dropped == kNotYet) {
      streak.dropped = key < gap_ ? kNotKnown : chunk;
      streak.when_dropped = mass;
    } else if (counted && (streak.wanted < 0 || mass > streak.when_wanted)) {
      streak.wanted = chunk;
      streak.when_wanted = mass;
    }
  }

  void close(std::int64_t key) {
    Streak& streak = streaks_[static_cast<std::size_t>(key)];
    if (streak.dropped >= 0 && streak.wanted >= 0 && streak.when_wanted > streak.when_dropped)
      regrets_.push_back({layer_, row_, key, streak.dropped, streak.wanted, streak.when_dropped,
                          streak.when_wanted, streak.lost});
    streak = {};
  }

  const LostKeysRequest& request_;
  int layer_, row_;
  std::vector<Streak> streaks_;
  std::int64_t gap_ = 0;  // of keys before it, what the chunk before did is not known
  std::array<std::vector<LostKey>, kNumStages + 1> keys_;  // by cause, last those without
  std::vector<Regret> regrets_;
};

// The cells of one layer, and what may have lost a key there.
struct LayerCells {
  std::vector<Stage> stages;
  std::function<CellRun(int chunk, bool wanted)> step;  // not wanted: for what comes after alone
};

LayerCells cells_of(const session::TraceSession& session, const LostKeysRequest& request, int layer,
                    const WorkContext& context) {
  if (request.method.known()) {
    auto runs =
        std::make_shared<StageRuns>(session, *request.method.spec, layer, request.device, context);
    return {runs->stages(), [runs](int chunk, bool wanted) {
              return runs->step(chunk, {.alternatives = wanted, .evidence = false, .mass = wanted});
            }};
  }
  const int run = request.method.run;
  auto cells = std::make_shared<RecordedRuns>(session, run, layer, request.device);
  return {cells->stages(), [cells](int chunk, bool) { return cells->step(chunk); }};
}

}  // namespace

LostKeys lost_keys(const session::TraceSession& session, const LostKeysRequest& request,
                   const WorkContext& context) {
  LostKeys result;
  result.method = request.method;
  result.span = request.span;
  result.layout = layout_of(request.method, session.info());
  result.layers = request.method.recorded()
                      ? checked_layers_of_run(session, request.method.run, request.layers)
                      : checked_layers(session.info(), request.layers);
  const std::vector<int> chunks =
      checked_chunks(session.info(), request.chunks, session.info().chunks.size());
  // What is evicted is decided by all chunks before.
  const bool needs_all = request.method.known() && request.method.spec->traits().evicts();
  std::vector<int> followed = chunks;
  if (request.regrets_from_all_chunks && !chunks.empty()) {
    followed = checked_chunks(session.info(), {}, session.info().chunks.size());
    std::erase_if(followed, [&](int chunk) { return chunk > chunks.back(); });
  }
  const int end = followed.empty() ? 0 : followed.back() + 1;
  if (needs_all)
    trace::require_queries(session.info(), end,
                           fmt::format("what {} lost is not known", request.method.spec->id()));
  const auto total = static_cast<std::int64_t>(result.layers.size()) * end;
  std::int64_t done = 0;
  for (const int layer : result.layers) {
    const LayerCells cells = cells_of(session, request, layer, context);
    LostMass& sums = result.by_layer.emplace_back();
    std::vector<RowLosses> rows;
    for (int row = 0; row < session.shape().num_q_heads / result.layout.q_heads_per_row; ++row)
      rows.emplace_back(request, layer, row, session.info().num_tokens);
    for (int chunk = 0; chunk < end; ++chunk) {
      context.cancel.throw_if_cancelled();
      context.report(++done, total, "looking for lost keys");
      const bool wanted = std::binary_search(followed.begin(), followed.end(), chunk);
      const bool counted = std::binary_search(chunks.begin(), chunks.end(), chunk);
      if (!session.info().has_queries(chunk))
        for (RowLosses& row : rows)
          row.skip_chunk(session.info().chunks[static_cast<std::size_t>(chunk)].begin);
      if (!wanted && !needs_all) continue;
      const CellRun run = cells.step(chunk, wanted);
      const bool may_lose = !request.method.known() || !cells.stages.empty();
      if (wanted && may_lose && run.selection.chooses_keys())
        for (RowLosses& row : rows)
          row.add(run, cells.stages, result.layout.q_heads_per_row, counted, sums);
      else if (wanted && run.selection.dense_reason)
        for (RowLosses& row : rows) row.keep_all();
      for (RowLosses& row : rows) row.end_gap();
    }
    for (RowLosses& row : rows) row.finish(result);
    result.all.add(sums);
  }
  std::stable_sort(result.keys.begin(), result.keys.end(),
                   [](const LostKey& a, const LostKey& b) { return a.mass > b.mass; });
  std::stable_sort(result.regrets.begin(), result.regrets.end(), [](const auto& a, const auto& b) {
    return a.mass_when_wanted > b.mass_when_wanted;
  });
  return result;
}

}  // namespace kvloupe::replay
