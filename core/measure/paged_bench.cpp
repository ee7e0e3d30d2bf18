#include "core/measure/paged_bench.h"

#include "core/attention/attention.h"
#include "core/attention/paged_attention.h"
#include "core/base/error.h"
#include "core/device/scalar_type.h"
#include "core/device/torch_device.h"
#include "core/measure/dense_baseline.h"
#include "core/measure/timed_type.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

namespace kvloupe::measure {
namespace {

constexpr std::int64_t kQHeads = 24, kKvHeads = 8, kGroup = kQHeads / kKvHeads, kHeadDim = 128;
constexpr std::int64_t kBlock = 128;
constexpr double kLongCallMs = 5000;
constexpr int kLongRepetitions = 3;

struct Inputs {
  at::Tensor q, k, v;
  double scale = 1 / std::sqrt(static_cast<double>(kHeadDim));
};

// The same numbers on every device.
Inputs random_inputs(std::int64_t past_len, std::int64_t chunk_len, const std::string& device) {
  at::manual_seed(1);
  const c10::Device place = device::torch_device(device);
  const at::ScalarType type = scalar_type(timed_type(device));
  const auto draw = [&](std::int64_t heads, std::int64_t rows) {
    return at::randn({heads, rows, kHeadDim}).to(place, type);
  };
  Inputs in;
  in.q = draw(kQHeads, chunk_len);
  in.k = draw(kKvHeads, past_len + chunk_len);
  in.v = draw(kKvHeads, past_len + chunk_len);
  return in;
}

// `count` of the blocks [0, total), ascending.
std::vector<std::int32_t> draw_blocks(std::mt19937& random, std::int64_t total,
                                      std::int64_t count) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(total)), drawn;
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(drawn), count, random);
  return drawn;
}

// The three executions of one sparsity, in the order of PagedSide.
constexpr std::size_t kWays = 3;
class Executions {
 public:
  Executions(const Inputs& in, double sparsity) : in_(in) {
    const std::int64_t past_blocks = (in.k.size(1) - in.q.size(1)) / kBlock;
    kept_blocks_ = std::llround((1 - sparsity) * static_cast<double>(past_blocks));
    std::mt19937 random(2);
    tables_.page_size = kBlock;
    tables_.q_heads_per_row = kGroup;
    tables_.pages_per_head = in.k.size(1) / kBlock;
    tables_.kv_indptr = {0};
    for (std::int64_t head = 0; head < kKvHeads; ++head) {
      std::vector<std::int32_t>& positions = positions_.emplace_back();
      for (const std::int32_t block : draw_blocks(random, past_blocks, kept_blocks_)) {
        tables_.kv_indices.push_back(
            static_cast<std::int32_t>(head * tables_.pages_per_head + block));
        for (std::int32_t j = 0; j < kBlock; ++j)
          positions.push_back(static_cast<std::int32_t>(block * kBlock + j));
      }
      tables_.kv_indptr.push_back(static_cast<std::int32_t>(tables_.kv_indices.size()));
    }
    mask_ = native_mask(random, past_blocks, kept_blocks_, in.q.size(1) / kBlock);
  }

  std::vector<TimedPart> parts() const {
    return {{"paged",
             [this] { attention::paged_chunk_attention(in_.q, in_.k, in_.v, in_.scale, tables_); }},
            {"gathered",
             [this] {
               attention::gathered_chunk_attention(in_.q, in_.k, in_.v, in_.scale, positions_,
                                                   attention::ChunkVisibility::OpenChunk);
             }},
            {"block-sparse", [this] {
               attention::block_sparse_chunk_attention(in_.q, in_.k, in_.v, in_.scale, kBlock,
                                                       mask_);
             }}};
  }

  PagedSide describe(double sparsity) const {
    const auto kept = static_cast<double>(kept_blocks_ * kBlock);
    const auto chunk_len = static_cast<double>(in_.q.size(1));
    PagedSide side;
    side.sparsity = sparsity;
    side.kept_past = kept_blocks_ * kBlock;
    side.bytes =
        2 * static_cast<double>(in_.k.element_size()) * kHeadDim * kKvHeads * (kept + chunk_len);
    side.flops = 4.0 * kHeadDim * kQHeads * chunk_len * (kept + (chunk_len + 1) / 2);
    return side;
  }

