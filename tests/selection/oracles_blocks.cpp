#include "tests/selection/oracles_blocks.h"

#include "tests/selection/oracle_loops.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace kvloupe::selection::testing {
namespace {

using Table = std::vector<std::vector<double>>;

// The queries and keys of one head at a chunk, by true position; zero where there is none.
class View {
 public:
  View(const Sequence& s, int chunk, int head)
      : s_(s), span_(s.chunks[static_cast<std::size_t>(chunk)]), head_(head) {}
  int past() const { return span_.begin; }
  int total() const { return span_.end(); }
  bool has_query(int position) const { return position >= past() && position < total(); }
  Row query(int position) const {
    return has_query(position) ? as_row(s_.query(head_, position), s_.shape.head_dim) : zero();
  }
  Row key(int position) const {
    return position < total()
               ? as_row(s_.key(head_ / s_.gqa_group_size(), position), s_.shape.head_dim)
               : zero();
  }
  Row mean_key(int block, int block_size) const {
    Row mean = zero();
    const int begin = block * block_size;
    const int end = std::min(total(), begin + block_size);
    for (int position = begin; position < end; ++position)
      add(key(position), 1.0 / (end - begin), mean);
    return mean;
  }
  Row mean_query(int begin, int end) const {
    Row mean = zero();
    for (int position = begin; position < end; ++position)
      add(query(position), 1.0 / (end - begin), mean);
    return mean;
  }

 private:
  Row zero() const { return Row(static_cast<std::size_t>(s_.shape.head_dim), 0.0); }
  static void add(const Row& row, double weight, Row& sum) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * row[i];
  }
  const Sequence& s_;
  const trace::ChunkInfo& span_;
  int head_;
};

struct Frame {
  int block_size, key_blocks;
  std::vector<int> query_blocks;
};

Frame frame_of(const trace::ChunkInfo& span, int block_size) {
  Frame frame{block_size, (span.end() + block_size - 1) / block_size, {}};
  std::set<int> numbers;
  for (int position = span.begin; position < span.end(); ++position)
    numbers.insert(position / block_size);
  frame.query_blocks.assign(numbers.begin(), numbers.end());
  return frame;
}

HeadMask empty_mask(const Frame& frame) {
  const std::size_t rows = frame.query_blocks.size();
  const auto columns = static_cast<std::size_t>(frame.key_blocks);
  return {std::vector(rows, std::vector<int>(columns, 0)),
          Table(rows, std::vector<double>(columns, 0.0))};
}

HeadMask flash_prefill(const View& view, const MethodSpec& spec, const Frame& frame, double scale) {
  HeadMask mask = empty_mask(frame);
  const int b = frame.block_size;
  for (std::size_t i = 0; i < frame.query_blocks.size(); ++i) {
    const int own = frame.query_blocks[i];
    std::map<std::pair<int, int>, double> logits;  // (position, block)
    double largest = -1e300;
    for (int position = own * b; position < (own + 1) * b; ++position)
      for (int j = 0; view.has_query(position) && j < frame.key_blocks; ++j)
        if (position >= j * b + b - 1) {
          logits[{position, j}] = scale * dot(view.query(position), view.mean_key(j, b));
          largest = std::max(largest, logits[{position, j}]);
        }
    double total = 1e-9;
    for (const auto& [where, logit] : logits) {
      mask.scores[i][where.second] += std::exp(logit - largest);
      total += std::exp(logit - largest);
    }
    double best = 0;
    for (double& score : mask.scores[i]) best = std::max(best, score /= total);
    for (int j = 0; j <= own; ++j) {
      const bool by_rule =
          j < spec.integer("sink_blocks") || own - j < spec.integer("window_blocks");
      mask.keep[i][j] = by_rule ? 2 : mask.scores[i][j] >= spec.real("alpha") * best;
    }
  }
  return mask;
}

