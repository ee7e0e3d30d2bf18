// Layers whose softmax has a window, a softcap, a learned sink, or all of them: what is selected and
// measured there against slow loops in fp64, written from the contract.
#include "core/attention/attention.h"
#include "core/replay/cell_metrics.h"
#include "core/replay/replay.h"
#include "core/session/session_tensors.h"
#include "core/trace/trace_reader.h"
#include "tests/replay/small_trace.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::replay {
namespace {

using Positions = std::vector<std::int32_t>;
using testing::SmallTrace;
using testing::SmallTraceShape;

SmallTraceShape with(int window, double softcap, bool sinks) {
  SmallTraceShape shape = {.chunk_lengths = {14, 15, 17, 7}, .window = window, .softcap = softcap};
  if (sinks) shape.sink_logits = {-0.5F, 0.75F, 2.25F, 1.0F};
  return shape;
}

struct Form {
  const char* name;
  SmallTraceShape shape;
};

class ShapedSoftmax : public ::testing::TestWithParam<Form> {
 protected:
  ShapedSoftmax() : trace_(GetParam().shape) {}

  const SmallTraceShape& shape() const { return trace_.shape(); }
  const trace::ChunkInfo& chunk(int c) const { return trace_.session().info().chunks[c]; }
  int num_chunks() const { return static_cast<int>(shape().chunk_lengths.size()); }
  int first_seen_from(int position) const {
    return shape().window == 0 ? 0 : std::max(0, position - shape().window + 1);
  }
  Positions candidates(int c) const {
    Positions all;
    for (int j = first_seen_from(chunk(c).begin); j < chunk(c).begin; ++j) all.push_back(j);
    return all;
  }

  ReplayResult replayed(const std::string& spec) const {
    ReplayRequest request;
    request.spec = selection::MethodSpec::parse(spec).resolved(trace_.session().shape());
    request.want_output_error = true;
    return replay(trace_.session(), request, {});
  }

  // By falling score, the earlier position first.
  static Positions best(const Positions& keys, const std::map<int, double>& score,
                        std::size_t count) {
    Positions order = keys;
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return score.at(a) > score.at(b); });
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(std::min(count, order.size())),
                order.end());
    std::sort(order.begin(), order.end());
    return order;
  }

  std::vector<int> heads_of_row(const ReplayResult& result, std::size_t row) const {
    std::vector<int> heads(static_cast<std::size_t>(result.q_heads_per_row));
    std::iota(heads.begin(), heads.end(), static_cast<int>(row) * result.q_heads_per_row);
    return heads;
  }

  double output_error(int layer, int q_head, int c, const Positions& kept) const {
    const int begin = chunk(c).begin, dim = shape().head_dim;
    const std::set<int> selected(kept.begin(), kept.end());
    double lost = 0, whole = 0;
    for (int t = begin; t < chunk(c).end(); ++t) {
      std::vector<double> dense(dim, 0), sparse(dim, 0);
      double dense_sum = trace_.sink_weight(q_head), sparse_sum = dense_sum;
      for (int j = 0; j <= t; ++j) {
        if (!trace_.sees(t, j)) continue;
        const double e = std::exp(trace_.score(layer, q_head, t, j));
        const bool is_kept = j >= begin || selected.count(j) > 0;
        const float* v = trace_.value(layer, q_head / trace_.gqa_group_size(), j);
        dense_sum += e;
        if (is_kept) sparse_sum += e;
        for (int i = 0; i < dim; ++i) {
          dense[i] += e * static_cast<double>(v[i]);
          if (is_kept) sparse[i] += e * static_cast<double>(v[i]);
        }
      }
      for (int i = 0; i < dim; ++i) {
        const double o = dense[i] / dense_sum, other = sparse[i] / sparse_sum;
        lost += (o - other) * (o - other);
        whole += o * o;
      }
    }
    return std::sqrt(lost / whole);
  }

  // Holds every number of a replay against the sets that it reports.
  void expect_measured(const ReplayResult& result) const {
    for (const ReplayCell& cell : result.cells) {
      const Positions open = candidates(cell.chunk);
      EXPECT_EQ(cell.num_candidates, static_cast<std::int64_t>(open.size()));
      for (std::size_t row = 0; row < cell.rows.size(); ++row) {
        SCOPED_TRACE(result.method + ", layer " + std::to_string(cell.layer) + ", chunk " +
                     std::to_string(cell.chunk) + ", row " + std::to_string(row));
        const Positions& kept = cell.rows[row].positions;
        EXPECT_TRUE(std::includes(open.begin(), open.end(), kept.begin(), kept.end()));
        if (cell.dense_reason) {
          EXPECT_EQ(kept, open);
          continue;
        }
        std::map<int, double> mass;
        for (const int head : heads_of_row(result, row)) {
          EXPECT_NEAR(cell.output_error[static_cast<std::size_t>(head)],
                      output_error(cell.layer, head, cell.chunk, kept), 2e-5);
          for (int t = chunk(cell.chunk).begin; t < chunk(cell.chunk).end(); ++t)
            for (const int j : open) mass[j] += trace_.probability(cell.layer, head, t, j);
        }
        double covered = 0, whole = 0;
        for (const auto& [j, value] : mass) whole += value;
        for (const int j : kept) covered += mass.at(j);
        EXPECT_NEAR(cell.metrics[row].mass_recall, covered / whole, 1e-5);
        const Positions top = best(open, mass, kept.size());
        Positions common;
        std::set_intersection(top.begin(), top.end(), kept.begin(), kept.end(),
                              std::back_inserter(common));
        EXPECT_NEAR(cell.metrics[row].topk_overlap,
                    kept.empty()
                        ? 1.0
                        : static_cast<double>(common.size()) / static_cast<double>(kept.size()),
                    1e-9);
      }
    }
  }

  // `expected(layer, row, chunk)` of every cell that chooses.
  template <typename Expected>
  void expect_selected(const std::string& spec, const Expected& expected) const {
    const ReplayResult result = replayed(spec);
    expect_measured(result);
    int chosen = 0;
    for (const ReplayCell& cell : result.cells) {
      for (std::size_t row = 0; row < cell.rows.size() && !cell.dense_reason; ++row, ++chosen)
        EXPECT_EQ(cell.rows[row].positions, expected(cell.layer, static_cast<int>(row), cell.chunk))
            << result.method << ", layer " << cell.layer << ", chunk " << cell.chunk << ", row "
            << row;
    }
    EXPECT_GT(chosen, 0) << spec;
  }

  SmallTrace trace_;
};

