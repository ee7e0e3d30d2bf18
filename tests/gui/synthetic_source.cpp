// See synthetic_source.h.
#include "tests/gui/synthetic_source.h"

#include "core/base/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>

namespace kvloupe::test {
namespace {

// A hash as a uniform number in [0,1): the same place always gives the same value.
double noise(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x =
      a * 0x9E3779B97F4A7C15ULL ^ b * 0xC2B2AE3D27D4EB4FULL ^ c * 0x165667B19E3779F9ULL;
  x ^= x >> 31;
  x *= 0xBF58476D1CE4E5B9ULL;
  x ^= x >> 29;
  return static_cast<double>(x >> 11) / static_cast<double>(1ULL << 53);
}

const char* const kWords[] = {" the",  " of",      " and",  " to",           " her",       " was",
                              " in",   " it",      " she",  " had",          " not",       " be",
                              ",",     ".",        " with", " his",          " very",      " could",
                              " Anne", " Captain", "\n",    " acquaintance", " sentiment", " been",
                              " all",  " which",   ";",     " would",        " they",      " must"};

}  // namespace

SyntheticSource::SyntheticSource(const SyntheticOptions& options) : options_(options) {
  info_.path = "synthetic.h5";
  info_.schema_version = "1.0";
  info_.producer = "tests";
  info_.complete = true;
  info_.model.name = "Synthetic-30L";
  info_.model.architecture = "llama";
  info_.model.num_layers = options.num_layers;
  info_.model.num_q_heads = options.num_q_heads;
  info_.model.num_kv_heads = options.num_kv_heads;
  info_.model.head_dim = options.head_dim;
  info_.model.softmax_scale = 0.25;
  info_.num_tokens = options.num_tokens;
  for (int begin = 0; begin < options.num_tokens; begin += options.chunk_size)
    info_.chunks.push_back(
        {begin, std::min(options.chunk_size, options.num_tokens - begin), trace::Phase::Prefill});
  info_.layers.resize(static_cast<std::size_t>(options.num_layers));
  std::iota(info_.layers.begin(), info_.layers.end(), 0);
  info_.spans = {{"needle", options.needle_begin, options.needle_end},
                 {"question", options.num_tokens - 40, options.num_tokens - 12}};
  for (const char* id : {"quoka", "streaming_llm"}) {
    const auto spec =
        selection::MethodSpec::parse(fmt::format("{}:budget_tokens=256", id)).resolved(shape());
    trace::RunInfo run;
    run.id = static_cast<int>(info_.runs.size());
    run.method = spec.canonical();
    run.state_action = spec.traits().state_action;
    info_.runs.push_back(std::move(run));
  }
  for (int t = 0; t < options.num_tokens; ++t)
    texts_.push_back(kWords[static_cast<std::size_t>(noise(1, t, 0) * 30)]);
  texts_[0] = "<|im_start|>";
  const char* needle[] = {"\n",       "One",  " of",     " the", " special", " magic",
                          " numbers", " for", " lively", "-",    "harbor",   " is",
                          ":",        " 7",   "3",       "9."};
  for (std::int32_t t = options.needle_begin; t < options.needle_end; ++t)
    texts_[static_cast<std::size_t>(t)] =
        needle[static_cast<std::size_t>(t - options.needle_begin) % 16];
  if (options.num_tokens > 50) texts_[40] = "\xE6";
}

void SyntheticSource::obey(const WorkContext& context) const {
  if (behaviour == Behaviour::Fail)
    throw input_error("the analysis failed", "it was told to", "tell it to answer");
  while (behaviour == Behaviour::Wait) {
    context.cancel.throw_if_cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

double SyntheticSource::attention(int layer, int q_head, std::int32_t query,
                                  std::int32_t key) const {
  if (key > query) return std::numeric_limits<double>::quiet_NaN();
  double weight = 0.0004 * std::pow(noise(layer * 31 + q_head, key, 7), 8) * 40;
  weight += 0.3 * std::exp(-(query - key) / 9.0);
  if (key == 0) weight += 0.35;
  const bool asks = query >= options_.num_tokens - 40;
  const bool retrieves = (layer + q_head) % 4 == 3;
  if (asks && retrieves && key >= options_.needle_begin && key < options_.needle_end)
    weight += 0.06 * noise(q_head, key, 11);
  return std::min(1.0, weight);
}

std::vector<double> SyntheticSource::mass(int layer, int kv_head, int chunk) const {
  const trace::ChunkInfo& span = info_.chunks[static_cast<std::size_t>(chunk)];
  std::vector<double> sums(static_cast<std::size_t>(span.end()), 0.0);
  const int group = info_.model.gqa_group_size();
  for (std::int32_t key = 0; key < span.end(); ++key)
    for (std::int32_t query = std::max(span.begin, key); query < span.end(); query += 8)
      sums[static_cast<std::size_t>(key)] +=
          attention(layer, kv_head * group, query, key) * 8 * group;
  return sums;
}

replay::ReplayResult SyntheticSource::select(const std::string& method,
                                             const std::vector<int>& layers,
                                             std::optional<int> only_chunk, bool want_error) const {
  const auto spec = selection::MethodSpec::parse(method);
  replay::ReplayResult result;
  result.method = method;
  result.q_heads_per_row = info_.model.gqa_group_size();
  result.chunks = info_.chunks;
  result.layers = layers.empty() ? info_.layers : layers;
  const bool positional = spec.id() == "streaming_llm" || spec.id() == "sliding_window";
  for (const int layer : result.layers)
    for (int chunk = 0; chunk < static_cast<int>(info_.chunks.size()); ++chunk) {
      if (only_chunk && *only_chunk != chunk) continue;
      replay::ReplayCell cell;
      cell.layer = layer;
      cell.chunk = chunk;
      cell.span = info_.chunks[static_cast<std::size_t>(chunk)];
      const std::int32_t past = cell.span.begin;
      if (spec.has_budget()) cell.budget_tokens = spec.budget(past);
      const auto budget = static_cast<std::int32_t>(
          std::min<std::int64_t>(cell.budget_tokens.value_or(past), past));
      if (past == 0) cell.dense_reason = trace::DenseReason::EmptyPast;
      if (past > 0 && past <= cell.budget_tokens.value_or(past))
        cell.dense_reason = trace::DenseReason::FitsBudget;
      for (int kv_head = 0; kv_head < options_.num_kv_heads; ++kv_head) {
        if (only_kept_key >= 0) {
          trace::SelectedRow row;
          if (only_kept_key < past) row.positions.push_back(only_kept_key);
          cell.rows.push_back(std::move(row));
          cell.metrics.emplace_back();
          continue;
        }
        const std::vector<double> truth = mass(layer, kv_head, chunk);
        std::vector<std::int32_t> order(static_cast<std::size_t>(past));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
          if (positional) return (a < 4 ? 1 << 30 : a) > (b < 4 ? 1 << 30 : b);
          return truth[static_cast<std::size_t>(a)] * (0.3 + noise(layer, a, kv_head)) >
                 truth[static_cast<std::size_t>(b)] * (0.3 + noise(layer, b, kv_head));
        });
        trace::SelectedRow row;
        row.positions.assign(order.begin(), order.begin() + (cell.dense_reason ? past : budget));
        std::sort(row.positions.begin(), row.positions.end());
        double kept = 0, all = 0;
        for (std::int32_t key = 0; key < past; ++key) all += truth[static_cast<std::size_t>(key)];
        for (const std::int32_t key : row.positions) kept += truth[static_cast<std::size_t>(key)];
        const double recall = all > 0 ? kept / all : 1;
        cell.metrics.push_back({recall, cell.dense_reason ? 1 : 0.5 * recall});
        cell.rows.push_back(std::move(row));
      }
      if (spec.traits().granularity == trace::Granularity::Block && past > 0)
        add_blocks(cell, result);
      if (want_error)
        for (int head = 0; head < options_.num_q_heads; ++head)
          cell.output_error.push_back(0.3 * noise(layer, head, 5));
      result.cells.push_back(std::move(cell));
    }
  if (spec.traits().evicts() && !only_chunk) add_deaths(result);
  return result;
}

// A key dies after the last chunk that it was alive in.
void SyntheticSource::add_deaths(replay::ReplayResult& result) const {
  const auto num_chunks = static_cast<int>(info_.chunks.size());
  for (std::size_t l = 0; l < result.layers.size(); ++l) {
    auto& rows = result.evict_chunk.emplace_back();
    for (std::size_t row = 0; row < static_cast<std::size_t>(options_.num_kv_heads); ++row) {
      auto& deaths =
          rows.emplace_back(static_cast<std::size_t>(options_.num_tokens), trace::kAlive);
      for (int chunk = num_chunks - 1; chunk > 0; --chunk) {
        const auto& cell =
            result
                .cells[l * static_cast<std::size_t>(num_chunks) + static_cast<std::size_t>(chunk)];
        const auto& alive = cell.rows[row].positions;
        for (std::int32_t key = 0; key < cell.span.begin; ++key)
          if (!std::binary_search(alive.begin(), alive.end(), key))
            deaths[static_cast<std::size_t>(key)] = static_cast<std::uint16_t>(chunk - 1);
      }
    }
  }
}

replay::ReplayResult SyntheticSource::replay(const replay::ReplayRequest& request,
                                             const WorkContext& context) const {
  obey(context);
  return select(request.spec.canonical(), request.layers, request.chunk, request.want_output_error);
}

replay::ReplayResult SyntheticSource::recorded_run(int run, const std::vector<int>& layers,
                                                   std::optional<int> chunk, bool,
                                                   bool want_output_error,
                                                   const WorkContext& context) const {
  obey(context);
  return select(info_.runs.at(static_cast<std::size_t>(run)).method, layers, chunk,
                want_output_error);
}

analysis::SelectedVsTrue SyntheticSource::selected_vs_true(const replay::ReplayCell& cell, int row,
                                                           int) const {
  obey({});
  analysis::SelectedVsTrue result;
  result.layer = cell.layer;
  result.chunk = cell.chunk;
  result.row = row;
  const std::vector<double> truth = mass(cell.layer, row, cell.chunk);
  const std::int32_t past = cell.span.begin;
  result.num_candidates = past;
  result.mass.assign(truth.begin(), truth.end());
  result.verdict.assign(static_cast<std::size_t>(past), analysis::KeyVerdict::Neither);
  const auto& selected = cell.rows[static_cast<std::size_t>(row)].positions;
  std::vector<std::int32_t> order(static_cast<std::size_t>(past));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return truth[static_cast<std::size_t>(a)] > truth[static_cast<std::size_t>(b)];
  });
  double all = 0, missed = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    const std::int32_t key = order[rank];
    const bool is_true = rank < selected.size();
    const bool is_selected = std::binary_search(selected.begin(), selected.end(), key);
    const auto verdict = is_true && is_selected ? analysis::KeyVerdict::Hit
                         : is_true              ? analysis::KeyVerdict::Miss
                         : is_selected          ? analysis::KeyVerdict::Waste
                                                : analysis::KeyVerdict::Neither;
    result.verdict[static_cast<std::size_t>(key)] = verdict;
    result.hits += verdict == analysis::KeyVerdict::Hit;
    result.misses += verdict == analysis::KeyVerdict::Miss;
    result.wastes += verdict == analysis::KeyVerdict::Waste;
    all += truth[static_cast<std::size_t>(key)];
    if (!is_selected) missed += truth[static_cast<std::size_t>(key)];
    result.by_true_rank.push_back(
        {key, truth[static_cast<std::size_t>(key)], static_cast<std::int32_t>(rank), verdict});
  }
  result.missed_mass = all > 0 ? missed / all : 0;
  result.mass_recall = 1 - result.missed_mass;
  result.topk_overlap =
      selected.empty() ? 1
                       : static_cast<double>(result.hits) / static_cast<double>(selected.size());
  return result;
}

