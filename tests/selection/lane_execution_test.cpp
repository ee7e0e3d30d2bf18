// What lane methods, SparQ and Loki run: attention over the chosen lanes against plain fp64 loops,
// and scores from copies of keys against the keys themselves.
#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/selection/attend.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/lanes/lanes.h"
#include "core/selection/operators/kernels.h"
#include "core/selection/operators/lane_kernels.h"
#include "tests/selection/lane_loops.h"
#include "tests/selection/sequences.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

MethodSpec resolved(const Sequence& sequence, const std::string& spec) {
  return MethodSpec::parse(spec).resolved(sequence.model());
}

// AQUA's output for one row, from the `kept` of the first `usable` lanes: softmax over the past keys
// in `past` and, causally, the chunk; of values as they are, or as their `usable` lanes remember them.
std::vector<double> slow_output(const Sequence& sequence, const Cell& cell, int head, int row,
                                const Pruning& pruning, const std::vector<std::int32_t>& past) {
  const int kv_head = head / sequence.gqa_group_size();
  const auto position = static_cast<std::int32_t>(cell.past_len + row);
  const auto query = rotated(sequence, kv_head, sequence.query(head, position));
  const std::vector<int> order =
      lanes_by_hand(query, pruning.usable, pruning.kept, pruning.leading);
  std::vector<std::int32_t> keys = past;
  for (auto j = static_cast<std::int32_t>(cell.past_len); j <= position; ++j) keys.push_back(j);
  std::erase_if(keys, [&](std::int32_t j) { return j < cell.softmax.first_visible(position); });
  std::vector<double> output(static_cast<std::size_t>(sequence.shape.head_dim), 0.0);
  double total = 0;
  for (const std::int32_t j : keys) {
    const auto key = rotated(sequence, kv_head, sequence.key(kv_head, j));
    double score = 0;
    for (const int lane : order) score += query[lane] * key[lane];
    const double weight = std::exp(sequence.scale() * score);
    total += weight;
    const at::Tensor stored = cell.v[kv_head][j].to(at::kDouble).contiguous();
    const double* value = stored.const_data_ptr<double>();
    const std::vector<double> read = pruning.slices_values
                                         ? remembered(sequence, kv_head, value, pruning.usable)
                                         : std::vector<double>(value, value + output.size());
    for (std::size_t c = 0; c < output.size(); ++c) output[c] += weight * read[c];
  }
  for (double& value : output) value /= total;
  return output;
}

void expect_attention(const Sequence& sequence, const Pruning& pruning) {
  const MethodSpec spec = resolved(sequence, pruning.spec);
  const MethodRun run = run_method(sequence, pruning.spec);
  for (std::size_t c = 0; c < run.cells.size(); ++c) {
    const Cell cell = cell_of(sequence, static_cast<int>(c));
    const at::Tensor output =
        attend_selected(spec, {}, cell, row_layout(spec, sequence.model()), run.cells[c]);
    for (int head = 0; head < sequence.shape.num_q_heads; ++head)
      for (int row = 0; row < cell.chunk_len; row += 5) {
        const auto want =
            slow_output(sequence, cell, head, row, pruning,
                        run.cells[c].rows[head / sequence.gqa_group_size()].positions);
        for (std::size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(output[head][row][static_cast<std::int64_t>(i)].item<double>(), want[i], 1e-5)
              << pruning.spec << " chunk " << c << " head " << head << " row " << row;
      }
  }
}

TEST(LaneExecution, AttentionIsOfTheChosenLanes) {
  const Sequence sequence = random_sequence({.chunk_lengths = {16, 40, 16, 7}}, 21);
  for (const Pruning& pruning : std::vector<Pruning>{
           {"aqua:dim_ratio=0.3", 16, 4, false},
           {"static_slicing:dim_ratio=0.5", 16, 8, true},
           {"aqua_memory:dim_ratio=0.5,slice_ratio=0.25", 12, 6, false},
           {"aqua_memory:dim_ratio=0.5,slice_ratio=0.25,slice_values=1", 12, 6, false, true},
           {"aqua_h2o:dim_ratio=0.6,token_ratio=0.4", 16, 9, false}})
    expect_attention(sequence, pruning);
}

// In a layer with a window, also where the first cell that is asked for has hidden keys already.
TEST(LaneExecution, AttentionIsOfTheChosenLanesInAWindow) {
  Sequence sequence = random_sequence({.chunk_lengths = {16, 40, 16, 7}}, 23);
  sequence.softmax.emplace(sequence.scale());
  sequence.softmax->window = 21;
  for (const Pruning& pruning : std::vector<Pruning>{
           {"aqua:dim_ratio=0.3", 16, 4, false},
           {"aqua_memory:dim_ratio=0.5,slice_ratio=0.25,slice_values=1", 12, 6, false, true}}) {
    expect_attention(sequence, pruning);
    const MethodSpec spec = resolved(sequence, pruning.spec);
    const Cell last = cell_of(sequence, 2);
    const auto selector = selector_for(sequence, pruning.spec);
    const at::Tensor output =
        attend_selected(spec, {}, last, row_layout(spec, sequence.model()), selector->select(last));
    std::vector<std::int32_t> past(static_cast<std::size_t>(last.past_len));
    std::iota(past.begin(), past.end(), 0);
    const auto want = slow_output(sequence, last, 1, 9, pruning, past);
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(output[1][9][static_cast<std::int64_t>(i)].item<double>(), want[i], 1e-5);
  }
}

// A basis of an earlier version serves keys alone.
TEST(LaneExecution, ValuesAreNotSlicedByABasisOfKeys) {
  Sequence sequence = random_sequence({}, 22);
  sequence.basis.layers.at(sequence.shape.layer).value_vectors.clear();
  run_method(sequence, "aqua_memory");
  try {
    run_method(sequence, "aqua_memory:slice_values=1");
    FAIL() << "values were sliced by no directions";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("kvloupe calibrate aqua"), std::string::npos);
  }
}