HeadMask xattention(const View& view, const MethodSpec& spec, const Frame& frame, double scale) {
  HeadMask mask = empty_mask(frame);
  const int b = frame.block_size;
  const auto s = static_cast<int>(spec.integer("stride"));
  for (std::size_t i = 0; i < frame.query_blocks.size(); ++i) {
    const int own = frame.query_blocks[i];
    for (int a = own * b / s; a < (own + 1) * b / s; ++a) {
      bool real = false;
      for (int u = 0; u < s; ++u) real = real || view.has_query(a * s + u);
      if (!real) continue;
      std::vector<double> e;
      for (int n = 0; n <= a; ++n) {
        double sum = 0;
        for (int u = 0; u < s; ++u) sum += dot(view.query(a * s + s - 1 - u), view.key(n * s + u));
        e.push_back(sum * scale / s);
      }
      const double largest = *std::max_element(e.begin(), e.end());
      double total = 0;
      for (double& value : e) total += value = std::exp(value - largest);
      for (int n = 0; n <= a; ++n) mask.scores[i][n * s / b] += e[n] / total;
    }
    const std::vector<double>& row = mask.scores[i];
    const double total = std::accumulate(row.begin(), row.end(), 0.0);
    mask.keep[i][0] = mask.keep[i][own] = 2;
    double held = own == 0 ? row[0] : row[0] + row[own];
    std::vector<int> others;
    for (int j = 1; j < own; ++j) others.push_back(j);
    std::stable_sort(others.begin(), others.end(), [&](int x, int y) { return row[x] > row[y]; });
    for (const int j : others)
      if (spec.real("tau") == 1 || held < spec.real("tau") * total) {
        mask.keep[i][j] = 1;
        held += row[j];
      }
  }
  return mask;
}

// Positions by falling value, the lower first among equals.
std::vector<int> falling(const std::vector<double>& values) {
  std::vector<int> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return values[x] > values[y]; });
  return order;
}

int count_within(const std::vector<double>& values, double limit) {
  double sum = 0;
  int count = 0;
  for (const int i : falling(values)) {
    sum += values[i];
    if (sum <= limit * (1 + 1e-9)) ++count;
  }
  return count;
}

std::vector<double> by_blocks(const std::vector<double>& values, int b) {
  std::vector<double> sums((values.size() + b - 1) / b, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) sums[i / b] += values[i];
  return sums;
}

std::vector<double> softmax(std::vector<double> values) {
  const double largest = *std::max_element(values.begin(), values.end());
  double total = 0;
  for (double& value : values) total += value = std::exp(value - largest);
  for (double& value : values) value /= total;
  return values;
}

HeadMask flex_prefill(const View& view, const MethodSpec& spec, const Frame& frame, double scale) {
  HeadMask mask = empty_mask(frame);
  const int b = frame.block_size;
  const int blocks = frame.key_blocks;
  const int total = view.total();
  const int rows = std::min(b, total - view.past());
  std::vector<double> vertical(static_cast<std::size_t>(total), 0.0), slash = vertical;
  for (int position = total - rows; position < total; ++position) {
    std::vector<double> logits;
    for (int j = 0; j <= position; ++j)
      logits.push_back(scale * dot(view.query(position), view.key(j)));
    const std::vector<double> p = softmax(logits);
    for (int j = 0; j <= position; ++j) {
      vertical[j] += p[j] / rows;
      slash[total - 1 - (position - j)] += p[j] / rows;
    }
  }
  const std::vector<double> columns = by_blocks(vertical, b), diagonals = by_blocks(slash, b);

  std::vector<double> pooled;
  for (int j = 0; j < blocks; ++j)
    pooled.push_back(scale * dot(view.mean_query(total - rows, total), view.mean_key(j, b)));
  pooled = softmax(pooled);
  double divergence = 0;
  for (int j = 0; j < blocks; ++j) {
    const double mean = (pooled[j] + columns[j]) / 2;
    divergence +=
        pooled[j] * std::log(pooled[j] / mean) / 2 + columns[j] * std::log(columns[j] / mean) / 2;
  }
  const bool query_aware = std::sqrt(divergence) < spec.real("tau");

  const auto least = static_cast<int>(
      std::ceil(static_cast<double>(spec.integer("min_budget")) / static_cast<double>(b)));
  const auto chosen = [&](const std::vector<double>& tokens, std::vector<double> pool, int first) {
    int size = (count_within(tokens, spec.real("gamma")) + 1) / 128 + 1;
    size = std::min(query_aware ? least : std::max(size, least), blocks);
    pool[static_cast<std::size_t>(first)] = 1e300;
    std::vector<int> order = falling(pool);
    order.resize(static_cast<std::size_t>(std::max(1, size)));
    return order;
  };
  for (std::size_t i = 0; i < frame.query_blocks.size(); ++i) {
    const int own = frame.query_blocks[i];
    for (const int j : chosen(vertical, columns, 0))
      if (j <= own) mask.keep[i][j] = std::max(mask.keep[i][j], j == 0 ? 2 : 1);
    for (const int t : chosen(slash, diagonals, blocks - 1)) {
      const int back = blocks - 1 - t;
      if (back <= own)
        mask.keep[i][own - back] = std::max(mask.keep[i][own - back], back == 0 ? 2 : 1);
    }
    for (int j = 0; j <= own; ++j)
      mask.scores[i][j] = columns[j] + diagonals[blocks - 1 - (own - j)];
  }
  if (!query_aware) return mask;
  std::vector<double> pairs;
  for (const int own : frame.query_blocks) {
    const int begin = std::max(view.past(), own * b);
    const int end = std::min(total, (own + 1) * b);
    std::vector<double> row;
    for (int j = 0; j <= own; ++j)
      row.push_back(scale * dot(view.mean_query(begin, end), view.mean_key(j, b)));
    row = softmax(row);
    row.resize(static_cast<std::size_t>(blocks), 0.0);
    pairs.insert(pairs.end(), row.begin(), row.end());
  }
  const int kept =
      count_within(pairs, spec.real("gamma") * static_cast<double>(frame.query_blocks.size()));
  const std::vector<int> order = falling(pairs);
  for (int n = 0; n < kept; ++n) {
    const std::size_t i = static_cast<std::size_t>(order[n] / blocks);
    const int j = order[n] % blocks;
    if (j <= frame.query_blocks[i]) mask.keep[i][j] = std::max(mask.keep[i][j], 1);
  }
  return mask;
}