TEST_P(ShapedSoftmax, IsReadBackAndSound) {
  const auto softmax = trace_.session().info().model.softmax_of(1);
  EXPECT_EQ(softmax.window, shape().window);
  EXPECT_EQ(softmax.softcap, shape().softcap);
  EXPECT_EQ(softmax.sink_logits, shape().sink_logits);
  EXPECT_TRUE(trace::validate_trace(trace_.session().info().path).empty());
}

TEST_P(ShapedSoftmax, MassAndLogSumExpAreTheDefinition) {
  for (int c = 0; c < num_chunks(); ++c) {
    const selection::Cell cell = session::load_cell(trace_.session(), 1, c, chunk(c));
    const auto dense = attention::chunk_mass(cell.q, cell.k, cell.softmax);
    for (int g = 0; g < shape().num_kv_heads; ++g) {
      const auto mass = trace_.mass(1, g, chunk(c).begin, chunk(c).end());
      for (int j = 0; j < chunk(c).end(); ++j)
        EXPECT_NEAR(dense.key_mass[g][j].item<double>(), mass[j], 1e-4) << c << " " << j;
    }
    for (int head = 0; head < shape().num_q_heads; ++head)
      for (int t = chunk(c).begin; t < chunk(c).end(); ++t) {
        double sum = trace_.sink_weight(head);
        for (int j = 0; j <= t; ++j)
          if (trace_.sees(t, j)) sum += std::exp(trace_.score(1, head, t, j));
        EXPECT_NEAR(dense.lse[head][t - chunk(c).begin].item<double>(), std::log(sum), 1e-5);
      }
  }
}

TEST_P(ShapedSoftmax, OracleKeepsTheLargestMass) {
  expect_selected("oracle:budget_tokens=5", [&](int layer, int row, int c) {
    const auto mass = trace_.mass(layer, row, chunk(c).begin, chunk(c).end());
    std::map<int, double> score;
    for (const int j : candidates(c)) score[j] = mass[j];
    return best(candidates(c), score, 5);
  });
  expect_selected("oracle:reduce=max,budget_tokens=5", [&](int layer, int row, int c) {
    std::map<int, double> score;
    for (const int j : candidates(c))
      for (int head = row * 2; head < row * 2 + 2; ++head)
        for (int t = chunk(c).begin; t < chunk(c).end(); ++t)
          score[j] = std::max(score[j], trace_.probability(layer, head, t, j));
    return best(candidates(c), score, 5);
  });
}

TEST_P(ShapedSoftmax, BudgetsByRatioCountTheCandidates) {
  const ReplayResult result = replayed("oracle:budget_ratio=0.5");
  expect_measured(result);
  for (const ReplayCell& cell : result.cells) {
    const auto open = static_cast<double>(candidates(cell.chunk).size());
    if (cell.dense_reason) continue;
    EXPECT_EQ(cell.rows[0].positions.size(),
              static_cast<std::size_t>(std::max(1.0, std::floor(open * 0.5))));
  }
}

