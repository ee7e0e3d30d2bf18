// Reads a trace file (FORMAT.md), complete or not, and the runs of its sidecar. Every file is taken
// for damaged or hostile: sizes and offsets are checked before anything is allocated.
#pragma once

#include "core/base/cancel.h"
#include "core/trace/capture_request.h"
#include "core/trace/fields/fields.h"
#include "core/trace/next_tokens.h"
#include "core/trace/runs/run_codec.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::trace {

enum class Stored { Q, K, V };

class TraceReader {
 public:
  // Throws Error{Input}: not a trace, newer major version, shapes that contradict each other.
  // Partial damage (a run that cannot be read, say) becomes info().warnings.
  // "T.h5.runs.h5" beside the file is read too when its hash matches.
  explicit TraceReader(const std::filesystem::path& path);
  ~TraceReader();
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;

  // All members may be called from any thread; calls are serialised inside.
  const TraceInfo& info() const;

  // What the capture was asked for; nothing where the file does not say.
  std::optional<CaptureRequest> capture_request() const;

  std::vector<std::int32_t> token_ids() const;  // [T]
  // Raw bytes of each token, [T]; one token may hold part of a UTF-8 character.
  std::vector<std::string> token_texts() const;

  // Rows [begin, end) of one head of q (query head) or k, v (KV head), as fp32 [end-begin,
  // head_dim] written to `out`. The values are the stored ones, widened. Throws Error{Input} for a
  // layer that was not captured, a range outside the chunks done, or queries that are not stored.
  void read_rows(Stored what, int layer, int head, std::int32_t begin, std::int32_t end,
                 float* out) const;
  bool has_stored(Stored what, int layer) const;
  bool has_lse(int layer) const;
  void read_lse(int layer, int q_head, std::int32_t begin, std::int32_t end, float* out) const;
  // Column mass of one prefill chunk, [num_kv_heads, begin+length]; nullopt when not recorded.
  std::optional<std::vector<float>> read_key_mass(int layer, int chunk) const;

  // Probe queries after one prefill chunk, fp32 [num_q_heads, probe_len, head_dim]; nullopt when
  // not recorded (decode chunks never are).
  std::optional<std::vector<float>> read_probe(int layer, int chunk) const;
  // All values of a field that stands alone (FieldInfo), of the tokens or chunks done; empty when none is
  // known. T is its element: float, std::int32_t.
  template <typename T>
  std::vector<T> read(Field field) const;

  // The most probable next tokens after each chunk, [C, kTopTokens]; empty when not recorded.
  TopTokens read_top_tokens() const;
  // Throws Error{Input} unless info().has_drift.
  Drift read_drift() const;

  bool has_run_layer(int run, int layer) const;
  // What the run kept in the layer, in all chunks or one: rows of dense cells list all of the past.
  // Throws Error{Input} when run or layer is absent or damaged.
  LayerRecord read_run(int run, int layer, std::optional<int> chunk = std::nullopt) const;
  // What the run's method gave the candidates of the chunk, [rows][candidates] by position, NaN where it
  // had nothing to say: empty for a run without scores, a row of it in dense cells. Throws as read_run().
  std::vector<std::vector<float>> read_run_scores(int run, int layer, int chunk) const;
  bool has_run_scores(int run, int layer) const;
  // The same as the file has it, for those who look at the file itself. Checked: no index in it
  // points outside.
  RunLayer read_run_layer(int run, int layer) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What a thorough look at a trace finds, one sentence each.
struct Validation {
  std::vector<std::string> defects;  // empty means sound; an incomplete trace is sound
  std::vector<std::string> notes;    // no defects: incomplete, cells that are not finite, ...
};
// Reads the whole file. Throws Error only when cancelled.
Validation check_trace(const std::filesystem::path& path, const WorkContext& context = {});
// The defects of check_trace.
std::vector<std::string> validate_trace(const std::filesystem::path& path);

}  // namespace kvloupe::trace