std::vector<analysis::SpanFate> SyntheticSource::span_fate(const replay::ReplayResult& result,
                                                           const trace::TokenSpan& span,
                                                           const WorkContext& context) const {
  obey(context);
  std::vector<analysis::SpanFate> fates;
  for (const replay::ReplayCell& cell : result.cells)
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      analysis::SpanFate fate{cell.layer, cell.chunk, static_cast<int>(row), 0, 0, 0, -1};
      const auto verdict = selected_vs_true(cell, static_cast<int>(row), result.q_heads_per_row);
      double all = 0;
      for (std::int64_t key = 0; key < verdict.num_candidates; ++key)
        all += verdict.mass[static_cast<std::size_t>(key)];
      for (const analysis::KeyRank& key : verdict.by_true_rank) {
        if (key.position < span.begin || key.position >= span.end) continue;
        ++fate.total;
        fate.kept += std::binary_search(cell.rows[row].positions.begin(),
                                        cell.rows[row].positions.end(), key.position);
        fate.span_mass += key.mass / all;
        if (fate.best_true_rank < 0) fate.best_true_rank = key.true_rank;
      }
      fates.push_back(fate);
    }
  return fates;
}

analysis::QueryGeometry SyntheticSource::query_geometry(
    int layer, int chunk, int q_head, const std::optional<selection::MethodSpec>& method,
    int max_keys, const WorkContext& context) const {
  obey(context);
  analysis::QueryGeometry g;
  g.layer = layer;
  g.chunk = chunk;
  g.q_head = q_head;
  g.pca.components = 2;
  g.pca.explained = {0.46, 0.17};
  const trace::ChunkInfo& span = info_.chunks[static_cast<std::size_t>(chunk)];
  const auto gauss = [](std::uint64_t a, std::uint64_t b) {
    return std::sqrt(-2 * std::log(noise(a, b, 3) + 1e-9)) * std::cos(6.2832 * noise(a, b, 4));
  };
  for (std::int32_t t = 0; t < span.length; ++t) {
    const double away = std::pow(noise(t, q_head, 9), 3);
    g.queries.push_back({static_cast<float>(3 + 0.6 * gauss(t, 1) - 5 * away),
                         static_cast<float>(1 + 0.7 * gauss(t, 2) - 3 * away), 0});
    g.relevance.push_back(static_cast<float>(-0.95 + 1.1 * away));
    g.max_attention.push_back(
        static_cast<float>(std::clamp(0.08 + 0.8 * away + 0.06 * gauss(t, 5), 0.0, 1.0)));
  }
  std::vector<std::size_t> order(g.relevance.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return g.relevance[a] > g.relevance[b]; });
  if (method && method->traits().samples_rows) g.chosen.assign(order.size(), 0);
  for (std::size_t i = 0; i < g.chosen.size() && i < 16; ++i) g.chosen[order[i]] = 1;
  for (std::int32_t key = 0; key < span.end(); key += std::max(1, span.end() / max_keys)) {
    g.key_positions.push_back(key);
    g.keys.push_back({static_cast<float>(-2.2 + 0.9 * gauss(key, 6)),
                      static_cast<float>(-1 + 1.1 * gauss(key, 7)), 0});
  }
  if (!g.keys.empty()) g.keys[0] = {-6.5F, 4.0F, 0};
  g.mean_query = {2.0F, 0.5F, 0};
  g.pearson_r = 0.83;
  return g;
}

