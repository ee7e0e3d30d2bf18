// The engine: everything that computes with Torch, one shared library beside the program (its modules are
// listed in the root's CMakeLists.txt). Starting Torch takes a quarter of a second, so the program is not
// linked to it: it asks for this table when it first computes. Reading a trace and the runs recorded in it,
// and what is known of methods, are in libkvloupe_core and do without.
#pragma once

#include "core/analysis/attention_map.h"
#include "core/analysis/budget_sweep.h"
#include "core/analysis/head_points.h"
#include "core/analysis/heavy_tail.h"
#include "core/analysis/lane_report.h"
#include "core/analysis/method_averages.h"
#include "core/analysis/overview.h"
#include "core/analysis/page_report.h"
#include "core/analysis/query_geometry.h"
#include "core/analysis/received_rankings.h"
#include "core/analysis/selected_vs_true.h"
#include "core/analysis/slot_scores.h"
#include "core/base/engine_library.h"
#include "core/calibration/gate_training.h"
#include "core/calibration/pattern_search.h"
#include "core/device/device.h"
#include "core/device/threads.h"
#include "core/measure/attention_bench.h"
#include "core/measure/block_execution_times.h"
#include "core/measure/latency.h"
#include "core/measure/paged_bench.h"
#include "core/measure/peaks.h"
#include "core/measure/timed_type.h"
#include "core/replay/block_metrics.h"
#include "core/replay/compare.h"
#include "core/replay/diff.h"
#include "core/replay/explain.h"
#include "core/replay/key_life.h"
#include "core/replay/lost_keys.h"
#include "core/replay/replay.h"
#include "core/replay/span_loss.h"
#include "core/replay/sweep.h"

namespace kvloupe {

// What the program calls. To call another function of core, add its line.
#define KVLOUPE_ENGINE(X)                                   \
  X(attention_map, analysis::attention_map)                 \
  X(attention_rows, analysis::attention_rows)               \
  X(attention_strip, analysis::attention_strip)             \
  X(average, analysis::average)                             \
  X(head_attention, analysis::head_attention)               \
  X(head_points, analysis::head_points)                     \
  X(heavy_tail, analysis::heavy_tail)                       \
  X(lane_report, analysis::lane_report)                     \
  X(overview_of_attention, analysis::overview_of_attention) \
  X(overview_of_merge, analysis::overview_of_merge)         \
  X(overview_of_replay, analysis::overview_of_replay)       \
  X(page_report, analysis::page_report)                     \
  X(query_geometry, analysis::query_geometry)               \
  X(received_rankings, analysis::received_rankings)         \
  X(selected_vs_true, analysis::selected_vs_true)           \
  X(slot_scores, analysis::slot_scores)                     \
  X(span_fate, analysis::span_fate)                         \
  X(span_gap_of_replay, analysis::span_gap_of_replay)       \
  X(sweep_pass, analysis::sweep_pass)                       \
  X(sweep_point_of_run, analysis::sweep_point_of_run)       \
  X(search_patterns, calibration::search_patterns)          \
  X(train_gate, calibration::train_gate)                    \
  X(available_memory, device::available_memory)             \
  X(list_devices, device::list_devices)                     \
  X(measure_peak_flops, device::measure_peak_flops)         \
  X(measure_read_bandwidth, device::measure_read_bandwidth) \
  X(multiplies, device::multiplies)                         \
  X(num_threads, device::num_threads)                       \
  X(open_device, device::open_device)                       \
  X(set_num_threads, device::set_num_threads)               \
  X(bench_attention, measure::bench_attention)              \
  X(bench_paged, measure::bench_paged)                      \
  X(measure_latency, measure::measure_latency)              \
  X(paged_bench_bytes, measure::paged_bench_bytes)          \
  X(peaks_of, measure::peaks_of)                            \
  X(time_block_executions, measure::time_block_executions)  \
  X(timed_type, measure::timed_type)                        \
  X(add_metrics, replay::add_metrics)                       \
  X(compare_methods, replay::compare_methods)               \
  X(compare_sweep, replay::compare_sweep)                   \
  X(diff_selections, replay::diff_selections)               \
  X(budget_of_span, replay::budget_of_span)                 \
  X(explain, replay::explain)                               \
  X(explain_recorded, replay::explain_recorded)             \
  X(head_choices, replay::head_choices)                     \
  X(key_life, replay::key_life)                             \
  X(lost_keys, replay::lost_keys)                           \
  X(recorded_run, replay::recorded_run)                     \
  X(replay, replay::replay)                                 \
  X(span_loss, replay::span_loss)                           \
  X(why_choice_unavailable, replay::why_choice_unavailable) \
  X(why_unavailable, replay::why_unavailable)               \
  X(block_metrics, replay::block_metrics)

struct Engine {
#define KVLOUPE_FIELD(field, function) decltype(&kvloupe::function) field;
  KVLOUPE_ENGINE(KVLOUPE_FIELD)
#undef KVLOUPE_FIELD
};

// Loads the engine where that was not done before; throws as load_engine().
inline const Engine& engine() {
  static const Engine& table = *static_cast<const Engine*>(engine_table("kvloupe_engine"));
  return table;
}

}  // namespace kvloupe
