// The analyses of the current selection as background jobs. A key names all that a result depends
// on.
#include "app/state/workspace.h"
#include "app/state/workspace_shared.h"
#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {
namespace {

constexpr int kMaxKeysInScatter = 1500;
constexpr int kAttentionMapSide = 1024;
constexpr std::size_t kLargeMapCells = 8'000'000;
constexpr int kGridRows = 1024;
constexpr int kGridCols = 2048;

char letter(Slot slot) { return slot == Slot::A ? 'a' : 'b'; }

// Runs in a job: reads a recorded run, or selects anew.
std::shared_ptr<const replay::ReplayResult> run_choice(
    const TraceSource& source, const MethodChoice& choice, const std::vector<int>& layers,
    std::optional<int> chunk, bool want_mass, bool want_error, const WorkContext& context) {
  if (choice.run >= 0)
    return std::make_shared<replay::ReplayResult>(
        source.recorded_run(choice.run, layers, chunk, want_mass, want_error, context));
  const replay::ReplayRequest request{
      selection::MethodSpec::parse(choice.spec).resolved(source.shape()),
      layers,
      chunk,
      {},
      want_mass,
      want_error};
  return std::make_shared<replay::ReplayResult>(source.replay(request, context));
}

}  // namespace

std::string Workspace::place_key() const {
  return fmt::format("{}|L{}", active_, selection().layer);
}

std::string Workspace::method_key(Slot slot) const {
  const MethodChoice& choice = selection().choice(slot);
  return fmt::format("{}#{}", choice.spec, choice.run);
}

Result<replay::ReplayResult> Workspace::replay_of(Slot slot, bool want_mass) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<replay::ReplayResult>("Open a trace");
  const MethodChoice choice = selection().choice(slot);
  if (choice.empty()) return empty_result<replay::ReplayResult>("Choose a method");
  const int layer = selection().layer;
  // The sets of a recorded run come first; what they are worth, later.
  return replays_.request(
      fmt::format("replay {} {}", letter(slot), want_mass ? "mass" : "sets"),
      fmt::format("{}|{}|{}", place_key(), method_key(slot), want_mass ? "mass" : "sets"),
      fmt::format("{} {} in layer {}", choice.run >= 0 ? "Reading" : "Selecting with",
                  choice.spec.substr(0, choice.spec.find(':')), layer),
      Lane::Compute,
      [source = tab->source, choice, layer, want_mass](const WorkContext& context) {
        return run_choice(*source, choice, {layer}, std::nullopt, want_mass, false, context);
      },
      want_mass && choice.run >= 0 ? ResultCache<replay::ReplayResult>::Pace::Patient
                                   : ResultCache<replay::ReplayResult>::Pace::Urgent);
}

Result<replay::ReplayResult> Workspace::replay_with_mass(Slot slot) {
  return replay_of(slot, true);
}

Result<replay::ReplayResult> Workspace::replay(Slot slot) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<replay::ReplayResult>("Open a trace");
  // A recorded run is read at once; its metrics take a moment longer.
  const bool quick = selection().choice(slot).run >= 0;
  if (!quick) return replay_of(slot, true);
  Result<replay::ReplayResult> sets = replay_of(slot, false);
  if (sets.state != ResultState::Ready) return sets;
  Result<replay::ReplayResult> full = replay_of(slot, true);
  return full.state == ResultState::Ready || full.state == ResultState::Error ? full : sets;
}

Result<KvMapResult> Workspace::kv_map(Slot slot) {
  const Result<replay::ReplayResult> source = replay(slot);
  const std::string channel = fmt::format("kv_map {}", letter(slot));
  if (source.state != ResultState::Ready)
    return kv_maps_.last(channel, waiting_for<KvMapResult>(source));
  const int row = row_of(*source);
  const bool has_recall =
      source.key.size() >= 4 && source.key.rfind("mass") == source.key.size() - 4;
  return kv_maps_.request(
      channel, fmt::format("{}|row{}", source.key, row), "Laying out the KV map", Lane::Compute,
      [replay = source.value, layer = selection().layer, row, num_tokens = info().num_tokens,
       has_recall](const WorkContext&) {
        auto result = std::make_shared<KvMapResult>();
        result->map = analysis::build_kv_map(*replay, layer, row, num_tokens);
        result->has_recall = has_recall;
        if (result->map.states.size() > kLargeMapCells)
          result->grid = analysis::reduce_kv_map(result->map, kGridRows, kGridCols);
        return result;
      });
}