analysis::Overview SyntheticSource::attention_overview(analysis::OverviewMetric metric, int,
                                                       const WorkContext& context) const {
  obey(context);
  analysis::Overview o;
  o.metric = metric;
  o.layers = info_.layers;
  o.per_kv_head = false;
  o.values.rows = static_cast<std::int64_t>(o.layers.size());
  o.values.cols = options_.num_q_heads;
  for (std::int64_t l = 0; l < o.values.rows; ++l)
    for (std::int64_t h = 0; h < o.values.cols; ++h)
      o.values.values.push_back(static_cast<float>(metric == analysis::OverviewMetric::Entropy
                                                       ? 1 + 4 * noise(l, h, 2)
                                                       : -0.2 + 1.1 * noise(l, h, 3)));
  return o;
}

analysis::Matrix SyntheticSource::attention_rows(int layer, int q_head, std::int32_t begin,
                                                 std::int32_t end,
                                                 const WorkContext& context) const {
  obey(context);
  analysis::Matrix m{end - begin, end, {}};
  for (std::int32_t query = begin; query < end; ++query)
    for (std::int32_t key = 0; key < end; ++key)
      m.values.push_back(static_cast<float>(attention(layer, q_head, query, key)));
  return m;
}

analysis::AttentionMap SyntheticSource::attention_map(int layer, int q_head, int max_side,
                                                      const WorkContext& context) const {
  obey(context);
  analysis::AttentionMap map;
  map.layer = layer;
  map.q_head = q_head;
  while (options_.num_tokens / map.step > max_side / 2) map.step *= 2;
  const std::int64_t side = (options_.num_tokens + map.step - 1) / map.step;
  map.max = {side, side, {}};
  for (std::int64_t r = 0; r < side; ++r)
    for (std::int64_t c = 0; c < side; ++c)
      map.max.values.push_back(
          static_cast<float>(attention(layer, q_head, static_cast<std::int32_t>(r * map.step),
                                       static_cast<std::int32_t>(c * map.step))));
  map.mean = map.max;
  return map;
}

