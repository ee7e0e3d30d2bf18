// Loaded before the program (LD_PRELOAD), gives times in place of the engine, so that nothing is measured.
// KVLOUPE_FAKE_TIMES says how each call for times goes, in turn: "ok", "memory" (a GPU has none for it) or "failure"
// (a GPU failed). All after its last word are ok.
#include "core/engine/engine.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvloupe {
namespace {

using measure::DenseLeftOut;

std::string next_word() {
  const char* text = std::getenv("KVLOUPE_FAKE_TIMES");
  static std::istringstream words(text == nullptr ? "" : text);
  std::string word;
  words >> word;
  return word;
}

void take_turn() {
  const std::string word = next_word();
  if (word == "memory")
    throw std::runtime_error("CUDA out of memory. Tried to allocate 40.00 GiB. GPU 0 has too few");
  if (word == "failure")
    throw std::runtime_error(
        "CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be");
}

measure::LatencyStats steady(double ms) { return {ms, ms, ms, 5}; }

std::vector<DenseLeftOut> left_out() { return {{"sdpa gqa", "the GPU has not enough memory"}}; }

// 21 times as fast as dense attention; its selection takes 6 ms.
measure::AttentionBench attention_times(const measure::AttentionBenchCase& what, int,
                                        const WorkContext&) {
  take_turn();
  measure::AttentionBench bench;
  bench.past_len = what.past_len;
  bench.method = what.method.id();
  bench.sparse = steady(2);
  bench.select = steady(6);
  bench.dense = steady(42);
  bench.dense_variant = "kvloupe";
  bench.dense_left_out = left_out();
  bench.past_key_numbers = 8.0 * 128 * static_cast<double>(what.past_len);
  bench.key_bytes = sizeof(float) * bench.past_key_numbers;
  return bench;
}

// 9 times as fast.
measure::PagedBench paged_times(std::int64_t past_len, std::int64_t chunk_len,
                                const std::vector<double>& sparsities, int, const std::string&,
                                const WorkContext&) {
  take_turn();
  measure::PagedBench bench;
  bench.past_len = past_len;
  bench.chunk_len = chunk_len;
  bench.dense = steady(9);
  bench.dense_variant = "kvloupe";
  bench.dense_left_out = left_out();
  for (const double sparsity : sparsities) {
    measure::PagedSide side;
    side.sparsity = sparsity;
    side.paged = side.gathered = side.block_sparse = steady(1);
    bench.sides.push_back(side);
  }
  return bench;
}

measure::LatencyReport latency_times(const session::TraceSession& session,
                                     const selection::MethodSpec& spec, int layer, int chunk,
                                     const measure::LatencyOptions& options, const WorkContext&,
                                     const std::function<void(const measure::LatencyReport&)>&) {
  take_turn();
  measure::LatencyReport report;
  report.method = spec.resolved(session.shape()).canonical();
  report.device = "cpu, 2 threads (none)";
  report.dtype = "fp32";
  report.layer = layer;
  report.chunk = chunk;
  report.past_len = options.past_len.value_or(100);
  report.select = report.gather = report.attend = steady(1);
  report.total = steady(2);
  report.dense = steady(4);
  report.dense_variant = "kvloupe";
  report.dense_left_out = left_out();
  report.finished = true;
  return report;
}

// 32,768 keys of 8 heads are read in 1 ms, and multiplied with 16 queries in 4.
constexpr measure::Peaks kPeaks{134.217728e9, 268.435456e9};
const measure::Peaks& peaks(const std::string&, ComputeType) { return kPeaks; }
double read_bandwidth() { return kPeaks.bytes_per_s; }
double peak_flops(ComputeType) { return kPeaks.flops_per_s; }
double plenty(const std::string&) { return 1e15; }

Engine with_times(const Engine& real) {
  Engine engine = real;
  engine.bench_attention = attention_times;
  engine.bench_paged = paged_times;
  engine.measure_latency = latency_times;
  engine.peaks_of = peaks;
  engine.measure_read_bandwidth = read_bandwidth;
  engine.measure_peak_flops = peak_flops;
  engine.available_memory = plenty;
  return engine;
}

}  // namespace

// In place of that of core/base/engine_library.h.
const void* engine_table(const char* name) {
  using EngineTable = const void* (*)(const char*);
  static const auto real =
      reinterpret_cast<EngineTable>(::dlsym(RTLD_NEXT, "_ZN7kvloupe12engine_tableEPKc"));
  const void* table = real(name);
  if (std::strcmp(name, "kvloupe_engine") != 0) return table;
  static const Engine engine = with_times(*static_cast<const Engine*>(table));
  return &engine;
}

}  // namespace kvloupe