Result<analysis::SelectedVsTrue> Workspace::selected_vs_true(Slot slot) {
  const Result<replay::ReplayResult> source = replay(slot);
  const std::string channel = fmt::format("verdicts {}", letter(slot));
  if (source.state != ResultState::Ready)
    return verdicts_.last(channel, waiting_for<analysis::SelectedVsTrue>(source));
  const int row = row_of(*source);
  const int layer = selection().layer;
  const int chunk = selection().chunk;
  if (source->find(layer, chunk) == nullptr)
    return empty_result<analysis::SelectedVsTrue>("This run has nothing for the chunk");
  return verdicts_.request(
      channel, fmt::format("{}|{}|c{}|row{}", place_key(), method_key(slot), chunk, row),
      "Ranking the keys by true attention mass", Lane::Compute,
      [replay = source.value, trace = ready()->source, layer, chunk, row](const WorkContext&) {
        return std::make_shared<analysis::SelectedVsTrue>(
            trace->selected_vs_true(*replay->find(layer, chunk), row, replay->q_heads_per_row));
      });
}

Result<std::vector<analysis::SpanFate>> Workspace::span_fate(Slot slot,
                                                             const trace::TokenSpan& span) {
  using Fates = std::vector<analysis::SpanFate>;
  const Result<replay::ReplayResult> source = replay(slot);
  const std::string channel = fmt::format("fate {}", letter(slot));
  if (source.state != ResultState::Ready) return fates_.last(channel, waiting_for<Fates>(source));
  return fates_.request(
      channel, fmt::format("{}|{}|{}-{}", place_key(), method_key(slot), span.begin, span.end),
      "Following the span through the chunks", Lane::Compute,
      [replay = source.value, trace = ready()->source, span](const WorkContext& context) {
        return std::make_shared<Fates>(trace->span_fate(*replay, span, context));
      },
      ResultCache<Fates>::Pace::Patient);
}

Result<analysis::QueryGeometry> Workspace::query_geometry() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::QueryGeometry>("Open a trace");
  const MethodChoice& choice = selection().choice(selection().shown);
  std::optional<selection::MethodSpec> method;
  if (!choice.empty())
    method = selection::MethodSpec::parse(choice.spec).resolved(tab->source->shape());
  const Selection& s = selection();
  return geometries_.request(
      "geometry",
      fmt::format("{}|c{}|h{}|{}", place_key(), s.chunk, s.q_head,
                  method ? method->canonical() : std::string()),
      "Fitting the principal components", Lane::Compute,
      [source = tab->source, layer = s.layer, chunk = s.chunk, q_head = s.q_head,
       method](const WorkContext& context) {
        return std::make_shared<analysis::QueryGeometry>(
            source->query_geometry(layer, chunk, q_head, method, kMaxKeysInScatter, context));
      });
}

MethodChoice Workspace::page_choice() const {
  const MethodChoice& shown = selection().choice(selection().shown);
  const auto shape = ready()->source->shape();
  std::string budget = default_spec(info().num_tokens);
  if (!shown.empty()) {
    const auto spec = selection::MethodSpec::parse(shown.spec);
    if (spec.traits().granularity == trace::Granularity::Page) return shown;
    if (spec.has_budget()) budget = shown.spec;
  }
  const auto source = selection::MethodSpec::parse(budget);
  const auto quest = selection::MethodSpec::parse(
      source.budget_tokens() > 0
          ? fmt::format("quest:budget_tokens={}", source.budget_tokens())
          : fmt::format("quest:budget_ratio={}", format_shortest(source.budget_ratio())));
  return {quest.resolved(shape).canonical(), -1};
}

