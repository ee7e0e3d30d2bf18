// Attention from some lanes of the keys, against plain loops in fp64 over those lanes, and what it
// multiplies and reads against numbers counted by hand.
#include "core/attention/lane_attention.h"

#include "core/attention/lane_products.h"
#include "core/base/work_count.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kvloupe::attention {
namespace {

struct Shape {
  std::int64_t heads = 4, group = 2, m = 20, past = 150, lanes = 16, kept = 6, dim = 12;
  std::int64_t kv_heads() const { return heads / group; }
  std::int64_t keys() const { return past + m; }
};

struct Inputs {
  Shape shape;
  LaneQueries q;
  at::Tensor k;  // [kv_heads, keys, lanes]
  at::Tensor v;  // [kv_heads, keys, dim]
};

// Each row uses another `kept` of the lanes.
Inputs random_inputs(const Shape& s) {
  at::manual_seed(5);
  Inputs in{s,
            {},
            at::randn({s.kv_heads(), s.keys(), s.lanes}),
            at::randn({s.kv_heads(), s.keys(), s.dim})};
  in.q.values = at::randn({s.heads, s.m, s.kept}) * 2;
  const at::Tensor order = at::randn({s.heads, s.m, s.lanes})
                               .argsort(/*dim=*/-1, /*descending=*/false)
                               .narrow(2, 0, s.kept);
  in.q.lanes = std::get<0>(order.contiguous().sort(-1)).to(at::kInt);
  return in;
}

// The tiles as lane_products.h describes them, from position `first` on; what no key fills is NaN.
LaneKeys tiles_of(const Inputs& in, std::int64_t first = 0) {
  const Shape& s = in.shape;
  const std::int64_t tiles = (s.keys() - first + 63) / 64;
  LaneKeys keys{
      at::full({s.kv_heads(), tiles, s.lanes, 64}, std::numeric_limits<float>::quiet_NaN()), first};
  for (std::int64_t g = 0; g < s.kv_heads(); ++g)
    for (std::int64_t j = first; j < s.keys(); ++j)
      keys.numbers[g][(j - first) / 64].select(1, (j - first) % 64).copy_(in.k[g][j]);
  return keys;
}

// p [m, keys] of one head over the past keys that are `kept` and, causally, the chunk.
std::vector<std::vector<double>> slow_p(const Inputs& in, const SoftmaxForm& form,
                                        std::int64_t head, const std::vector<bool>& kept) {
  const Shape& s = in.shape;
  const auto values = in.q.values.accessor<float, 3>();
  const auto lanes = in.q.lanes.accessor<std::int32_t, 3>();
  const auto k = in.k.accessor<float, 3>();
  std::vector<std::vector<double>> p(s.m, std::vector<double>(s.keys(), 0.0));
  for (std::int64_t t = 0; t < s.m; ++t) {
    const std::int64_t position = s.past + t;
    double total =
        form.sink_logits.empty() ? 0 : std::exp(static_cast<double>(form.sink_logits[head]));
    for (std::int64_t j = 0; j <= position; ++j) {
      if (form.window > 0 && j <= position - form.window) continue;
      if (j < s.past && !kept[j]) continue;
      double dot = 0;
      for (std::int64_t i = 0; i < s.kept; ++i)
        dot += static_cast<double>(values[head][t][i]) * k[head / s.group][j][lanes[head][t][i]];
      double logit = form.scale * dot;
      if (form.softcap > 0) logit = form.softcap * std::tanh(logit / form.softcap);
      p[t][j] = std::exp(logit);
      total += p[t][j];
    }
    for (double& value : p[t]) value /= total;
  }
  return p;
}

void expect_output(const Inputs& in, const SoftmaxForm& form, const at::Tensor& got,
                   const std::vector<std::vector<bool>>& kept) {
  const Shape& s = in.shape;
  for (std::int64_t head = 0; head < s.heads; ++head) {
    const auto p = slow_p(in, form, head, kept[head / s.group]);
    for (std::int64_t t = 0; t < s.m; ++t)
      for (std::int64_t c = 0; c < s.dim; ++c) {
        double want = 0;
        for (std::int64_t j = 0; j < s.keys(); ++j)
          want += p[t][j] * in.v[head / s.group][j][c].item<double>();
        ASSERT_NEAR(got[head][t][c].item<double>(), want, 1e-5) << head << " " << t << " " << c;
      }
  }
}

std::vector<std::vector<bool>> all_kept(const Shape& s) {
  return std::vector(s.kv_heads(), std::vector<bool>(s.past, true));
}

class LaneAttention : public ::testing::TestWithParam<SoftmaxForm> {};

TEST_P(LaneAttention, OverAllKeys) {
  const Inputs in = random_inputs({});
  const at::Tensor got = lane_chunk_attention(in.q, tiles_of(in), in.v, GetParam());
  expect_output(in, GetParam(), got, all_kept(in.shape));
}

TEST_P(LaneAttention, OverGatheredKeys) {
  const Inputs in = random_inputs({});
  const Shape& s = in.shape;
  std::vector<std::vector<std::int32_t>> selected(s.kv_heads());
  std::vector<std::vector<bool>> kept(s.kv_heads(), std::vector<bool>(s.past, false));
  for (std::int32_t j = 0; j < s.past; ++j)
    for (std::int64_t g = 0; g < s.kv_heads(); ++g)
      if ((j * 7 + g * 3) % (g + 2) == 0) {
        selected[g].push_back(j);
        kept[g][j] = true;
      }
  const GatheredKeys keys = gather_lanes(tiles_of(in), in.v, s.m, selected);
  expect_output(in, GetParam(), attend_gathered(in.q, keys, GetParam()), kept);

  const auto mass = gathered_mass(in.q, keys, GetParam());
  for (std::int64_t g = 0; g < s.kv_heads(); ++g) {
    std::vector<double> want(s.keys(), 0.0);
    for (std::int64_t head = g * s.group; head < (g + 1) * s.group; ++head)
      for (const auto& row : slow_p(in, GetParam(), head, kept[g]))
        for (std::int64_t j = 0; j < s.keys(); ++j) want[j] += row[j];
    ASSERT_EQ(static_cast<std::int64_t>(mass[g].size()), keys.begin[g + 1] - keys.begin[g]);
    for (std::size_t i = 0; i < mass[g].size(); ++i)
      EXPECT_NEAR(mass[g][i], want[keys.positions[keys.begin[g] + static_cast<std::int64_t>(i)]],
                  1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, LaneAttention,
                         ::testing::Values(SoftmaxForm(0.25), SoftmaxForm(0.25, 70, 0, {}),
                                           SoftmaxForm(0.25, 0, 5, {}),
                                           SoftmaxForm(0.25, 33, 4, {0.5F, -1, 2, 0})));

TEST(LaneAttentionOfWindows, KeysMayBeginWhereTheWindowDoes) {
  const Inputs in = random_inputs({});
  const SoftmaxForm form(0.25, 40, 0, {});
  const at::Tensor all = lane_chunk_attention(in.q, tiles_of(in), in.v, form);
  for (const std::int64_t first : {17, 111})  // 111: the first that is seen
    EXPECT_TRUE(at::equal(all, lane_chunk_attention(in.q, tiles_of(in, first), in.v, form)))
        << first;
}

TEST(LaneAttention, LeadingLanesAreShortRows) {
  Inputs in = random_inputs({.kept = 5});
  in.q.lanes = at::arange(5, at::kInt).expand({4, 20, 5}).contiguous();
  const LaneQueries whole{in.q.values, {}};
  const LaneKeys rows{in.k.narrow(2, 0, 5).contiguous(), 0};
  expect_output(in, 0.25, lane_chunk_attention(whole, rows, in.v, 0.25), all_kept(in.shape));
}

// Per query and visible key `kept` products; all lanes that any of a head's rows uses are read once
// for the rows of a block.
TEST(LaneAttention, MultipliesTheLanesUsedAlone) {
  const Shape shape{.heads = 2, .group = 1, .m = 3, .past = 61, .lanes = 16, .kept = 4, .dim = 16};
  Inputs in = random_inputs(shape);
  in.q.lanes = at::tensor(std::vector<int>{0, 1, 2, 3}, at::kInt).expand({2, 3, 4}).contiguous();
  const LaneKeys keys = tiles_of(in);
  {
    WorkCount work;
    lane_chunk_attention(in.q, keys, in.v, 0.25);
    EXPECT_EQ(work.key_products(), 2 * 3 * 64 * 4);  // causality cuts no tile
    EXPECT_EQ(work.value_products(), 2 * 3 * 64 * 16);
    EXPECT_EQ(work.key_bytes(), 2 * 64 * 4 * 4);
  }
  {
    WorkCount work;
    lane_chunk_attention({in.q.values, {}}, {in.k.narrow(2, 0, 4).contiguous(), 0}, in.v, 0.25);
    EXPECT_EQ(work.key_products(), 2 * 3 * 64 * 4);
    EXPECT_EQ(work.key_bytes(), 2 * 64 * 4 * 4);
  }
  WorkCount work;
  dense_chunk_attention(in.k.narrow(1, 61, 3).contiguous(), in.k, in.v, 0.25, false);
  EXPECT_EQ(work.key_products(), 2 * 3 * 64 * 16);
}

// A score is the same number wherever its key lies and however many are asked for.
TEST(LaneProducts, DependOnTheRowAndTheKeyAlone) {
  const Inputs in = random_inputs({.heads = 1, .group = 1, .m = 7, .past = 200});
  const at::Tensor tiles = tiles_of(in).numbers;
  const LaneRows rows{in.q.values.const_data_ptr<float>(),
                      in.q.lanes.const_data_ptr<std::int32_t>(), 6};
  const auto products = [&](std::int64_t first, std::int64_t count, std::int64_t num_rows) {
    std::vector<float> scores(static_cast<std::size_t>(num_rows * 210), -1.0F);
    multiply_lanes(rows, num_rows, tiles.const_data_ptr<float>(), 16, first, count, 0.5F,
                   scores.data(), 210);
    return scores;
  };
  const std::vector<float> all = products(0, 207, 7);
  for (const auto& [first, count] : std::vector<std::pair<int, int>>{{0, 1}, {63, 2}, {5, 130}})
    for (const std::int64_t num_rows : {1, 2, 7}) {
      const std::vector<float> part = products(first, count, num_rows);
      for (std::int64_t r = 0; r < num_rows; ++r) {
        for (int j = 0; j < count; ++j) ASSERT_EQ(part[r * 210 + j], all[r * 210 + first + j]);
        EXPECT_EQ(part[r * 210 + count], -1.0F);  // nothing is written beyond
      }
    }
}

TEST(LaneProducts, StoredRowsFillTheirPlaces) {
  const Inputs in = random_inputs({.heads = 1, .group = 1, .m = 3, .past = 130});
  const at::Tensor want = tiles_of(in).numbers;
  at::Tensor got = at::full_like(want, std::numeric_limits<float>::quiet_NaN());
  for (const auto& [begin, end] : std::vector<std::pair<int, int>>{{0, 50}, {50, 51}, {51, 133}})
    store_lanes(in.k[0][begin].const_data_ptr<float>(), end - begin, 16, begin,
                got.mutable_data_ptr<float>());
  EXPECT_TRUE(at::allclose(got, want, 0, 0, /*equal_nan=*/true));
}

}  // namespace
}  // namespace kvloupe::attention
