#include "core/analysis/attention_map.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/session/session_tensors.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

namespace kvloupe::analysis {
namespace {

constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

void check_head(const session::TraceSession& session, int layer, int q_head) {
  const trace::TraceInfo& info = session.info();
  if (!info.has_layer(layer)) {
    throw input_error(fmt::format("layer {} cannot be shown", layer),
                      "this trace did not capture it", "choose a layer that `kvloupe info` lists");
  }
  if (q_head < 0 || q_head >= info.model.num_q_heads) {
    throw input_error(fmt::format("query head {} cannot be shown", q_head),
                      fmt::format("the model has {} of them", info.model.num_q_heads),
                      fmt::format("choose a head from 0 to {}", info.model.num_q_heads - 1));
  }
}

void check_range(const session::TraceSession& session, std::int32_t begin, std::int32_t end) {
  if (begin < 0 || begin > end || end > session.info().num_tokens) {
    throw input_error(fmt::format("the queries {} to {} cannot be shown", begin, end),
                      fmt::format("the trace has {} tokens", session.info().num_tokens),
                      "choose positions inside the trace");
  }
}

// Queries, keys and row log-sum-exp of one head for queries [begin, end) over keys [0, end).
struct HeadBlock {
  at::Tensor q;    // [rows, head_dim]
  at::Tensor k;    // [end, head_dim]
  at::Tensor lse;  // [rows]
};

// `k`: of the head's KV head, [end, head_dim].
HeadBlock head_block(const session::TraceSession& session, int layer, int q_head,
                     std::int32_t begin, std::int32_t end, at::Tensor k) {
  const trace::ModelInfo& model = session.info().model;
  HeadBlock block;
  block.q = at::empty({end - begin, model.head_dim}, at::kFloat);
  session.reader().read_rows(trace::Stored::Q, layer, q_head, begin, end,
                             block.q.mutable_data_ptr<float>());
  block.k = std::move(k);
  if (session.reader().has_lse(layer)) {
    block.lse = at::empty({end - begin}, at::kFloat);
    session.reader().read_lse(layer, q_head, begin, end, block.lse.mutable_data_ptr<float>());
  } else {
    block.lse = attention::chunk_mass(block.q.unsqueeze(0), block.k.unsqueeze(0),
                                      model.softmax_of(layer).of_heads(q_head, 1))
                    .lse.squeeze(0);
  }
  return block;
}

at::Tensor probabilities(const session::TraceSession& session, int layer, int q_head,
                         std::int32_t begin, std::int32_t end) {
  const int kv_head = q_head / session.info().model.gqa_group_size();
  const HeadBlock block = head_block(session, layer, q_head, begin, end,
                                     session::layer_k(session, layer)[kv_head].narrow(0, 0, end));
  return attention::attention_rows(block.q, block.k, session.info().model.softmax_of(layer), begin,
                                   block.lse);
}

// One row of cells of the reduced map, from the probabilities of `rows` queries that start at
// `first`. Gives the number of values that are NaN.
std::int64_t reduce_rows(const float* p, std::int64_t rows, std::int64_t keys, std::int64_t first,
                         std::int64_t step, std::int64_t cells, float* max, float* mean) {
  std::vector<double> sums(cells, 0);
  std::vector<std::int64_t> counts(cells, 0);
  std::vector<bool> broken(cells, false);
  std::int64_t num_broken = 0;
  std::fill(max, max + cells, kNoValue);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t visible = first + r + 1;
    const float* row = p + r * keys;
    for (std::int64_t begin = 0; begin < visible; begin += step) {
      const std::int64_t cell = begin / step, end = std::min(begin + step, visible);
      for (std::int64_t j = begin; j < end; ++j) {
        if (std::isnan(row[j])) {
          broken[cell] = true;
          ++num_broken;
          continue;
        }
        if (counts[cell] == 0 || row[j] > max[cell]) max[cell] = row[j];
        sums[cell] += static_cast<double>(row[j]);
        ++counts[cell];
      }
    }
  }
  for (std::int64_t cell = 0; cell < cells; ++cell) {
    mean[cell] = counts[cell] == 0
                     ? kNoValue
                     : static_cast<float>(sums[cell] / static_cast<double>(counts[cell]));
    if (broken[cell]) max[cell] = kNoValue;
  }
  return num_broken;
}

// The largest of each `step` of the first `visible` values of a row; NaN where one of them is. Gives the
// number of values that are NaN. No probability is negative: their bits are ordered as they are, and
// those of a NaN lie above all. Of integers the compiler makes a wide maximum.
std::int64_t largest_of_steps(const float* row, std::int64_t visible, std::int64_t step,
                              float* largest) {
  constexpr auto kInfinity = std::bit_cast<std::uint32_t>(std::numeric_limits<float>::infinity());
  std::int64_t num_broken = 0;
  for (std::int64_t begin = 0; begin < visible; begin += step, ++largest) {
    const std::int64_t end = std::min(begin + step, visible);
    std::uint32_t bits = 0;
    for (std::int64_t j = begin; j < end; ++j)
      bits = std::max(bits, std::bit_cast<std::uint32_t>(row[j]));
    *largest = bits > kInfinity ? kNoValue : std::bit_cast<float>(bits);
    if (bits > kInfinity)
      num_broken += std::count_if(row + begin, row + end, [](float p) { return std::isnan(p); });
  }
  return num_broken;
}

// Some keys of a strip, beside all queries that see any of them.
struct StripPanel {
  const HeadBlock& all;
  const SoftmaxForm& softmax;
  std::int64_t query_begin;
  AttentionStrip& strip;