analysis::PageReport SyntheticSource::page_report(const selection::MethodSpec& spec,
                                                  const replay::ReplayResult& replay, int layer,
                                                  int chunk, int q_head,
                                                  const WorkContext& context) const {
  obey(context);
  using analysis::PageMove;
  using analysis::PageVerdict;
  analysis::PageReport r;
  r.method = replay.method;
  r.layer = layer;
  r.chunk = chunk;
  r.q_head = q_head;
  r.row = q_head / replay.q_heads_per_row;
  r.span = info_.chunks[static_cast<std::size_t>(chunk)];
  r.page_size = static_cast<int>(spec.integer("page_size"));
  for (std::int32_t begin = 0; begin < r.span.begin; begin += r.page_size) {
    analysis::PageScore page;
    page.begin = begin;
    page.end = std::min(begin + r.page_size, r.span.begin);
    page.best = static_cast<float>(4 * noise(begin, q_head, 31));
    page.bound = page.best + static_cast<float>(1 + 2 * noise(begin, layer, 32));
    page.verdict = page.end == r.span.begin ? PageVerdict::Forced
                                            : static_cast<PageVerdict>(begin / r.page_size % 4);
    if (page.verdict == PageVerdict::Forced && page.end != r.span.begin)
      page.verdict = PageVerdict::Neither;
    r.hits += page.verdict == PageVerdict::Hit;
    r.misses += page.verdict == PageVerdict::Miss;
    r.wastes += page.verdict == PageVerdict::Waste;
    r.forced += page.verdict == PageVerdict::Forced;
    r.pages.push_back(page);
  }
  for (std::size_t c = 1; c < info_.chunks.size(); ++c) {
    analysis::PageStep step;
    step.chunk = static_cast<int>(c);
    step.span = info_.chunks[c];
    for (std::int32_t begin = 0; begin < step.span.begin; begin += r.page_size) {
      step.moves.push_back(
          static_cast<PageMove>(static_cast<int>(5 * noise(begin, step.chunk, 33))));
      step.reselected += step.moves.back() == PageMove::Reselected;
      step.fresh += step.moves.back() == PageMove::New;
      step.taken += step.moves.back() >= PageMove::New;
    }
    if (c > 1) step.jaccard = noise(static_cast<int>(c), q_head, 34);
    r.steps.push_back(step);
  }
  return r;
}

