// The analyses of an open TraceSession; see trace_source.h.
#include "app/state/trace_source.h"

#include "capture/run/calibrate.h"

namespace kvloupe::state {
namespace {

class SessionSource final : public TraceSource {
 public:
  SessionSource(const std::string& path, std::uint64_t memory_limit)
      : session_(path,
                 memory_limit == 0 ? session::TraceSession::kDefaultMemoryLimit : memory_limit) {
    session_.token_texts();  // read here, on the opening job, not in the first frame
  }

  const trace::TraceInfo& info() const override { return session_.info(); }
  const std::vector<std::string>& token_texts() const override { return session_.token_texts(); }
  selection::ModelShape shape() const override { return session_.shape(); }

  replay::ReplayResult replay(const replay::ReplayRequest& request,
                              const WorkContext& context) const override {
    capture::ensure_basis(request.spec, info().model, context);
    return replay::replay(session_, request, context);
  }
  replay::ReplayResult recorded_run(int run, const std::vector<int>& layers,
                                    std::optional<int> chunk, bool want_mass,
                                    bool want_output_error,
                                    const WorkContext& context) const override {
    return replay::recorded_run(session_, run, layers, chunk, want_mass, want_output_error,
                                context);
  }
  analysis::SelectedVsTrue selected_vs_true(const replay::ReplayCell& cell, int row,
                                            int q_heads_per_row) const override {
    return analysis::selected_vs_true(session_, cell, row, q_heads_per_row);
  }
  std::vector<analysis::SpanFate> span_fate(const replay::ReplayResult& result,
                                            const trace::TokenSpan& span,
                                            const WorkContext& context) const override {
    return analysis::span_fate(session_, result, span, context);
  }
  analysis::QueryGeometry query_geometry(int layer, int chunk, int q_head,
                                         const std::optional<selection::MethodSpec>& method,
                                         int max_keys, const WorkContext& context) const override {
    return analysis::query_geometry(session_, layer, chunk, q_head, 2, method, max_keys, context);
  }
  analysis::Overview attention_overview(analysis::OverviewMetric metric, int chunk,
                                        const WorkContext& context) const override {
    return analysis::overview_of_attention(session_, metric, chunk, context);
  }
  analysis::Matrix attention_rows(int layer, int q_head, std::int32_t begin, std::int32_t end,
                                  const WorkContext& context) const override {
    return analysis::attention_rows(session_, layer, q_head, begin, end, context);
  }
  analysis::AttentionMap attention_map(int layer, int q_head, int max_side,
                                       const WorkContext& context) const override {
    return analysis::attention_map(session_, layer, q_head, max_side, context);
  }
  analysis::LaneReport lane_report(const selection::MethodSpec& spec, int layer, int chunk,
                                   int kv_head, const WorkContext& context) const override {
    capture::ensure_basis(spec, info().model, context);
    return analysis::lane_report(session_, spec, layer, chunk, kv_head, context);
  }
  analysis::PageReport page_report(const selection::MethodSpec& spec,
                                   const replay::ReplayResult& replay, int layer, int chunk,
                                   int q_head, const WorkContext& context) const override {
    return analysis::page_report(session_, spec, replay, layer, chunk, q_head, context);
  }
  analysis::ReceivedRankings received_rankings(int layer, int first_q_head, int num_q_heads,
                                               std::int32_t query_begin, std::int32_t query_end,
                                               std::int32_t num_keys,
                                               const WorkContext& context) const override {
    return analysis::received_rankings(session_, layer, first_q_head, num_q_heads, query_begin,
                                       query_end, num_keys, context);
  }
  std::string why_unavailable(const selection::MethodSpec& spec,
                              const WorkContext& context) const override {
    if (capture::needs_calibration(spec, info().model)) return {};  // made when it is replayed
    const auto error = replay::why_unavailable(session_, {spec, {}, {}, {}, false, false}, context);
    return error ? error->what() : std::string();
  }
  std::vector<replay::CompareRow> summarise(const replay::ReplayResult& result) const override {
    return replay::summarise(result, session_);
  }
  measure::LatencyReport measure_latency(
      const selection::MethodSpec& spec, int layer, int chunk, const WorkContext& context,
      const std::function<void(const measure::LatencyReport&)>& on_sample) const override {
    capture::ensure_basis(spec, info().model, context);
    return measure::measure_latency(session_, spec, layer, chunk, measure::LatencyOptions{},
                                    context, on_sample);
  }

 private:
  session::TraceSession session_;
};

}  // namespace

TraceSourcePtr open_trace(const std::string& path, std::uint64_t memory_limit) {
  return std::make_shared<SessionSource>(path, memory_limit);
}

}  // namespace kvloupe::state
