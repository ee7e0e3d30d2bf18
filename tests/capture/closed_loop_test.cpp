// A closed loop: what the model attends to is what the trace says, and it matters.
#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/run/capture.h"
#include "core/trace/trace_reader.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/method_specs.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
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

// The rows of one query head as a lane method scores them, from the papers' words: rotated by the
// basis, all but the kept lanes set to zero, rotated back.
class LaneTruth {
 public:
  explicit LaneTruth(const MethodSpec& spec) : id_(spec.id()) {
    if (!spec.traits().basis || spec.traits().basis->kind != trace::BasisKind::Aqua) return;
    basis_ = trace::read_basis(spec.text("basis"));
    const double lanes = basis_->head_dim;
    usable_ = spec.has("slice_ratio")
                  ? basis_->head_dim - static_cast<int>(spec.real("slice_ratio") * lanes + 1e-9)
                  : basis_->head_dim;
    kept_ = std::max(1, static_cast<int>(spec.real("dim_ratio") * usable_ + 1e-9));
  }

  at::Tensor pruned(const at::Tensor& q, int layer, std::int64_t kv_head) const {
    if (!basis_) return q;
    const std::int64_t dim = basis_->head_dim;
    const at::Tensor directions = at::tensor(basis_->layers.at(layer).vectors)
                                      .reshape({basis_->num_kv_heads, dim, dim})[kv_head]
                                      .to(at::kDouble);
    const at::Tensor lanes = at::mv(directions.t(), q);
    std::vector<std::int64_t> order(static_cast<std::size_t>(usable_));
    std::iota(order.begin(), order.end(), 0);
    if (id_ != "static_slicing") {
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return std::abs(lanes[a].item<double>()) > std::abs(lanes[b].item<double>());
      });
    }
    at::Tensor result = at::zeros_like(q);
    for (int i = 0; i < kept_; ++i) {
      const std::int64_t lane = order[static_cast<std::size_t>(i)];
      result += directions.select(1, lane) * lanes[lane];
    }
    return result;
  }

 private:
  std::string id_;
  std::optional<trace::Basis> basis_;
  int usable_ = 0, kept_ = 0;
};

// Attention in double over the sets that a trace's run 0 holds: past by the set, the chunk
// causally; in scope `all` the set, causally, and the query's own key.
class AttendToRecorded final : public AttentionHook {
 public:
  explicit AttendToRecorded(const trace::TraceReader& reader)
      : reader_(reader),
        spec_(MethodSpec::parse(reader.info().runs[0].method)),
        lanes_(spec_),
        scope_all_(spec_.scope() == selection::BudgetScope::All) {}

  at::Tensor attend(const AttentionCall& call) override {
    if (!runs_.contains(call.layer)) runs_[call.layer] = reader_.read_run_layer(0, call.layer);
    const trace::RunLayer& run = runs_[call.layer];
    const int chunk = reader_.info().chunk_of_token(static_cast<std::int32_t>(call.past_len));
    const std::int64_t rows = call.q.size(1), dim = call.q.size(2);
    const std::int64_t group = call.q.size(0) / call.k.size(0);
    const std::int64_t heads_per_row = reader_.info().runs[0].q_heads_per_row;
    at::Tensor output = at::zeros_like(call.q);
    for (std::int64_t head = 0; head < call.q.size(0); ++head) {
      const auto cell = static_cast<std::size_t>(chunk * run.num_rows + head / heads_per_row);
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
          const bool by_mask = spec_.traits().native_masks && run.flags[cell] == 0;
          if (by_mask ? mask_has(call.layer, chunk, head, self, j) : in_set || open)
            keys.push_back(j);
        }
        const at::Tensor index = at::tensor(keys, at::kLong);
        const at::Tensor q =
            lanes_.pruned(call.q[head][t].to(at::kDouble), call.layer, head / group);
        const at::Tensor logits = at::mv(k.index_select(0, index), q) * call.softmax.scale;
        output[head][t] = at::matmul(at::softmax(logits, 0), v.index_select(0, index));
      }
    }
    return output.reshape({call.q.size(0), rows, dim});
  }

 private:
  // Whether the recorded mask of the query's block holds the key's.
  bool mask_has(int layer, int chunk, std::int64_t head, std::int64_t query, std::int64_t key) {
    if (!masks_.contains({layer, chunk}))
      masks_[{layer, chunk}] = reader_.read_run(0, layer, chunk).cells.front().blocks.value();
    const trace::BlockMasks& masks = masks_[{layer, chunk}];
    const std::int64_t size = masks.grid.block_size;
    return masks.kept[masks.index(head, query / size - masks.grid.past_len / size, key / size)];
  }

  const trace::TraceReader& reader_;
  MethodSpec spec_;
  std::map<std::pair<int, int>, trace::BlockMasks> masks_;
  LaneTruth lanes_;
  std::map<int, trace::RunLayer> runs_;
  bool scope_all_;
};

