// The state behind the window, without widgets: open traces, the one linked selection, and the
// analyses that panels ask for, computed as background jobs. One thread uses it; jobs capture
// values only.
#pragma once

#include "app/state/result_cache.h"
#include "app/state/selection.h"
#include "app/state/trace_source.h"
#include "core/base/jobs.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::state {

// A kv map with what the replay could tell at the time.
struct KvMapResult {
  analysis::KvMap map;
  analysis::KvMapGrid grid;  // of very large maps only, else empty
  bool has_recall = false;   // false: mass_recall is not computed yet
};

// What a view must say about the method it shows.
struct MethodFacts {
  MethodChoice choice;
  std::string id;
  trace::LoopMode mode = trace::LoopMode::OpenLoop;         // how the selection was made
  trace::LoopMode source_mode = trace::LoopMode::OpenLoop;  // how the model ran
  std::string scope;                                        // "past", "all"; empty without a budget
  std::optional<double> requested_budget;        // mean of B over the row's cells that selected
  std::optional<double> effective_budget;        // mean of |selected| over the same
  double forced = 0;                             // of those, kept by rule, mean
  std::uint64_t bytes = 0;                       // K and V of the kept keys as stored, mean
  int cells = 0;                                 // chunks of the row that selected
  int dense_cells = 0;                           // chunks that kept everything
  std::optional<trace::DenseReason> dense_here;  // of the current chunk
  std::int64_t ties_here = 0;                    // at the cut, of the current chunk
  std::optional<int> source_layer;               // whose set this layer reuses
  bool prunes_lanes = false;                     // drops lanes of the dot product
  bool evicts = false;                           // drops keys for good
  bool decode_dense = false;                     // decoded tokens see all keys left
  std::optional<replay::BasisNote> basis;        // that queries and keys are rotated by
  bool leakage = false;                          // the basis was fitted on text of this trace
};

// Why methods of the catalogue cannot be shown on a trace, by id.
using Unavailable = std::map<std::string, std::string>;

struct TraceTab {
  int id = 0;
  std::string path;
  ResultState state = ResultState::Loading;
  std::string error;
  TraceSourcePtr source;                 // when Ready
  std::vector<std::string> text;         // readable_text of each token
  std::vector<std::string> token_label;  // readable_token of each token
  Selection selection;
  SelectionHistory history;
};

struct LatencyState {
  bool running = false;
  std::string error;
  std::optional<measure::LatencyReport> report;
  std::string method;  // of the report
};

class Workspace {
 public:
  using Opener = std::function<TraceSourcePtr(const std::string& path, std::uint64_t memory_limit)>;
  explicit Workspace(std::uint64_t memory_limit = 0, Opener opener = open_trace);
  ~Workspace();

  // --- traces
  // Opens in the background, or shows it when it is open already. `position` is applied when it is
  // ready.
  void open(const std::string& path, std::optional<GotoTarget> position = std::nullopt);
  void close_active();
  void reload_active();  // keeps the place
  void activate(int tab_id);
  const std::vector<std::unique_ptr<TraceTab>>& tabs() const { return tabs_; }
  const TraceTab* active() const;
  // The active tab when its trace is ready.
  const TraceTab* ready() const;

  // --- selection; all setters clamp to what the trace holds
  const Selection& selection() const;
  // `kind` names the coordinate: repeated changes of one kind count as one step of history.
  void change(const std::string& kind, const std::function<void(Selection&)>& how);
  void set_chunk(int chunk);
  void step_chunk(int by);
  void set_layer(int layer);
  void step_layer(int by);  // along the captured layers
  void set_q_head(int q_head);
  void set_key_span(std::int32_t begin, std::int32_t end);
  void go_to(const GotoTarget& target);  // throws Error{Input} for a place that is not in the trace
  bool back();
  bool forward();
  bool can_go_back() const;
  bool can_go_forward() const;
  // Throws Error{Usage}. A SPEC equal to a recorded run's shows that run.
  void set_method(Slot slot, const std::string& spec);
  void set_run(Slot slot, int run);
  void swap_methods();
  static std::string default_spec(std::int32_t num_tokens);

  // --- derived from the selection
  const trace::TraceInfo& info() const;  // of the ready trace
  const trace::ChunkInfo& chunk() const;
  int kv_head() const;
  int row_of(const replay::ReplayResult& replay) const;
  std::string trace_name() const;

