// The rows of `kvloupe bench`, and the suites that measure them.
#pragma once

#include "core/base/cancel.h"
#include "core/base/compute_type.h"
#include "core/device/default_device.h"
#include "core/measure/attention_bench.h"
#include "core/measure/latency.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::bench {

enum class Goal { AtLeast, AtMost };
const char* name_of(Goal goal);  // "at_least", "at_most"

struct Row {
  std::string id = {};
  std::string meaning = {};  // one line for the table
  std::string unit = "x";
  std::optional<double> threshold = {};  // nothing: no goal is set for it
  Goal goal = Goal::AtLeast;
  std::optional<double> value = {};  // nothing: not measured, `reason` says why
  std::string reason = {};
  measure::LatencyStats time = {};  // of the side that is ours
  // Forms of dense attention that the value was not compared with; nothing in rows without dense attention.
  std::optional<std::vector<measure::DenseLeftOut>> dense_left_out = {};
  // What else was seen: numbers (in JSON keys of the row) and texts.
  std::vector<std::pair<std::string, double>> numbers = {};
  std::vector<std::pair<std::string, std::string>> details = {};

  std::optional<bool> holds() const;
};

struct Machine {
  std::string device;  // "cpu, 2 threads (...)"
  std::string name;    // of the processor, or the GPU
  int threads = 0;
  double read_bandwidth = 0;             // bytes a second, of the device
  double fp32_flops = 0;                 // a second, of a plain matrix product there
  ComputeType type = ComputeType::Fp32;  // in which attention is measured
  std::string version;                   // of kvloupe
};

// What a suite is given: it adds each row as soon as it is measured.
struct SuiteRun {
  std::string device = device::kDefault;  // as device::open_device() takes it
  Machine machine;
  std::string trace;   // that the window is measured on; empty: one of 8k tokens is captured
  bool peers = false;  // measure Python peers too; they are installed when they are missing
  std::function<void(Row)> add;
  WorkContext context;

  // Counts the suite's steps; Cancelled comes from here.
  void step(std::size_t done, std::size_t total, const std::string& what) const;
  bool on_processor() const { return device == device::kCpu; }
  // A goal of the contract: they are set for the processor.
  std::optional<double> goal(double threshold) const {
    return on_processor() ? std::optional(threshold) : std::nullopt;
  }
  // For what is measured inside a step: rounds would count on their own.
  WorkContext quiet() const { return {context.cancel, {}}; }
};

struct Suite {
  const char* name;
  const char* summary;
  void (*run)(SuiteRun&);
  bool on_gpu = false;       // it runs on CUDA devices too
  bool takes_trace = false;  // --trace
};
// Contract first: it is the default.
std::span<const Suite> suites();

// The suites, each in a file of that name.
void run_contract_suite(SuiteRun& run);
void run_paged_suite(SuiteRun& run);
void run_prefill_suite(SuiteRun& run);
void run_lengths_suite(SuiteRun& run);
void run_window_suite(SuiteRun& run);

Machine describe_machine(const std::string& device);
std::string stats_text(const measure::LatencyStats& stats);  // "12.30 ms (12.10 to 12.50)"
// What a row says where what it measures failed alone, as where that has no memory: the sentence. Throws on what the
// rows after it would fail by, too (core/measure/failure_of_one.h). In a handler of `thrown` only.
std::string reason_of(const std::exception& thrown);
// Fills in what dense attention beside a method showed, or why nothing was measured.
void set_measured(Row& row, const measure::AttentionBench& bench);

// Why dense attention of such a chunk does not fit into the device's memory; empty where it does (paged_suite.cpp).
std::string why_too_large(std::int64_t past_len, std::int64_t chunk_len, const SuiteRun& run);

// The row paged_90 (paged_suite.cpp).
Row paged_90(const SuiteRun& run);

// The rows frame, open_s and memory (window_suite.cpp), on a trace of 8k tokens where none is named.
std::vector<Row> window_rows(const std::string& trace, const WorkContext& context);

}  // namespace kvloupe::bench