// For every method, in prefill and decode: each layer's queries depend on the attention of all
// layers below, in all chunks before.
TEST(Capture, ClosedLoopAttendsToWhatItRecordsAndNothingElse) {
  std::vector<std::string> specs = all_method_specs(20);
  specs.emplace_back("flash_prefill:block_size=8,alpha=0.9,window_blocks=0,lowering=native");
  specs.emplace_back("xattention:block_size=16,stride=8,tau=0.4,lowering=native");
  for (const std::string& spec : specs) {
    SCOPED_TRACE(spec);
    CaptureOptions options = tiny_options("truth.h5");
    options.prompt_text = some_text().substr(0, 150);
    options.dtype = trace::DType::F32;
    options.closed_loop = MethodSpec::parse(spec);
    capture_tiny(options);
    const trace::TraceReader reader("truth.h5");
    const std::vector<std::int32_t> ids = reader.token_ids();
    const auto model = make_tiny_model();
    Decoder decoder(model, {300, false});
    AttendToRecorded truth(reader);
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

enum class Decoding { Selects, Evicts, Prunes, Dense };

// Who selects, evicts, prunes lanes or does nothing at a decoded token.
const std::map<std::string, Decoding> kDecoding = {
    {"dense", Decoding::Dense},
    {"oracle", Decoding::Selects},
    {"random", Decoding::Selects},
    {"sliding_window", Decoding::Dense},
    {"quoka", Decoding::Selects},
    {"uniform_queries", Decoding::Selects},
    {"sample_attention", Decoding::Selects},
    {"sparq", Decoding::Selects},
    {"loki", Decoding::Selects},
    {"tidal_decode", Decoding::Selects},
    {"less_is_more", Decoding::Selects},
    {"snapkv", Decoding::Dense},
    {"keydiff", Decoding::Dense},
    {"h2o", Decoding::Evicts},
    {"tova", Decoding::Evicts},
    {"streaming_llm", Decoding::Evicts},
    {"infinipot", Decoding::Dense},
    {"quest", Decoding::Selects},
    {"aqua", Decoding::Prunes},
    {"static_slicing", Decoding::Prunes},
    {"aqua_h2o", Decoding::Evicts},
    {"aqua_memory", Decoding::Prunes},
    {"flash_prefill", Decoding::Dense},
    {"xattention", Decoding::Dense},
    {"seer_attention", Decoding::Dense},
    {"minference", Decoding::Dense},
    {"flex_prefill", Decoding::Dense},
    {"compact_attention", Decoding::Dense},
};

// Cells of layer 2 in the decode chunks of run 0.
struct DecodeCells {
  int dense = 0, chosen = 0, deaths = 0;
  std::int64_t lanes = 0;  // used, summed over heads
};

DecodeCells decode_cells(const trace::TraceReader& reader) {
  const trace::RunLayer run = reader.read_run_layer(0, 2);
  const auto& chunks = reader.info().chunks;
  DecodeCells found;
  for (std::size_t cell = 0; cell < run.flags.size(); ++cell) {
    const std::size_t chunk = cell / static_cast<std::size_t>(run.num_rows);
    if (chunks[chunk].phase == trace::Phase::Prefill) continue;
    const std::int64_t kept =
        run.flags[cell] != 0 ? chunks[chunk].begin : run.offsets[cell + 1] - run.offsets[cell];
    (kept == chunks[chunk].begin ? found.dense : found.chosen) += 1;
  }
  const std::size_t a_chunk = run.lane_counts.size() / chunks.size();
  for (std::size_t i = 0; i < run.lane_counts.size(); ++i)
    if (chunks[i / a_chunk].phase == trace::Phase::Decode) found.lanes += run.lane_counts[i];
  for (const std::uint16_t died : run.evict_chunk) {
    found.deaths += died != trace::kAlive && chunks[died].phase == trace::Phase::Decode;
  }
  return found;
}

TEST(Capture, ClosedLoopDecodesAsEachMethodSays) {
  EXPECT_EQ(kDecoding.size(), selection::catalogue().size());
  for (const selection::MethodInfo& method : selection::catalogue()) {
    SCOPED_TRACE(method.id);
    ASSERT_TRUE(kDecoding.contains(method.id));
    const Decoding decoding = kDecoding.at(method.id);
    CaptureOptions options = tiny_options("decode.h5");
    // A correction layer leaves layer 2 to reuse a set; by default it would choose, densely itself.
    options.closed_loop = MethodSpec::parse(
        spec_text(method, 20, method.crosses_layers ? "first_layer=0,correction_layer=1" : ""));
    capture_tiny(options);
    const trace::TraceReader reader("decode.h5");
    ASSERT_EQ(reader.info().chunks.size(), 9u);
    const DecodeCells cells = decode_cells(reader);
    EXPECT_EQ(reader.info().runs[0].decode_dense, decoding == Decoding::Dense);
    EXPECT_EQ(cells.deaths > 0, decoding == Decoding::Evicts);
    EXPECT_EQ(cells.lanes > 0, method.granularity == trace::Granularity::Lane);
    if (reader.info().runs[0].state_action == trace::StateAction::Eviction) {
      EXPECT_EQ(cells.dense, 0);
    } else {
      EXPECT_EQ(cells.chosen > 0, decoding == Decoding::Selects);
      EXPECT_EQ(cells.dense > 0, decoding == Decoding::Dense || decoding == Decoding::Prunes);
    }
  }
}

TEST(Capture, QuokaMayDecodeDensely) {
  CaptureOptions options = tiny_options("decode.h5");
  options.closed_loop = MethodSpec::parse("quoka:budget_tokens=20,decode=dense");
  capture_tiny(options);
  const trace::TraceReader reader("decode.h5");
  EXPECT_TRUE(reader.info().runs[0].decode_dense);
  EXPECT_EQ(decode_cells(reader).chosen, 0);
}

}  // namespace
}  // namespace kvloupe::capture
