// A small trace of random Q, K and V on disk, kept in memory too, with attention as plain
// double loops: what the analyses of one head are checked against.
#pragma once

#include "core/session/session.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace kvloupe::replay::testing {

struct SmallTraceShape {
  int num_layers = 2, num_q_heads = 4, num_kv_heads = 2, head_dim = 8;
  std::vector<int> chunk_lengths = {16, 16, 16, 5};
  bool store_lse = true;
  int decoded = 0;               // chunks of one token after the prompt
  std::vector<int> layers = {};  // captured; empty: all
  int probe_len = 0;        // queries of a probe after each prefill chunk, with novelty; 0: none
  float q_and_k_times = 1;  // a power of two
  int broken_key_at = -1;   // position where layer 1, KV head 1 holds a NaN key
  int window = 0;           // keys that a query sees, its own included; 0: all
  double softcap = 0;       // 0: none
  std::vector<float> sink_logits = {};     // [num_q_heads], or none
  trace::DType dtype = trace::DType::F32;  // F16: the file holds the numbers cut to halves
};

class SmallTrace {
 public:
  explicit SmallTrace(const SmallTraceShape& shape = {});
  ~SmallTrace();
  SmallTrace(const SmallTrace&) = delete;
  SmallTrace& operator=(const SmallTrace&) = delete;

  const session::TraceSession& session() const { return *session_; }
  const SmallTraceShape& shape() const { return shape_; }
  int num_tokens() const { return num_tokens_; }
  int gqa_group_size() const { return shape_.num_q_heads / shape_.num_kv_heads; }

  const float* query(int layer, int q_head, int position) const;
  const float* key(int layer, int kv_head, int position) const;
  const float* value(int layer, int kv_head, int position) const;
  // Of the probe after a prefill chunk.
  const float* probe_query(int layer, int chunk, int q_head, int row) const;
  const std::vector<float>& novelty() const { return novelty_; }
  // By the definition: the logit of one (query, key), whether it counts, and exp of a head's sink.
  double score(int layer, int q_head, int query, int key) const;
  bool sees(int query, int key) const;
  double sink_weight(int q_head) const;
  // p of one (query, key) by the definition; 0 above the diagonal and outside a window.
  double probability(int layer, int q_head, int query, int key) const;
  // M[j] of one KV head over the queries [begin, end), [end].
  std::vector<double> mass(int layer, int kv_head, int begin, int end) const;

 private:
  void write();

  SmallTraceShape shape_;
  int num_tokens_ = 0;
  std::vector<std::vector<float>> q_, k_, v_;  // [layer][heads, T, head_dim]
  std::vector<std::vector<float>> probe_;      // [layer][chunk, heads, probe_len, head_dim]
  std::vector<float> novelty_;                 // [T]
  std::filesystem::path folder_;
  session::SessionPtr session_;
};

// A basis file whose directions are the lanes themselves: q^ = q, so the lanes that a row keeps can
// be told from the row. Its path, beside the trace.
std::string write_plain_basis(const SmallTrace& trace, const std::string& source);

}  // namespace kvloupe::replay::testing