analysis::LaneReport SyntheticSource::lane_report(const selection::MethodSpec& spec, int layer,
                                                  int chunk, int kv_head,
                                                  const WorkContext& context) const {
  obey(context);
  analysis::LaneReport r;
  r.method = spec.canonical();
  r.twin = spec.id() == "static_slicing" ? "aqua" : "static_slicing";
  r.basis = {"this trace", "abc", options_.num_tokens, true};
  r.layer = layer;
  r.chunk = chunk;
  r.kv_head = kv_head;
  r.span = info_.chunks[static_cast<std::size_t>(chunk)];
  r.head_dim = options_.head_dim;
  r.num_q_heads = options_.num_q_heads;
  r.q_heads_per_kv_head = info_.model.gqa_group_size();
  r.stored_lanes = r.head_dim;
  r.kept_lanes = r.head_dim * 3 / 4;
  for (int head = 0; head < r.num_q_heads; ++head) {
    for (int lane = 0; lane < r.head_dim; ++lane)
      r.counts.push_back(static_cast<std::int32_t>(
          r.span.length * (1 - 0.9 * lane / r.head_dim * noise(head, lane, 21))));
    r.score_error.push_back(0.1 + 0.05 * noise(head, layer, 22));
    r.twin_score_error.push_back(0.2 + 0.1 * noise(head, layer, 23));
  }
  for (int k = 1; k <= r.head_dim; ++k) r.kept.push_back(k);
  const auto curve = [&](bool of_keys, int head, analysis::LaneChoice choice, double power) {
    std::vector<double> loss;
    for (const int k : r.kept)
      loss.push_back(std::pow(1 - static_cast<double>(k) / r.head_dim, power));
    return analysis::LossCurve{of_keys, head, choice, loss};
  };
  analysis::BasisLoss matched{true, r.basis, {}, {}};
  for (const bool of_keys : {true, false})
    for (int i = 0; i < (of_keys ? 1 : r.q_heads_per_kv_head); ++i) {
      const int head = of_keys ? -1 : kv_head * r.q_heads_per_kv_head + i;
      matched.curves.push_back(curve(of_keys, head, analysis::LaneChoice::Magnitude, 3));
      matched.curves.push_back(curve(of_keys, head, analysis::LaneChoice::Leading, 2));
    }
  for (int i = 0; i < r.q_heads_per_kv_head; ++i)
    matched.curves.push_back(
        curve(true, kv_head * r.q_heads_per_kv_head + i, analysis::LaneChoice::QueryLanes, 1.8));
  r.bases = {matched, {false, std::nullopt, "no basis of this model; run kvloupe calibrate", {}}};
  return r;
}