// The copy's sums have the order of whole rows, where these are whole vectors: SparQ's choice is then
// the same to the last bit.
TEST(ChannelProducts, AreThoseOfRowsWithZeros) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (const int dim : {8, 20, 32, 64, 80, 96, 128})
    for (const int count : {1, 3, dim / 4, dim}) {
      constexpr int kKeys = 150;
      std::vector<float> keys(static_cast<std::size_t>(kKeys * dim));
      for (float& value : keys) value = normal(random);
      std::vector<std::int32_t> channels(static_cast<std::size_t>(dim));
      std::iota(channels.begin(), channels.end(), 0);
      std::shuffle(channels.begin(), channels.end(), random);
      channels.resize(static_cast<std::size_t>(count));
      std::sort(channels.begin(), channels.end());
      std::vector<float> row(static_cast<std::size_t>(dim), 0.0F);
      for (const std::int32_t channel : channels) row[channel] = normal(random);
      std::vector<float> tiles(static_cast<std::size_t>(3 * 64 * dim));
      for (int key = 0; key < kKeys; ++key)
        for (int c = 0; c < dim; ++c)
          tiles[(key / 64 * dim + c) * 64 + key % 64] = keys[key * dim + c];
      std::vector<float> want(kKeys), got(kKeys - 5);
      dot_products(row.data(), keys.data(), kKeys, dim, want.data());
      channel_products(row.data(), channels, dim, tiles.data(), 5, kKeys - 5, got.data());
      for (int key = 0; key < kKeys - 5; ++key)
        if (dim % 32 == 0)
          ASSERT_EQ(got[key], want[key + 5]) << dim << " " << count << " " << key;
        else
          ASSERT_NEAR(got[key], want[key + 5], 1e-5) << dim << " " << count << " " << key;
    }
}

TEST(RotateRows, AreTheLanesOfTheRow) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  for (const int dim : {2, 16, 20, 64})
    for (const int width : {1, dim / 2, dim})
      for (const int rows : {1, 4, 7}) {
        std::vector<float> x(static_cast<std::size_t>(rows * dim));
        std::vector<float> p(static_cast<std::size_t>(dim * dim));
        for (float& value : x) value = normal(random);
        for (float& value : p) value = normal(random);
        std::vector<float> got(static_cast<std::size_t>(rows * width)), one(width);
        rotate_rows(x.data(), rows, p.data(), dim, width, got.data());
        for (int r = 0; r < rows; ++r) {
          rotate_rows(x.data() + r * dim, 1, p.data(), dim, width, one.data());
          for (int lane = 0; lane < width; ++lane) {
            double want = 0;
            for (int c = 0; c < dim; ++c)
              want += static_cast<double>(x[r * dim + c]) * p[c * dim + lane];
            EXPECT_NEAR(got[r * width + lane], want, 2e-5);
            EXPECT_EQ(got[r * width + lane], one[lane]);  // whatever rows are beside it
          }
        }
      }
}