  void add(std::int64_t key, std::int64_t key_end, std::int64_t row_step) {
    const std::int64_t keys = key_end - key;
    const std::int64_t first = std::max<std::int64_t>(key - query_begin, 0);
    const auto some = [&](const at::Tensor& rows) {
      return rows.slice(0, first, rows.size(0), row_step).contiguous();
    };
    const at::Tensor q = some(all.q), lse = some(all.lse);
    // Positions count from the first of these keys. With rows left out all see all of them.
    const std::int64_t position = query_begin + first - key;
    const at::Tensor p =
        attention::attention_rows(q, all.k.narrow(0, key, keys), softmax, position, lse);
    const float* data = p.const_data_ptr<float>();
    std::atomic<std::int64_t> num_broken{0};
    at::parallel_for(0, q.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        float* largest = row(first + r * row_step, key);
        num_broken += largest_of_steps(data + r * keys, std::min(position + r + 1, keys),
                                       strip.step, largest);
        const std::int64_t until = std::min(first + (r + 1) * row_step, strip.max.rows);
        for (std::int64_t other = first + r * row_step + 1; other < until; ++other)
          std::copy_n(largest, (keys + strip.step - 1) / strip.step, row(other, key));
      }
    });
    strip.num_broken += num_broken;
  }
  float* row(std::int64_t query, std::int64_t key) const {
    return strip.max.values.data() + query * strip.max.cols + key / strip.step;
  }
};

}  // namespace

Matrix attention_rows(const session::TraceSession& session, int layer, int q_head,
                      std::int32_t query_begin, std::int32_t query_end,
                      const WorkContext& context) {
  check_head(session, layer, q_head);
  check_range(session, query_begin, query_end);
  context.cancel.throw_if_cancelled();
  Matrix matrix;
  matrix.rows = query_end - query_begin;
  matrix.cols = query_end;
  if (matrix.rows == 0) return matrix;
  const at::Tensor p = probabilities(session, layer, q_head, query_begin, query_end);
  const float* data = p.const_data_ptr<float>();
  matrix.values.assign(data, data + matrix.rows * matrix.cols);
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    const auto row = matrix.values.begin() + r * matrix.cols;
    std::fill(row + query_begin + r + 1, row + matrix.cols, kNoValue);
  }
  return matrix;
}