 private:
  // Each query head's query blocks keep as many past blocks as a table does, and all of the chunk
  // that lies before them.
  static at::Tensor native_mask(std::mt19937& random, std::int64_t past_blocks, std::int64_t kept,
                                std::int64_t query_blocks) {
    at::Tensor mask = at::zeros({kQHeads, query_blocks, past_blocks + query_blocks}, at::kByte);
    auto* row = mask.mutable_data_ptr<std::uint8_t>();
    for (std::int64_t i = 0; i < kQHeads * query_blocks; ++i) {
      for (const std::int32_t block : draw_blocks(random, past_blocks, kept)) row[block] = 1;
      std::fill_n(row + past_blocks, i % query_blocks + 1, std::uint8_t{1});
      row += past_blocks + query_blocks;
    }
    return mask;
  }

  const Inputs& in_;
  std::int64_t kept_blocks_ = 0;
  attention::BlockTables tables_;
  std::vector<std::vector<std::int32_t>> positions_;
  at::Tensor mask_;
};

// The first round, which is not counted, tells how many rounds are affordable.
int affordable_repetitions(const std::vector<TimedPart>& parts, int repetitions,
                           const std::string& device, const WorkContext& context) {
  RoundOptions once;
  once.device = device;
  once.repetitions = 1;
  once.warm_up = 0;
  const RoundTimes times = time_rounds(parts, once, context);
  for (std::size_t part = 0; part < parts.size(); ++part)
    if (times.stats(part).median_ms > kLongCallMs) return std::min(repetitions, kLongRepetitions);
  return repetitions;
}

}  // namespace

double paged_bench_bytes(std::int64_t past_len, std::int64_t chunk_len, const std::string& device) {
  const auto number_bytes = static_cast<double>(c10::elementSize(scalar_type(timed_type(device))));
  const auto keys = static_cast<double>(past_len + chunk_len);
  const auto queries = static_cast<double>(chunk_len);
  const double kv = 2 * keys * kHeadDim * (kKvHeads + kQHeads);  // as cached, and expanded
  const double masks = queries * keys * (1 + kGroup);            // for the chunk, and folded
  const double others = 4 * queries * kHeadDim * kQHeads;
  // Torch's own buffers, and a copy of the kept keys. Where no kernel of a GPU takes a form's mask Torch makes all
  // logits: such a form is left out where they have no room.
  return 1.25 * number_bytes * (kv + masks + others);
}

PagedBench bench_paged(std::int64_t past_len, std::int64_t chunk_len,
                       const std::vector<double>& sparsities, int repetitions,
                       const std::string& device, const WorkContext& context) {
  KVLOUPE_CHECK(past_len % kBlock == 0 && chunk_len % kBlock == 0 && chunk_len > 0);
  const Inputs in = random_inputs(past_len, chunk_len, device);
  const DenseBaseline baseline(in.q, in.k, in.v, in.scale);
  std::vector<TimedPart> parts = baseline.parts();
  const std::size_t num_dense = parts.size();
  std::vector<std::unique_ptr<Executions>> executions;
  for (const double sparsity : sparsities) {
    executions.push_back(std::make_unique<Executions>(in, sparsity));
    for (TimedPart& part : executions.back()->parts()) parts.push_back(std::move(part));
  }

  RoundOptions options;
  options.device = device;
  options.repetitions = affordable_repetitions(parts, repetitions, device, context);
  options.warm_up = 0;
  const RoundTimes times = time_rounds(parts, options, context);
  PagedBench bench;
  bench.past_len = past_len;
  bench.chunk_len = chunk_len;
  const std::size_t dense = fastest_of(times, 0, num_dense);
  bench.dense = times.stats(dense);
  bench.dense_variant = parts[dense].name;
  bench.dense_left_out = baseline.left_out();
  bench.discarded = times.discarded;
  for (std::size_t i = 0; i < sparsities.size(); ++i) {
    PagedSide side = executions[i]->describe(sparsities[i]);
    const std::size_t first = num_dense + i * kWays;
    side.paged = times.stats(first);
    side.gathered = times.stats(first + 1);
    side.block_sparse = times.stats(first + 2);
    bench.sides.push_back(side);
  }
  return bench;
}

}  // namespace kvloupe::measure
