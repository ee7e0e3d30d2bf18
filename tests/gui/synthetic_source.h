// A trace source made up in memory, for tests of the window: a small model, a planted needle that
// one method keeps and another loses, and switches to make any analysis wait or fail.
#pragma once

#include "app/state/trace_source.h"

#include <atomic>
#include <memory>
#include <string>

namespace kvloupe::test {

struct SyntheticOptions {
  int num_tokens = 2048;
  int chunk_size = 128;
  int num_layers = 30;
  int num_q_heads = 9;
  int num_kv_heads = 3;
  int head_dim = 16;
  std::int32_t needle_begin = 700, needle_end = 716;
};

class SyntheticSource final : public state::TraceSource {
 public:
  enum class Behaviour { Answer, Wait, Fail };
  explicit SyntheticSource(const SyntheticOptions& options = {});

  // Of all analyses from now on. Waiting ones end when they are cancelled.
  std::atomic<Behaviour> behaviour{Behaviour::Answer};
  // When set, every method keeps this key alone.
  std::atomic<std::int32_t> only_kept_key{-1};

  const trace::TraceInfo& info() const override { return info_; }
  const std::vector<std::string>& token_texts() const override { return texts_; }
  selection::ModelShape shape() const override { return selection::shape_of(info_.model); }

  replay::ReplayResult replay(const replay::ReplayRequest& request,
                              const WorkContext& context) const override;
  replay::ReplayResult recorded_run(int run, const std::vector<int>& layers,
                                    std::optional<int> chunk, bool want_mass,
                                    bool want_output_error,
                                    const WorkContext& context) const override;
  analysis::SelectedVsTrue selected_vs_true(const replay::ReplayCell& cell, int row,
                                            int q_heads_per_row) const override;
  std::vector<analysis::SpanFate> span_fate(const replay::ReplayResult& result,
                                            const trace::TokenSpan& span,
                                            const WorkContext& context) const override;
  analysis::QueryGeometry query_geometry(int layer, int chunk, int q_head,
                                         const std::optional<selection::MethodSpec>& method,
                                         int max_keys, const WorkContext& context) const override;
  analysis::Overview attention_overview(analysis::OverviewMetric metric, int chunk,
                                        const WorkContext& context) const override;
  analysis::Matrix attention_rows(int layer, int q_head, std::int32_t begin, std::int32_t end,
                                  const WorkContext& context) const override;
  analysis::AttentionMap attention_map(int layer, int q_head, int max_side,
                                       const WorkContext& context) const override;
  analysis::PageReport page_report(const selection::MethodSpec& spec,
                                   const replay::ReplayResult& replay, int layer, int chunk,
                                   int q_head, const WorkContext& context) const override;
  analysis::LaneReport lane_report(const selection::MethodSpec& spec, int layer, int chunk,
                                   int kv_head, const WorkContext& context) const override;
  analysis::ReceivedRankings received_rankings(int layer, int first_q_head, int num_q_heads,
                                               std::int32_t query_begin, std::int32_t query_end,
                                               std::int32_t num_keys,
                                               const WorkContext& context) const override;
  // Methods that need a probe, which this trace has none of.
  std::string why_unavailable(const selection::MethodSpec& spec,
                              const WorkContext& context) const override;
  std::vector<replay::CompareRow> summarise(const replay::ReplayResult& result) const override;
  measure::LatencyReport measure_latency(
      const selection::MethodSpec& spec, int layer, int chunk, const WorkContext& context,
      const std::function<void(const measure::LatencyReport&)>& on_sample) const override;

 private:
  void obey(const WorkContext& context) const;
  replay::ReplayResult select(const std::string& method, const std::vector<int>& layers,
                              std::optional<int> chunk, bool want_error) const;
  void add_blocks(replay::ReplayCell& cell, replay::ReplayResult& result) const;
  void add_deaths(replay::ReplayResult& result) const;
  // The row's true mass on the candidates [0, past) of a chunk.
  std::vector<double> mass(int layer, int kv_head, int chunk) const;
  double attention(int layer, int q_head, std::int32_t query, std::int32_t key) const;

  SyntheticOptions options_;
  trace::TraceInfo info_;
  std::vector<std::string> texts_;
};

}  // namespace kvloupe::test
