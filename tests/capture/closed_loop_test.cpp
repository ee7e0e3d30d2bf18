// A closed loop: what the model attends to is what the trace says, and it matters.
#include "capture/capture.h"
#include "capture/decoder.h"
#include "capture/model.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/capture_fixture.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::capture {
namespace {

using selection::MethodSpec;

TEST(Capture, ClosedLoopChangesWhatLaterLayersSee) {
  CaptureOptions options = tiny_options("a.h5");
  options.max_new_tokens = 0;
  capture_tiny(options);
  options.output = "b.h5";
  options.closed_loop = MethodSpec::parse("sliding_window:budget_tokens=8");
  capture_tiny(options);
  const trace::TraceReader open("a.h5"), closed("b.h5");
  // Layer 0 sees embeddings alone; of layer 1 the first chunk, which has no past, is the same.
  EXPECT_TRUE(at::equal(read_layer(open, 0).k, read_layer(closed, 0).k));
  const at::Tensor open_k = read_layer(open, 1).k, closed_k = read_layer(closed, 1).k;
  EXPECT_TRUE(at::equal(open_k.slice(1, 0, 64), closed_k.slice(1, 0, 64)));
  EXPECT_FALSE(at::allclose(open_k.slice(1, 64), closed_k.slice(1, 64), 1e-3, 1e-3));
}

TEST(Capture, ClosedLoopWithRoomForAllEqualsDense) {
  CaptureOptions options = tiny_options("dense.h5");
  capture_tiny(options);
  const trace::TraceReader dense("dense.h5");
  for (const char* spec : {"quoka:budget_tokens=1000", "snapkv:budget_tokens=1000",
                           "random:budget_tokens=1000,budget_scope=all", "dense"}) {
    options.output = "full.h5";
    options.closed_loop = MethodSpec::parse(spec);
    capture_tiny(options);
    const trace::TraceReader full("full.h5");
    EXPECT_EQ(full.info().generated, dense.info().generated) << spec;
    for (const int layer : {0, 1, 2}) {
      EXPECT_TRUE(at::equal(read_layer(full, layer).q, read_layer(dense, layer).q)) << spec;
      EXPECT_TRUE(at::equal(read_layer(full, layer).v, read_layer(dense, layer).v)) << spec;
    }
  }
}

// Keeps the queries that pass through another hook.
class RecordQueries final : public AttentionHook {
 public:
  explicit RecordQueries(AttentionHook& inner) : inner_(inner) {}

  at::Tensor attend(const AttentionCall& call) override {
    queries_.resize(std::max(queries_.size(), static_cast<std::size_t>(call.layer) + 1));
    queries_[static_cast<std::size_t>(call.layer)].push_back(call.q.clone());
    return inner_.attend(call);
  }
  at::Tensor of(int layer) const { return at::cat(queries_[static_cast<std::size_t>(layer)], 1); }

 private:
  AttentionHook& inner_;
  std::vector<std::vector<at::Tensor>> queries_;
};

// Attention in double over the sets that a trace's run 0 holds: past by the set, the chunk
// causally; in scope `all` the set, causally, and the query's own key.
class AttendToRecorded final : public AttentionHook {
 public:
  AttendToRecorded(const trace::TraceReader& reader, bool scope_all)
      : reader_(reader), scope_all_(scope_all) {}

  at::Tensor attend(const AttentionCall& call) override {
    if (!runs_.contains(call.layer)) runs_[call.layer] = reader_.read_run(0, call.layer);
    const trace::RunLayer& run = runs_[call.layer];
    const int chunk = reader_.info().chunk_of_token(static_cast<std::int32_t>(call.past_len));
    const std::int64_t rows = call.q.size(1), dim = call.q.size(2);
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    at::Tensor output = at::zeros_like(call.q);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      const auto cell = static_cast<std::size_t>(chunk * run.num_rows + head / group);
      const std::vector<std::int32_t> set(run.positions.begin() + run.offsets[cell],
                                          run.positions.begin() + run.offsets[cell + 1]);
      const at::Tensor k = call.k[head / group].to(at::kDouble);
      const at::Tensor v = call.v[head / group].to(at::kDouble);
      for (std::int64_t t = 0; t < rows; ++t) {
        const std::int64_t self = call.past_len + t;
        std::vector<std::int64_t> keys;
        for (std::int64_t j = 0; j <= self; ++j) {
          const bool in_set = run.flags[cell] != 0 || std::binary_search(set.begin(), set.end(), j);
          const bool open = scope_all_ ? j == self : j >= call.past_len;
          if (in_set || open) keys.push_back(j);
        }
        const at::Tensor index = at::tensor(keys, at::kLong);
        const at::Tensor q = call.q[head][t].to(at::kDouble);
        const at::Tensor logits = at::mv(k.index_select(0, index), q) * call.softmax_scale;
        output[head][t] = at::matmul(at::softmax(logits, 0), v.index_select(0, index));
      }
    }
    return output.reshape({call.q.size(0), rows, dim});
  }

 private:
  const trace::TraceReader& reader_;
  std::map<int, trace::RunLayer> runs_;
  bool scope_all_;
};

TEST(Capture, ClosedLoopAttendsToWhatItRecordsAndNothingElse) {
  for (const bool scope_all : {false, true}) {
    CaptureOptions options = tiny_options("truth.h5");
    options.dtype = trace::DType::F32;
    options.closed_loop = MethodSpec::parse(scope_all ? "oracle:budget_tokens=20,budget_scope=all"
                                                      : "snapkv:budget_tokens=40");
    capture_tiny(options);
    const trace::TraceReader reader("truth.h5");
    const std::vector<std::int32_t> ids = reader.token_ids();
    const auto model = make_tiny_model();
    Decoder decoder(model, {300, false});
    AttendToRecorded truth(reader, scope_all);
    RecordQueries queries(truth);
    for (const trace::ChunkInfo& chunk : reader.info().chunks) {
      decoder.forward(std::span(ids).subspan(chunk.begin, chunk.length), queries);
    }
    for (const int layer : {0, 1, 2}) {
      const at::Tensor stored = read_layer(reader, layer).q;
      EXPECT_LT((queries.of(layer) - stored).abs().max().item<float>(), 1e-3) << layer;
    }
  }
}

}  // namespace
}  // namespace kvloupe::capture