std::string SyntheticSource::why_unavailable(const selection::MethodSpec& spec,
                                             const WorkContext& context) const {
  obey(context);
  return spec.traits().needs_probe ? "it needs the probe, which this trace does not hold" : "";
}

std::vector<replay::CompareRow> SyntheticSource::summarise(
    const replay::ReplayResult& result) const {
  replay::CompareRow row;
  row.method = result.method;
  row.phase = "prefill";
  row.scope = "all";
  double recall = 0, kept = 0;
  for (const replay::ReplayCell& cell : result.cells) {
    if (cell.dense_reason) continue;
    for (std::size_t r = 0; r < cell.rows.size(); ++r) {
      ++row.cells;
      recall += cell.metrics[r].mass_recall;
      kept += static_cast<double>(cell.rows[r].positions.size());
    }
  }
  row.requested_budget = 256;
  if (row.cells > 0) {
    row.mass_recall = recall / static_cast<double>(row.cells);
    row.effective_budget = kept / static_cast<double>(row.cells);
  }
  return {row};
}

measure::LatencyReport SyntheticSource::measure_latency(
    const selection::MethodSpec& spec, int layer, int chunk, const WorkContext& context,
    const std::function<void(const measure::LatencyReport&)>& on_sample) const {
  obey(context);
  measure::LatencyReport r;
  r.method = spec.canonical();
  r.device = "cpu, 2 threads (synthetic)";
  r.dtype = "fp32";
  r.layer = layer;
  r.chunk = chunk;
  r.past_len = info_.chunks[static_cast<std::size_t>(chunk)].begin;
  r.chunk_len = info_.chunks[static_cast<std::size_t>(chunk)].length;
  r.select = {0.41, 0.39, 0.45, 15};
  r.gather = {0.12, 0.11, 0.14, 15};
  r.attend = {0.66, 0.63, 0.71, 15};
  r.total = {1.20, 1.15, 1.28, 15};
  r.dense = {4.9, 4.7, 5.4, 15};
  r.dense_variant = "heads folded into query rows";
  r.finished = true;
  on_sample(r);
  return r;
}

}  // namespace kvloupe::test