// The prompt's last query blocks see everything and do not vote, but for the chunk's first.
void open_last(const Sequence& sequence, const MethodSpec& spec, int chunk, const Frame& frame,
               ChunkMask& mask) {
  const auto next = static_cast<std::size_t>(chunk) + 1;
  if (next < sequence.chunks.size() && sequence.chunks[next].phase == trace::Phase::Prefill) return;
  for (std::size_t i = 1; i < frame.query_blocks.size(); ++i) {
    if (frame.query_blocks[i] < frame.key_blocks - spec.integer("last_full_blocks")) continue;
    mask.abstains[i] = 1;
    for (HeadMask& head : mask.heads)
      for (int j = 0; j <= frame.query_blocks[i]; ++j) head.keep[i][j] = 2;
  }
}

}  // namespace

ChunkMask block_mask(const Sequence& sequence, const MethodSpec& spec, int chunk) {
  const std::string id = spec.has("selector") ? spec.text("selector") : spec.id();
  const trace::ChunkInfo& span = sequence.chunks[static_cast<std::size_t>(chunk)];
  const Frame frame = frame_of(span, static_cast<int>(spec.integer("block_size")));
  ChunkMask mask{frame.block_size,
                 span.begin / frame.block_size,
                 frame.query_blocks,
                 {},
                 std::vector<int>(frame.query_blocks.size(), 0)};
  for (int head = 0; head < sequence.shape.num_q_heads; ++head) {
    const View view(sequence, chunk, head);
    if (id == "flash_prefill")
      mask.heads.push_back(flash_prefill(view, spec, frame, sequence.scale()));
    else if (id == "xattention")
      mask.heads.push_back(xattention(view, spec, frame, sequence.scale()));
    else
      mask.heads.push_back(flex_prefill(view, spec, frame, sequence.scale()));
  }
  if (id == "flash_prefill") open_last(sequence, spec, chunk, frame, mask);
  return mask;
}

SelectedRow lowered_row(const Sequence& sequence, const MethodSpec& spec, int chunk,
                        const ChunkMask& mask, int first, int count) {
  std::map<int, int> kept;  // block: 1, or 2 by rule
  std::vector<double> sums(static_cast<std::size_t>(mask.past_blocks), 0.0);
  for (int head = first; head < first + count; ++head)
    for (std::size_t i = 0; i < mask.query_blocks.size(); ++i)
      for (int j = 0; j < mask.past_blocks && mask.abstains[i] == 0; ++j) {
        const HeadMask& own = mask.heads[static_cast<std::size_t>(head)];
        sums[j] += own.scores[i][j];
        if (own.keep[i][j] != 0) kept[j] = std::max(kept[j], own.keep[i][j]);
      }
  const int past = sequence.chunks[static_cast<std::size_t>(chunk)].begin;
  if (spec.has_budget()) {
    std::vector<int> order(sums.size());
    std::iota(order.begin(), order.end(), 0);
    const std::map<int, int> all = kept;
    const auto forced = [&](int j) { return all.count(j) != 0 && all.at(j) == 2; };
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
      return forced(x) != forced(y) ? forced(x) : sums[x] > sums[y];
    });
    order.resize(
        std::min(order.size(), static_cast<std::size_t>(spec.budget(past) / mask.block_size)));
    kept.clear();
    for (const int j : order) kept[j] = forced(j) ? 2 : 1;
  }
  SelectedRow row;
  for (int position = 0; position < past; ++position) {
    const int block = position / mask.block_size;
    const int how = block == mask.past_blocks ? 2 : kept.count(block) != 0 ? kept.at(block) : 0;
    if (how == 0) continue;
    row.positions.push_back(position);
    if (how == 2) row.forced.push_back(position);
  }
  return row;
}

}  // namespace kvloupe::selection::testing
