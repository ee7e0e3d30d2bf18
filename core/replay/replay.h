// Re-selects with a method on the stored Q and K (open loop) and measures what it keeps.
// mass_recall: sum of M over the selected / over the candidates, M[j] the dense attention that key j
// receives from the chunk's queries and the row's heads. topk_overlap: |selected and O| / |selected|,
// O the |selected| candidates of largest M. gap: the mass_recall of O less that of the selected.
// visible_recall: the mass of the selected and of the chunk's own keys / of all keys that the chunk
// sees. recall_at: the share that is selected of the kRecallAt candidates of largest M.
// output_error: ||O - O^|| / ||O|| of a query head. Where masks are read (CellRecord::reads_masks),
// recall and gap count the (query, past key) pairs that they let through.
#pragma once

#include "core/base/cancel.h"
#include "core/base/error.h"
#include "core/device/default_device.h"
#include "core/selection/blocks/blocks.h"
#include "core/selection/evidence.h"
#include "core/selection/spec/method_spec.h"
#include "core/session/session.h"
#include "core/trace/key_set.h"
#include "core/trace/runs/selection_record.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

inline constexpr std::array<std::int64_t, 3> kRecallAt = {1, 10, 64};

struct RowMetrics {
  double mass_recall = 1;
  double topk_overlap = 1;
  double gap = 0;
  // NaN with budget_scope=all, where each query sees its own key outside the set.
  double visible_recall = 1;
  std::array<double, kRecallAt.size()> recall_at = {1, 1, 1};  // computed in decode alone
  // Where a span was asked for: the share of its candidates that O holds, less that of the selected.
  double span_gap = 0;
};

// What was kept in one place, and what that is worth.
struct ReplayCell : trace::CellRecord {
  int layer = 0;
  int chunk = 0;
  trace::ChunkInfo span;
  std::vector<RowMetrics> metrics;   // per row; empty until measured
  std::vector<double> output_error;  // per query head; empty until measured
  // Lane methods, per query head: ||S - S^||_F / ||S||_F over the chunk's rows and their visible
  // keys, before softmax. Empty where it is not known: not asked for, or a recorded run whose basis
  // is not at hand.
  std::vector<double> score_error;
  // Where scores were asked for: of each row what was ranked, of an eviction that before the chunk; empty
  // where nothing was (selector.h). Block methods: what was compared, and with what.
  std::vector<selection::RowEvidence> evidence;
  selection::BlockTable<float> block_scores;
  std::vector<float> block_thresholds;
};

// The calibrated basis that a method used.
struct BasisNote {
  std::string source, hash;  // what text it was fitted on
  std::int64_t num_tokens = 0;
  bool leakage = false;  // text of this very trace
};

struct ReplayRequest {
  selection::MethodSpec spec;     // resolved
  std::vector<int> layers;        // empty: all captured
  std::vector<int> chunks;        // empty: all
  std::optional<int> chunk_size;  // re-chunks the trace (labelled open loop)
  bool want_mass = true;          // mass_recall, topk_overlap; score_error of lanes
  bool want_output_error = false;
  std::string device = device::kDefault;  // where it is selected and measured
  bool want_scores = false;               // ReplayCell::evidence, block_scores
};

struct ReplayResult {
  std::string method;  // canonical, or what a recorded run says
  // Resolved; empty for a recorded run of a method that this version does not know.
  std::optional<selection::MethodSpec> spec;
  std::optional<int> run;                            // its number, of a recorded run
  trace::LoopMode mode = trace::LoopMode::OpenLoop;  // how the selection was made
  trace::LoopMode source_mode = trace::LoopMode::OpenLoop;
  trace::RowAxis row_axis = trace::RowAxis::KvHead;
  int q_heads_per_row = 1;
  int block_size = 0;  // of block methods
  std::optional<BasisNote> basis;
  std::vector<std::string> notes;        // what could not be measured, one sentence each
  std::vector<trace::ChunkInfo> chunks;  // the chunking used
  std::vector<int> layers;
  std::vector<ReplayCell> cells;  // layer-major, chunk ascending
  // Eviction, last chunk asked for: [layer][row] alive at the end. Else empty.
  std::vector<std::vector<std::vector<std::int32_t>>> final_alive;
  // Eviction: [layer][row][T], chunk after which the key died, trace::kAlive if never. Else empty.
  std::vector<std::vector<std::vector<std::uint16_t>>> evict_chunk;

  const ReplayCell* find(int layer, int chunk) const;
};

// Throws Error{Input} for a method that this trace cannot serve (no such layer, no probe, no basis)
// and Error{Usage} for wrong arguments.
ReplayResult replay(const session::TraceSession& session, const ReplayRequest& request,
                    const WorkContext& context);

// Takes the cells of the method of this place in the list, layer-major, chunk ascending.
using CellSink = std::function<void(std::size_t method, ReplayCell&& cell)>;

// Several methods in one pass: every cell is read once, and what depends on it alone (its dense
// output, the mass of its keys) is computed once. `specs` are resolved and stand in for
// request.spec. The results hold all but their cells, which `sink` has had.
std::vector<ReplayResult> replay_methods(const session::TraceSession& session,
                                         const std::vector<selection::MethodSpec>& specs,
                                         const ReplayRequest& request, const CellSink& sink,
                                         const WorkContext& context);

// The error with which replay() would refuse the request; nothing if it would begin. Errors of the
// arguments are thrown.
std::optional<Error> why_unavailable(const session::TraceSession& session,
                                     const ReplayRequest& request, const WorkContext& context);

// Appends a whole replay (the trace's own chunks) to the trace's sidecar; gives the run's number.
// `spec` is resolved. Throws as trace::append_sidecar_run().
int save_run(const session::TraceSession& session, const selection::MethodSpec& spec,
             const ReplayResult& result);

// How a trace describes the run that a replay made.
trace::RunInfo run_info(const ReplayResult& result, const selection::MethodSpec& spec,
                        const selection::ModelShape& shape);

// The layers of a whole replay as a trace records them.
std::vector<trace::LayerRecord> layer_records(const ReplayResult& result);

// What to measure of a selection.
struct Wanted {
  bool mass = true;  // RowMetrics
  bool output_error = false;
  std::optional<trace::KeySet> span = {};  // RowMetrics::span_gap, with mass or alone
};

// Measures the sets of a replay that was made without: nothing is selected. Only the pruned queries
// of lane methods are no part of a record, so their output errors and score errors stay empty.
// An unknown method is measured as a plain one.
void add_metrics(const session::TraceSession& session, ReplayResult& result, const Wanted& wanted,
                 const WorkContext& context, const std::string& device = device::kDefault);

// A recorded run in the same form: what the trace says was selected. No layers: those that the run has.
// Reads, and needs no Torch.
ReplayResult read_run(const session::TraceSession& session, int run, const std::vector<int>& layers,
                      std::optional<int> chunk, const WorkContext& context);

// The same of some chunks (ascending; none: all), measured where asked for. The errors of lane methods
// are found by selecting anew.
ReplayResult recorded_run(const session::TraceSession& session, int run,
                          const std::vector<int>& layers, const std::vector<int>& chunks,
                          bool want_mass, bool want_output_error, const WorkContext& context,
                          const std::string& device = device::kDefault);

}  // namespace kvloupe::replay