Result<analysis::PageReport> Workspace::page_report() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::PageReport>("Open a trace");
  const MethodChoice choice = page_choice();
  const Selection& s = selection();
  const auto replay = replays_.request(
      "replay pages", fmt::format("{}|{}#{}|sets", place_key(), choice.spec, choice.run),
      fmt::format("Selecting pages in layer {}", s.layer), Lane::Compute,
      [source = tab->source, choice, layer = s.layer](const WorkContext& context) {
        return run_choice(*source, choice, {layer}, std::nullopt, false, false, context);
      });
  if (replay.state != ResultState::Ready)
    return page_reports_.last("pages", waiting_for<analysis::PageReport>(replay));
  if (replay->find(s.layer, s.chunk) == nullptr)
    return empty_result<analysis::PageReport>("This run has nothing for the chunk");
  return page_reports_.request(
      "pages", fmt::format("{}|c{}|h{}", replay.key, s.chunk, s.q_head), "Bounding the pages",
      Lane::Compute,
      [source = tab->source, cells = replay.value, layer = s.layer, chunk = s.chunk,
       q_head = s.q_head](const WorkContext& context) {
        const auto spec = selection::MethodSpec::parse(cells->method).resolved(source->shape());
        return std::make_shared<analysis::PageReport>(
            source->page_report(spec, *cells, layer, chunk, q_head, context));
      });
}

analysis::OverviewMetric Workspace::overview_metric() const {
  using analysis::OverviewMetric;
  const Selection& s = selection();
  const MethodChoice& choice = s.choice(s.shown);
  if (choice.empty() ||
      (s.metric != OverviewMetric::MassRecall && s.metric != OverviewMetric::TopkOverlap))
    return s.metric;
  return selection::MethodSpec::parse(choice.spec).traits().keeps_every_key()
             ? OverviewMetric::OutputError
             : s.metric;
}

Result<analysis::Overview> Workspace::overview() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::Overview>("Open a trace");
  const Selection& s = selection();
  const analysis::OverviewMetric metric = overview_metric();
  const int chunk = s.chunk;
  if (!analysis::needs_method(metric))
    return overviews_.request(
        "overview", fmt::format("{}|c{}|m{}", active_, chunk, static_cast<int>(metric)),
        fmt::format("Measuring {} in all heads", analysis::name_of(metric)), Lane::Compute,
        [source = tab->source, metric, chunk](const WorkContext& context) {
          return std::make_shared<analysis::Overview>(
              source->attention_overview(metric, chunk, context));
        },
        ResultCache<analysis::Overview>::Pace::Patient);
  const MethodChoice choice = s.choice(s.shown);
  if (choice.empty()) return empty_result<analysis::Overview>("Choose a method");
  const bool all = s.overview_all_chunks;
  return overviews_.request(
      "overview",
      fmt::format("{}|{}|c{}|m{}", active_, method_key(s.shown), all ? -1 : chunk,
                  static_cast<int>(metric)),
      fmt::format("Measuring {} in all layers", analysis::name_of(metric)), Lane::Compute,
      [source = tab->source, choice, metric, chunk, all](const WorkContext& context) {
        const bool want_error = metric == analysis::OverviewMetric::OutputError;
        const auto replay = run_choice(*source, choice, source->info().layers,
                                       all ? std::nullopt : std::optional<int>(chunk), !want_error,
                                       want_error, context);
        return std::make_shared<analysis::Overview>(
            analysis::overview_of_replay(*replay, metric, all ? -1 : chunk));
      },
      ResultCache<analysis::Overview>::Pace::Patient);
}

Result<analysis::Matrix> Workspace::attention_rows() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::Matrix>("Open a trace");
  const trace::ChunkInfo span = chunk();
  const Selection& s = selection();
  return rows_.request(
      "attention rows", fmt::format("{}|c{}|h{}", place_key(), s.chunk, s.q_head),
      "Recomputing the chunk's attention", Lane::Compute,
      [source = tab->source, layer = s.layer, q_head = s.q_head, span](const WorkContext& context) {
        return std::make_shared<analysis::Matrix>(
            source->attention_rows(layer, q_head, span.begin, span.end(), context));
      });
}