  // --- analyses of the current selection, asked for in every frame
  // All chunks of the current layer; without mass first where the run is recorded.
  Result<replay::ReplayResult> replay(Slot slot);
  Result<replay::ReplayResult> replay_with_mass(Slot slot);
  Result<KvMapResult> kv_map(Slot slot);
  Result<analysis::SelectedVsTrue> selected_vs_true(Slot slot);
  // The fate of the selected key span, or of the first needle span, in all chunks.
  Result<std::vector<analysis::SpanFate>> span_fate(Slot slot, const trace::TokenSpan& span);
  Result<analysis::QueryGeometry> query_geometry();
  Result<analysis::Overview> overview();
  // What overview() measures: the metric selected, but for methods that keep every key and cut
  // lanes, of which recall and overlap say nothing, the output error instead.
  analysis::OverviewMetric overview_metric() const;
  Result<analysis::Matrix> attention_rows();
  // All keys of one query, for exact values under the mouse.
  Result<analysis::Matrix> attention_row(std::int32_t query);
  Result<analysis::AttentionMap> attention_map();
  // The `all` row of one recorded run in the current layer.
  Result<replay::CompareRow> run_summary(int run);
  bool has_run_summary(int run) const;  // asked for already
  std::optional<MethodFacts> facts(Slot slot);
  // The lanes of the shown method, or of aqua with its defaults where that one drops keys only.
  Result<analysis::LaneReport> lane_report();
  // The pages of the shown method, or of quest with the same budget where that one has none.
  Result<analysis::PageReport> page_report();
  // The method shown where it selects blocks, else compact_attention with its defaults.
  MethodChoice block_choice() const;
  // All chunks of the current layer under block_choice().
  Result<replay::ReplayResult> block_replay();
  // The queries that `window` of the selection means: half-open, ending with the chunk.
  std::pair<std::int32_t, std::int32_t> query_window() const;
  // Past keys of the chunk by the attention that the window gives them, over the KV head's group.
  Result<analysis::ReceivedRankings> received_rankings();
  // Of all methods with their default parameters; asked once a trace.
  Result<Unavailable> unavailable();
  // The needle span of the trace, if it has one; the selected span comes first.
  std::optional<trace::TokenSpan> watched_span() const;

  // --- latency
  void start_latency();
  void stop_latency();
  LatencyState latency() const;

  // --- jobs
  JobSystem& jobs() { return jobs_; }
  // Delivers results; once a frame. Returns how many.
  int publish();
  bool busy() const { return !jobs_.idle(); }
  // Called with a sentence that the user should see once.
  std::function<void(const std::string&, bool is_error)> on_message;
  // Called when a trace has been opened.
  std::function<void(const TraceTab&)> on_opened;

 private:
  struct Shared;
  struct OpenedTrace {
    TraceSourcePtr source;
    std::vector<std::string> text, token_label;
  };
  void show_opened(TraceTab& tab, const OpenedTrace& opened, const std::optional<Selection>& like,
                   const std::optional<GotoTarget>& position);
  TraceTab* find(int tab_id);
  TraceTab* mutable_ready();
  void clamp(Selection& selection, const TraceTab& tab) const;
  Selection initial_selection(const TraceTab& tab, const Selection* like) const;
  void apply_goto(Selection& selection, const TraceTab& tab, const GotoTarget& target) const;
  MethodChoice choice_from_spec(const std::string& spec, const TraceTab& tab) const;
  std::string method_key(Slot slot) const;
  std::string place_key() const;  // trace and layer
  Result<replay::ReplayResult> replay_of(Slot slot, bool want_mass);
  // The method shown where it selects pages, else quest.
  MethodChoice page_choice() const;

  std::uint64_t memory_limit_;
  Opener opener_;
  JobSystem jobs_;
  std::vector<std::unique_ptr<TraceTab>> tabs_;
  int active_ = -1;
  int next_id_ = 1;
  std::shared_ptr<Shared> shared_;  // what a timing job reports to

  ResultCache<replay::ReplayResult> replays_;
  ResultCache<KvMapResult> kv_maps_;
  ResultCache<analysis::SelectedVsTrue> verdicts_;
  ResultCache<std::vector<analysis::SpanFate>> fates_;
  ResultCache<analysis::QueryGeometry> geometries_;
  ResultCache<analysis::Overview> overviews_;
  ResultCache<analysis::Matrix> rows_;
  ResultCache<analysis::AttentionMap> maps_;
  ResultCache<replay::CompareRow> summaries_;
  ResultCache<analysis::LaneReport> lane_reports_;
  ResultCache<analysis::ReceivedRankings> rankings_;
  ResultCache<analysis::PageReport> page_reports_;
  ResultCache<Unavailable> unavailable_;
  ResultCache<TraceSourcePtr> opened_;
};

}  // namespace kvloupe::state