// What is held for a position, whichever form it is held in.
float number_of(const attention::LaneKeys& keys, bool by_lane, int head, int position, int lane) {
  const std::int64_t place = position - keys.first_position;
  return by_lane ? keys.numbers[head][place / 64][lane][place % 64].item<float>()
                 : keys.numbers[head][place][lane].item<float>();
}

TEST(KeyCopies, GrowWithTheKeysAndAreThoseOfACopyMadeAtOnce) {
  const Sequence sequence = random_sequence({.chunk_lengths = {70, 1, 66, 5}}, 25);
  const auto basis = std::make_shared<const trace::Basis>(sequence.basis);
  for (const KeyCopyForm& form : std::vector<KeyCopyForm>{
           {basis, 16, true}, {basis, 5, false}, {nullptr, 16, true}, {nullptr, 6, false}}) {
    KeyCopies growing;
    for (std::size_t c = 0; c < sequence.chunks.size(); ++c) {
      const Cell cell = cell_of(sequence, static_cast<int>(c), /*slack=*/3);
      const auto grown = growing.get(cell, form), whole = KeyCopies().get(cell, form);
      for (int head = 0; head < 2; ++head)
        for (int key = 0; key < cell.kv_len(); ++key)
          for (int lane = 0; lane < form.width; lane += 3) {
            const float number = number_of(grown, form.by_lane, head, key, lane);
            ASSERT_EQ(number, number_of(whole, form.by_lane, head, key, lane));
            const double want = form.basis ? rotated(sequence, head, sequence.key(head, key))[lane]
                                           : static_cast<double>(sequence.key(head, key)[lane]);
            ASSERT_NEAR(number, want, 1e-5);
          }
    }
  }
}

TEST(KeyCopies, AreSharedByAllThatNameTheSameDirections) {
  const Sequence sequence = random_sequence({}, 26);
  const Cell cell = cell_of(sequence, 3);
  KeyCopies copies;
  const auto one = std::make_shared<const trace::Basis>(sequence.basis);
  const auto same = std::make_shared<const trace::Basis>(sequence.basis);
  const auto first = copies.get(cell, {one, 16, true});
  const std::int64_t bytes = copies.bytes();
  EXPECT_EQ(bytes, 2 * 16 * 64 * 4);  // 55 keys of two heads fill a tile each
  EXPECT_TRUE(copies.get(cell, {same, 16, true}).numbers.is_same(first.numbers));
  EXPECT_EQ(copies.bytes(), bytes);
  copies.get(cell, {one, 8, false});
  EXPECT_EQ(copies.bytes(), bytes + 2 * 55 * 8 * 4);
}

TEST(KeyCopies, ForgottenKeysAreCopiedAnew) {
  const Sequence sequence = random_sequence({}, 27);
  Sequence other = sequence;
  for (float& value : other.k) value += 1;
  KeyCopies copies;
  const KeyCopyForm form{nullptr, 16, true};
  copies.get(cell_of(sequence, 2), form);
  copies.forget_from(20);
  const auto keys = copies.get(cell_of(other, 2), form);
  for (const int key : {0, 19, 20, 47})
    EXPECT_EQ(number_of(keys, true, 1, key, 3), (key < 20 ? sequence : other).key(1, key)[3]);
}

// A window hid the first keys from the cell that the copy was made for; one that sees them starts
// it again.
TEST(KeyCopies, BeginWhereTheFirstCellDoes) {
  const Sequence sequence = random_sequence({}, 28);
  Cell cell = cell_of(sequence, 2);
  cell.softmax.window = 20;
  const Cell visible = visible_part(cell);
  ASSERT_EQ(visible.first_key, 13);
  KeyCopies copies;
  const KeyCopyForm form{nullptr, 16, false};
  const auto part = copies.get(visible, form);
  EXPECT_EQ(part.first_position, 13);
  EXPECT_TRUE(at::equal(rows_of_copy(visible, part), visible.k));
  const auto all = copies.get(cell, form);
  EXPECT_EQ(all.first_position, 0);
  EXPECT_TRUE(at::equal(rows_of_copy(visible, all), visible.k));
}

}  // namespace
}  // namespace kvloupe::selection::testing