TEST_P(ShapedSoftmax, QuokaComparesTheCandidates) {
  expect_selected("quoka:budget_tokens=5,num_queries=64", [&](int layer, int row, int c) {
    const int dim = shape().head_dim;
    const auto norm = [&](const float* x) {
      double sum = 0;
      for (int i = 0; i < dim; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
      return std::sqrt(sum);
    };
    std::map<int, double> score;
    for (const int j : candidates(c)) {
      const float* k = trace_.key(layer, row, j);
      score[j] = -1e9;
      for (int t = chunk(c).begin; t < chunk(c).end(); ++t) {
        double cosine = 0;
        for (int head = row * 2; head < row * 2 + 2; ++head) {
          const float* q = trace_.query(layer, head, t);
          for (int i = 0; i < dim; ++i)
            cosine += static_cast<double>(q[i]) * static_cast<double>(k[i]) / norm(q) / norm(k) / 2;
        }
        score[j] = std::max(score[j], cosine);
      }
    }
    return best(candidates(c), score, 5);
  });
}

TEST_P(ShapedSoftmax, H2oCountsWhatItsRowsSee) {
  // [layer][row][chunk]: alive before the chunk.
  std::map<std::array<int, 3>, Positions> alive;
  for (int layer = 0; layer < shape().num_layers; ++layer)
    for (int row = 0; row < shape().num_kv_heads; ++row) {
      Positions pool;
      std::map<int, double> received;
      for (int c = 0; c < num_chunks(); ++c) {
        alive[{layer, row, c}] = pool;
        for (int j = chunk(c).begin; j < chunk(c).end(); ++j) pool.push_back(j);
        for (int head = row * 2; head < row * 2 + 2; ++head)
          for (int t = chunk(c).begin; t < chunk(c).end(); ++t) {
            double sum = trace_.sink_weight(head);
            for (const int j : pool)
              if (trace_.sees(t, j)) sum += std::exp(trace_.score(layer, head, t, j));
            for (const int j : pool)
              if (trace_.sees(t, j))
                received[j] += std::exp(trace_.score(layer, head, t, j)) / sum / 2;
          }
        std::erase_if(pool, [&](int j) { return j < first_seen_from(chunk(c).end()); });
        if (pool.size() <= 6) continue;
        const Positions newest(pool.end() - 3, pool.end());
        pool.erase(pool.end() - 3, pool.end());
        pool = best(pool, received, 3);
        pool.insert(pool.end(), newest.begin(), newest.end());
      }
    }
  expect_selected("h2o:budget_tokens=6", [&](int layer, int row, int c) {
    return alive.at({layer, row, c});
  });
}

TEST_P(ShapedSoftmax, StreamingLlmKeepsSinksWhileTheyAreSeen) {
  Positions pool;
  std::vector<Positions> alive;
  for (int c = 0; c < num_chunks(); ++c) {
    alive.push_back(pool);
    for (int j = chunk(c).begin; j < chunk(c).end(); ++j) pool.push_back(j);
    std::erase_if(pool, [&](int j) { return j < first_seen_from(chunk(c).end()); });
    if (pool.size() <= 6) continue;
    const auto sinks = std::count_if(pool.begin(), pool.end(), [](int j) { return j < 2; });
    pool.erase(pool.begin() + sinks, pool.end() - (6 - sinks));
  }
  expect_selected("streaming_llm:budget_tokens=6,sink_tokens=2",
                  [&](int, int, int c) { return alive[static_cast<std::size_t>(c)]; });
}

TEST_P(ShapedSoftmax, QuestBoundsThePagesOfCandidates) {
  expect_selected(
      "quest:budget_tokens=8,page_size=4,skip_layers=0", [&](int layer, int row, int c) {
        std::map<int, Positions> pages;
        for (const int j : candidates(c)) pages[j / 4].push_back(j);
        std::map<int, double> bound;
        Positions ids;
        for (const auto& [page, keys] : pages) {
          ids.push_back(page);
          bound[page] = -1e9;
          for (int t = chunk(c).begin; t < chunk(c).end(); ++t) {
            double sum = 0;
            for (int i = 0; i < shape().head_dim; ++i) {
              double most = -1e9, q = static_cast<double>(trace_.query(layer, row, t)[i]);
              for (const int j : keys)
                most = std::max(most, q * static_cast<double>(trace_.key(layer, row / 2, j)[i]));
              sum += most;
            }
            bound[page] = std::max(bound[page], sum);
          }
        }
        bound[ids.back()] = 1e9;  // kept by rule
        Positions kept;
        for (const int page : best(ids, bound, 2))
          kept.insert(kept.end(), pages[page].begin(), pages[page].end());
        return kept;
      });
}

TEST_P(ShapedSoftmax, FlashPrefillComparesBlocksThatRowsSee) {
  constexpr int b = 4;
  expect_selected(
      "flash_prefill:lowering=union,block_size=4,alpha=0.6,sink_blocks=1,window_blocks=1",
      [&](int layer, int row, int c) {
        const int begin = chunk(c).begin, end = chunk(c).end(), dim = shape().head_dim;
        std::set<int> kept;
        for (int j = begin / b * b; j < begin; ++j) kept.insert(j);
        for (int head = row * 2; head < row * 2 + 2; ++head)
          for (int own = begin / b; own * b < end; ++own) {
            const int first = std::max(own * b, begin), last = std::min((own + 1) * b, end);
            std::map<int, double> sums;
            double most = -1e9;
            std::map<std::pair<int, int>, double> z;
            for (int t = first; t < last; ++t)
              for (int j = 0; (j + 1) * b - 1 <= t; ++j) {
                if (j * b < first_seen_from(t)) continue;
                double dot = 0;
                for (int i = 0; i < dim; ++i)
                  for (int key = j * b; key < (j + 1) * b; ++key)
                    dot += static_cast<double>(trace_.query(layer, head, t)[i]) *
                           static_cast<double>(trace_.key(layer, row, key)[i]) / b;
                dot /= std::sqrt(static_cast<double>(dim));
                if (shape().softcap > 0) dot = shape().softcap * std::tanh(dot / shape().softcap);
                z[{t, j}] = dot;
                most = std::max(most, dot);
              }
            double largest = 0;
            for (const auto& [at, value] : z) sums[at.second] += std::exp(value - most);
            for (const auto& [j, sum] : sums) largest = std::max(largest, sum);
            for (int j = 0; j <= own; ++j) {
              if ((j + 1) * b - 1 < first_seen_from(first)) continue;
              if (sums[j] >= 0.6 * largest || j < 1 || own == j)
                for (int key = j * b; key < (j + 1) * b; ++key) kept.insert(key);
            }
          }
        const Positions open = candidates(c);
        Positions selected;
        for (const int j : open)
          if (kept.count(j) > 0) selected.push_back(j);
        return selected;
      });
}

TEST_P(ShapedSoftmax, ScoreErrorsAreOfTheLogits) {
  const int c = 2;
  const selection::Cell cell = session::load_cell(trace_.session(), 1, c, chunk(c));
  at::Tensor pruned = cell.q.clone();
  pruned.slice(2, 5).zero_();
  CellTruth truth(cell, {});
  const std::vector<double> errors = truth.score_errors(pruned);
  for (int head = 0; head < shape().num_q_heads; ++head) {
    double lost = 0, whole = 0;
    for (int t = chunk(c).begin; t < chunk(c).end(); ++t)
      for (int j = 0; j <= t; ++j) {
        if (!trace_.sees(t, j)) continue;
        double part = 0;
        for (int i = 0; i < 5; ++i)
          part += static_cast<double>(trace_.query(1, head, t)[i]) *
                  static_cast<double>(trace_.key(1, head / 2, j)[i]) / std::sqrt(8.0);
        if (shape().softcap > 0) part = shape().softcap * std::tanh(part / shape().softcap);
        const double s = trace_.score(1, head, t, j);
        lost += (s - part) * (s - part);
        whole += s * s;
      }
    EXPECT_NEAR(errors[static_cast<std::size_t>(head)], std::sqrt(lost / whole), 1e-6);
  }
}

// The other methods: sets inside the candidates, and every number that of the set.
TEST_P(ShapedSoftmax, EveryOtherMethodIsMeasuredOnWhatItKeeps) {
  for (const char* spec :
       {"random:budget_tokens=5", "sliding_window:budget_tokens=5",
        "uniform_queries:budget_tokens=5", "sample_attention:budget_tokens=5",
        "sparq:budget_tokens=5,agg=prob_mean", "loki:budget_tokens=5,basis=self",
        "tidal_decode:budget_tokens=5,first_layer=0", "less_is_more:budget_tokens=8,first_layer=0",
        "snapkv:budget_tokens=6,window=4", "snapkv:budget_tokens=6,window=4,state=select",
        "keydiff:budget_tokens=6", "tova:budget_tokens=6", "tova:budget_tokens=6,per_kv_head=1",
        "quest:budget_tokens=8,page_size=4,prefill=per_query,skip_layers=0",
        "xattention:lowering=union,block_size=8,stride=4",
        "flex_prefill:lowering=union,block_size=8,min_budget=8",
        "compact_attention:selector=flash_prefill,block_size=4"}) {
    expect_measured(replayed(spec));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, ShapedSoftmax,
    ::testing::Values(Form{"plain", with(0, 0, false)}, Form{"window", with(11, 0, false)},
                      Form{"long_window", with(21, 0, false)}, Form{"softcap", with(0, 0.9, false)},
                      Form{"sink", with(0, 0, true)}, Form{"all", with(13, 1.1, true)}),
    [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace kvloupe::replay
