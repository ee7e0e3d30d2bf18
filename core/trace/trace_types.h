// What a trace holds, as plain values. The file layout is in FORMAT.md beside this header.
#pragma once

#include "core/base/compute_type.h"
#include "core/base/error.h"
#include "core/base/softmax_form.h"
#include "core/trace/capture_speed.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::trace {

enum class Phase : std::uint8_t { Prefill = 0, Decode = 1 };
inline const char* name_of(Phase phase) { return phase == Phase::Decode ? "decode" : "prefill"; }
enum class DType { F16, F32 };
using kvloupe::ComputeType;
// How the model ran (a trace), or how a selection was made (a run).
enum class LoopMode { OpenLoop, ClosedLoop };
enum class RopePairing { Interleaved, HalfSplit };
enum class LayerType { Full, Sliding, Nope };
enum class RowAxis { KvHead, QHead, Subgroup };
enum class Granularity { Token, Page, Block, Lane, None };
enum class StateAction { Visibility, Eviction };

struct ModelInfo {
  std::string name;
  std::string architecture;
  int num_layers = 0;
  int num_q_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int hidden_size = 0;
  double softmax_scale = 0;
  double rope_theta = 0;
  RopePairing rope_pairing = RopePairing::HalfSplit;
  std::string rope_scaling = "none";   // "none" or JSON
  std::string file_hash;               // sha256 of the model file, lower-case hex
  std::optional<ComputeType> compute;  // of weights and matrix products, where it is told
  std::vector<LayerType> layer_types;  // [num_layers]
  // "0,3": numbers of the KV heads in the model, where the recording left some out; else empty.
  std::string kv_heads = {};
  // Layers whose softmax has a window, a softcap or a learned sink.
  std::map<int, SoftmaxForm> shaped_softmax = {};

  // Query heads that share one KV head.
  int gqa_group_size() const { return num_q_heads / num_kv_heads; }
  SoftmaxForm softmax_of(int layer) const;
  // Of type sliding, and nothing says how many keys its queries see: taken for all.
  bool lacks_window(int layer) const;
};

// Half-open token indices: needles, question, prefix, roles.
// One file of weights, as far as the traces say; where neither does, the same name counts.
inline bool same_model(const ModelInfo& a, const ModelInfo& b) {
  return a.file_hash == b.file_hash && (!a.file_hash.empty() || a.name == b.name);
}

struct TokenSpan {
  std::string name;
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

struct ChunkInfo {
  std::int32_t begin = 0;   // absolute position of the first token: the P keys before the chunk
  std::int32_t length = 0;  // queries in it
  Phase phase = Phase::Prefill;
  std::int32_t end() const { return begin + length; }
};

struct TokenRange {
  std::int32_t begin = 0, end = 0;
};

// What a run chooses among: the keys before the chunk, or the chunk's own too.
enum class BudgetScope { Past, All };
// How the masks of a block method become the row's keys.
enum class Lowering { Native, Union, Budget };

struct RunInfo {
  int id = 0;
  std::string method;  // canonical SPEC
  LoopMode mode = LoopMode::OpenLoop;
  RowAxis row_axis = RowAxis::KvHead;
  int q_heads_per_row = 1;
  Granularity granularity = Granularity::Token;
  StateAction state_action = StateAction::Visibility;
  bool decode_dense = false;  // decoded tokens attend to all keys left
  BudgetScope budget_scope = BudgetScope::Past;
  int block_size = 0;                   // of block methods, tokens; 0: no native masks are recorded
  Lowering lowering = Lowering::Union;  // of block methods
  bool block_tables = false;  // the tables of kept blocks that attention runs on are recorded too
  // The calibrated basis that a method rotated by; empty source without one.
  std::string basis_source, basis_hash;
  bool basis_leakage = false;  // fitted on text of this very trace
  bool from_sidecar = false;
};

// A key that never died, where deaths are counted by chunk.
inline constexpr std::uint16_t kAlive = 65535;

struct TraceInfo {
  std::string path;
  std::string schema_version;
  std::string producer;
  std::string created;
  bool complete = false;
  LoopMode mode = LoopMode::OpenLoop;
  DType dtype = DType::F16;
  ModelInfo model;
  std::int32_t num_tokens = 0;    // T: tokens of the chunks done
  std::vector<ChunkInfo> chunks;  // the chunks done
  // [C+1], where each chunk begins in q: a chunk has all of its queries there, or none. Empty: all have.
  std::vector<std::int64_t> query_offsets;
  std::vector<int> layers;  // captured, ascending
  std::vector<TokenSpan> spans;
  std::vector<std::int32_t> generated;  // sampled tokens, in order
  // Text and length of the probe whose queries were recorded after each prefill chunk; 0 when they
  // were not.
  std::string probe_text;
  int probe_len = 0;
  bool has_losses = false;            // -log P of every token
  bool has_drift = false;             // how far the closed loop is from the dense model
  std::optional<CaptureSpeed> speed;  // of the capture, where it ran through
  std::vector<RunInfo> runs;          // the trace's own, then the sidecar's
  std::uint64_t bytes = 0;            // file size
  std::vector<std::string> warnings;  // what could not be read, one sentence each

  int chunk_of_token(std::int32_t token_pos) const;  // -1 if none
  bool has_layer(int layer) const;
  // The run that a closed-loop model attended to; null of other traces, and where it cannot be read.
  const RunInfo* closed_loop_run() const;

  std::int64_t num_queries() const;  // rows of q
  bool has_queries(int chunk) const;
  std::vector<int> chunks_with_queries() const;
  // The tokens whose queries are stored, in whole ranges, ascending.
  std::vector<TokenRange> query_ranges() const;
  // After chunks were taken away at the end.
  void cut_query_offsets();
};

// Of what is asked of a chunk that has no queries.
Error lacks_queries(const TraceInfo& info, int chunk);
// Throws Error{Input} where one of the first chunks has none: `what` cannot be done, "h2o cannot be replayed".
void require_queries(const TraceInfo& info, int num_chunks, const std::string& what);
// Those of the chunks that have queries; where none has, all, so that who is asked for them refuses.
std::vector<int> with_queries(const TraceInfo& info, const std::vector<int>& chunks);
// "chunks 1, 3 to 5": those whose queries are stored.
std::string text_of_query_chunks(const TraceInfo& info);

}  // namespace kvloupe::trace