AttentionStrip attention_strip(const session::TraceSession& session, int layer, int q_head,
                               std::int32_t query_begin, std::int32_t query_end,
                               std::int64_t max_columns, std::int64_t row_step,
                               const WorkContext& context) {
  check_head(session, layer, q_head);
  check_range(session, query_begin, query_end);
  KVLOUPE_CHECK(max_columns > 0 && row_step > 0);
  context.cancel.throw_if_cancelled();
  AttentionStrip strip;
  strip.step = std::max<std::int64_t>((query_end + max_columns - 1) / max_columns, 1);
  strip.max = {query_end - query_begin, (query_end + strip.step - 1) / strip.step, {}};
  strip.max.values.assign(static_cast<std::size_t>(strip.max.rows * strip.max.cols), kNoValue);
  if (strip.max.rows == 0) return strip;
  const int kv_head = q_head / session.info().model.gqa_group_size();
  const HeadBlock all = head_block(session, layer, q_head, query_begin, query_end,
                                   session::head_k(session, layer, kv_head, query_end));
  const SoftmaxForm softmax = session.info().model.softmax_of(layer);
  if (softmax.first_visible(query_end) > 0) row_step = 1;
  StripPanel panel{all, softmax, query_begin, strip};
  // All queries beside some of the keys at a time: what is held stays within the caches, and no key is
  // read twice.
  constexpr std::int64_t kValues = 1 << 21;
  const std::int64_t width =
      std::max<std::int64_t>(kValues / strip.max.rows / strip.step, 1) * strip.step;
  const std::int64_t past = query_begin / strip.step * strip.step;
  for (std::int64_t key = 0, end = 0; key < query_end; key = end) {
    context.cancel.throw_if_cancelled();
    end = std::min<std::int64_t>(key + width, key < past ? past : query_end);
    panel.add(key, end, key < past ? row_step : 1);
  }
  return strip;
}

namespace {

// Cells of `step` queries, at most `block` queries at a time. A cell of which the trace lacks some queries is
// of the first of those that it has.
std::vector<std::pair<std::int64_t, std::int64_t>> blocks_of_queries(const trace::TraceInfo& info,
                                                                     std::int64_t step,
                                                                     std::int64_t block) {
  std::vector<std::pair<std::int64_t, std::int64_t>> blocks;
  std::int64_t next = 0;  // the first query whose cell is not filled yet
  const auto cell_end = [&](std::int64_t query) { return query / step * step + step; };
  for (const trace::TokenRange& range : info.query_ranges()) {
    std::int64_t begin = std::max<std::int64_t>(range.begin, next);
    while (begin < range.end) {
      const std::int64_t most = begin % step == 0 ? begin + block : cell_end(begin);
      const std::int64_t end = std::min<std::int64_t>(most, range.end);
      blocks.emplace_back(begin, end);
      begin = end;
    }
    next = std::max(next, cell_end(range.end - 1));
  }
  return blocks;
}

}  // namespace

AttentionMap attention_map(const session::TraceSession& session, int layer, int q_head,
                           int max_side, const WorkContext& context) {
  check_head(session, layer, q_head);
  KVLOUPE_CHECK(max_side > 0);
  const std::int64_t tokens = session.info().num_tokens;
  AttentionMap map;
  map.layer = layer;
  map.q_head = q_head;
  map.step = std::max<std::int64_t>((tokens + max_side - 1) / max_side, 1);
  const std::int64_t side = (tokens + map.step - 1) / map.step;
  const float nothing = session.info().query_offsets.empty() ? kNoValue : AttentionMap::kNotStored;
  map.max = {side, side, std::vector<float>(side * side, nothing)};
  map.mean = map.max;
  std::atomic<std::int64_t> num_broken{0};
  // Whole rows of cells at a time, about 128 queries: a cancel is seen within some milliseconds.
  const std::int64_t block = std::max<std::int64_t>(128 / map.step, 1) * map.step;
  for (const auto& queries : blocks_of_queries(session.info(), map.step, block)) {
    const std::int64_t begin = queries.first, end = queries.second;
    context.cancel.throw_if_cancelled();
    context.report(begin, tokens, "queries");
    const at::Tensor p = probabilities(session, layer, q_head, static_cast<std::int32_t>(begin),
                                       static_cast<std::int32_t>(end));
    const float* data = p.const_data_ptr<float>();
    at::parallel_for(
        0, (end - begin + map.step - 1) / map.step, 1, [&](std::int64_t a, std::int64_t b) {
          for (std::int64_t i = a; i < b; ++i) {
            const std::int64_t first = begin + i * map.step, rows = std::min(map.step, end - first);
            const std::int64_t cell = first / map.step * side;
            num_broken += reduce_rows(data + i * map.step * end, rows, end, first, map.step, side,
                                      map.max.values.data() + cell, map.mean.values.data() + cell);
          }
        });
  }
  context.report(tokens, tokens, "queries");
  map.num_broken = num_broken;
  return map;
}

}  // namespace kvloupe::analysis