Result<analysis::Matrix> Workspace::attention_row(std::int32_t query) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::Matrix>("Open a trace");
  const Selection& s = selection();
  return rows_.request("attention row", fmt::format("{}|q{}|h{}", place_key(), query, s.q_head),
                       "Recomputing one query", Lane::Compute,
                       [source = tab->source, layer = s.layer, q_head = s.q_head,
                        query](const WorkContext& context) {
                         return std::make_shared<analysis::Matrix>(
                             source->attention_rows(layer, q_head, query, query + 1, context));
                       });
}

Result<analysis::AttentionMap> Workspace::attention_map() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::AttentionMap>("Open a trace");
  const Selection& s = selection();
  return maps_.request(
      "attention map", fmt::format("{}|h{}", place_key(), s.q_head),
      "Reducing the whole attention map", Lane::Compute,
      [source = tab->source, layer = s.layer, q_head = s.q_head](const WorkContext& context) {
        return std::make_shared<analysis::AttentionMap>(
            source->attention_map(layer, q_head, kAttentionMapSide, context));
      },
      ResultCache<analysis::AttentionMap>::Pace::Patient);
}

Result<replay::CompareRow> Workspace::run_summary(int run) {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<replay::CompareRow>("Open a trace");
  const int layer = selection().layer;
  return summaries_.request(
      fmt::format("summary {}", run), fmt::format("{}|run{}", place_key(), run),
      "Summing up the runs", Lane::Compute,
      [source = tab->source, run, layer](const WorkContext& context) {
        const auto replay = source->recorded_run(run, {layer}, std::nullopt, true, false, context);
        auto row = std::make_shared<replay::CompareRow>();
        for (const replay::CompareRow& candidate : source->summarise(replay))
          if (candidate.scope == "all" && candidate.phase == "prefill") *row = candidate;
        return row;
      },
      ResultCache<replay::CompareRow>::Pace::Patient);
}

bool Workspace::has_run_summary(int run) const {
  return ready() != nullptr && summaries_.has(fmt::format("{}|run{}", place_key(), run));
}

// --- latency
// -----------------------------------------------------------------------------------------

void Workspace::start_latency() {
  const TraceTab* tab = ready();
  if (tab == nullptr || selection().choice(selection().shown).empty()) return;
  const MethodChoice choice = selection().choice(selection().shown);
  std::uint64_t run = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    run = ++shared_->latency_run;
    shared_->latency = LatencyState{true, {}, std::nullopt, choice.spec};
  }
  const auto finish = [shared = shared_, run](const std::string& error) {
    const std::lock_guard lock(shared->mutex);
    if (shared->latency_run != run) return;
    shared->latency.running = false;
    shared->latency.error = error;
  };
  jobs_.submit<measure::LatencyReport>(
      Lane::Timing, "latency", "Measuring latency",
      [source = tab->source, choice, layer = selection().layer, chunk = selection().chunk,
       shared = shared_, run](const WorkContext& context) {
        const auto spec = selection::MethodSpec::parse(choice.spec).resolved(source->shape());
        const auto show = [&](const measure::LatencyReport& report) {
          const std::lock_guard lock(shared->mutex);
          if (shared->latency_run == run) shared->latency.report = report;
        };
        auto report = std::make_shared<measure::LatencyReport>(
            source->measure_latency(spec, layer, chunk, context, show));
        show(*report);
        return report;
      },
      [finish](std::shared_ptr<const measure::LatencyReport>) { finish({}); },
      [finish](const Error& error) { finish(error.what()); });
}

void Workspace::stop_latency() {
  jobs_.cancel("latency");
  const std::lock_guard lock(shared_->mutex);
  ++shared_->latency_run;
  shared_->latency.running = false;
}

LatencyState Workspace::latency() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->latency;
}

}  // namespace kvloupe::state
