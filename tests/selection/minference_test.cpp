// MInference against slow fp64 loops written from microsoft/MInference: which (row, key) pairs of a
// chunk each head computes, one by one.
#include "core/base/error.h"
#include "core/selection/blocks/attention_patterns.h"
#include "tests/base/temporary_folder.h"
#include "tests/selection/oracle_loops.h"
#include "tests/selection/sequences.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <random>
#include <set>

namespace kvloupe::selection::testing {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<std::int32_t>;

class MInferenceTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) const {
    const fs::path path = folder_ / "patterns.json";
    std::ofstream(path) << text;
    return path.string();
  }

  const TemporaryFolder folder_;
};

// 0, 1 or 2 (by rule) for each of the first `count` by falling score, those before `forced` first.
std::vector<int> marked(const Row& scores, std::int64_t count, int forced) {
  std::vector<int> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    if ((a < forced) != (b < forced)) return a < forced;
    return scores[a] > scores[b];
  });
  std::vector<int> marks(scores.size(), 0);
  for (std::size_t i = 0; i < order.size() && static_cast<std::int64_t>(i) < count; ++i)
    marks[order[i]] = order[i] < forced ? 2 : 1;
  return marks;
}

struct Pairs {
  std::vector<std::vector<int>> keep;  // [m][T], 2: by rule
  Row vertical;                        // [T] of the observed rows
  int observed = 0;
};

Pairs line_pairs(const Sequence& s, const trace::ChunkInfo& span, int head,
                 const HeadPattern& pattern) {
  const int total = span.end();
  Pairs pairs;
  pairs.observed = std::min(64, span.length);
  pairs.vertical.assign(static_cast<std::size_t>(total), 0.0);
  Row slash = pairs.vertical;
  for (int row = total - pairs.observed; row < total; ++row) {
    const Row p = softmax_row(s, head, row, range(0, total));
    for (int key = 0; key <= row; ++key) {
      pairs.vertical[key] += p[key];
      slash[row - key] += p[key];
    }
  }
  std::vector<int> columns, distances;
  if (pattern.type == PatternType::StreamLlm) {
    for (int i = 0; i < total; ++i) {
      columns.push_back(i < pattern.vertical_size ? 2 : 0);
      distances.push_back(i < pattern.slash_size ? 2 : 0);
    }
  } else {
    columns = marked(pairs.vertical, std::max<std::int64_t>(pattern.vertical_size, 30), 30);
    distances = marked(slash, std::max<std::int64_t>(pattern.slash_size, 50), 100);
  }
  for (int row = span.begin; row < total; ++row) {
    pairs.keep.emplace_back(static_cast<std::size_t>(total), 0);
    for (int key = 0; key <= row; ++key)
      pairs.keep.back()[key] = std::max(columns[key], distances[row - key]);
  }
  return pairs;
}

Pairs block_pairs(const Sequence& s, const trace::ChunkInfo& span, int head) {
  const int total = span.end();
  const int dim = s.shape.head_dim;
  const auto mean = [&](int begin, int end, const auto& row_of) {
    Row sum(static_cast<std::size_t>(dim), 0.0);
    for (int i = begin; i < end; ++i)
      for (int c = 0; c < dim; ++c) sum[c] += static_cast<double>(row_of(i)[c]) / (end - begin);
    return sum;
  };
  Pairs pairs;
  pairs.keep.assign(static_cast<std::size_t>(span.length),
                    std::vector<int>(static_cast<std::size_t>(total), 0));
  for (int block = span.begin / 64; block * 64 < total; ++block) {
    const int first = std::max(span.begin, block * 64);
    const int last = std::min(total, block * 64 + 64);
    const Row query = mean(first, last, [&](int i) { return s.query(head, i); });
    Row dots;
    for (int j = 0; j <= block; ++j)
      dots.push_back(dot(query, mean(j * 64, std::min(total, j * 64 + 64),
                                     [&](int i) { return s.key(head / s.gqa_group_size(), i); })));
    const std::vector<int> marks = marked(dots, 100, 0);
    for (int row = first; row < last; ++row)
      for (int key = 0; key < total; ++key)
        if (key / 64 <= block) pairs.keep[row - span.begin][key] = marks[key / 64];
  }
  return pairs;
}

Ints past_keys_of(const Pairs& pairs, int past, int least) {
  Ints keys;
  for (int key = 0; key < past; ++key)
    if (std::any_of(pairs.keep.begin(), pairs.keep.end(),
                    [&](const std::vector<int>& row) { return row[key] >= least; }))
      keys.push_back(key);
  return keys;
}

// The native blocks of one head: those with a pair in any row of the query block.
void expect_blocks(const trace::BlockMasks& choice, const Pairs& pairs, int head) {
  for (int i = 0; i < choice.grid.num_query_blocks(); ++i)
    for (int j = 0; j < choice.grid.num_key_blocks(); ++j) {
      int mark = 0;
      for (auto row = choice.grid.row_begin(i); row < choice.grid.row_end(i); ++row)
        for (auto key = choice.grid.key_begin(j); key < choice.grid.key_end(j); ++key)
          mark = std::max(mark, pairs.keep[row][key]);
      EXPECT_EQ(choice.kept[choice.index(head, i, j)], mark > 0 ? 1 : 0) << i << " " << j;
      EXPECT_EQ(choice.forced[choice.index(head, i, j)], mark > 1 ? 1 : 0) << i << " " << j;
    }
}

void expect_scores(const CellSelection& cell, const Sequence& s, const trace::ChunkInfo& span,
                   int head) {
  const Pairs observed = line_pairs(s, span, head, {});
  const trace::BlockMasks& choice = cell.blocks.value();
  for (int i = 0; i < choice.grid.num_query_blocks(); ++i)
    for (int j = 0; j < choice.grid.num_key_blocks(); ++j) {
      double mass = 0;
      for (auto key = choice.grid.key_begin(j); key < choice.grid.key_end(j); ++key)
        mass += observed.vertical[key] / observed.observed;
      const bool causal = j <= choice.grid.block_of_query_block(i);
      EXPECT_NEAR(cell.block_scores.row(head, i)[j], causal ? mass : 0, 1e-5);
    }
}

SequenceShape long_shape() {
  return {.num_q_heads = 6,
          .num_kv_heads = 2,
          .head_dim = 8,
          .chunk_lengths = {20, 5, 195, 64, 90, 33},
          .layer = 1};
}

// A default head, columns that need no ranking, few lines, each other type, and sizes of nothing.
const char* kPatterns = R"([{}, {"1": ["vertical_and_slash", 1000, 10, 0.5],
  "2": ["vertical_and_slash", 40, 110, 1], "3": ["stream_llm", 5, 20, 1],
  "4": ["block_sparse", 100, 100, 1], "5": ["vertical_and_slash", 0, 0, 0]}])";
const HeadPattern kHeads[] = {
    {PatternType::VerticalSlash, 1000, 6096}, {PatternType::VerticalSlash, 1000, 10},
    {PatternType::VerticalSlash, 40, 110},    {PatternType::StreamLlm, 5, 20},
    {PatternType::BlockSparse, 100, 100},     {PatternType::VerticalSlash, 0, 0}};

// A selection has one row per KV head: with as many KV heads as query heads each head's own keys.
void expect_slow_pairs(const Sequence& sequence, const std::string& config) {
  const MethodRun run = run_method(sequence, "minference:lowering=union,config=" + config);
  const int per_row = sequence.shape.num_q_heads / sequence.shape.num_kv_heads;
  std::size_t dropped = 0;
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk) {
    SCOPED_TRACE(chunk);
    const CellSelection& cell = run.cells[chunk];
    const trace::ChunkInfo& span = sequence.chunks[chunk];
    if (span.phase == trace::Phase::Decode) {
      EXPECT_EQ(cell.dense_reason, DenseReason::MethodRule);
      continue;
    }
    std::vector<std::set<std::int32_t>> all(cell.rows.size()), forced(cell.rows.size());
    for (int head = 0; head < 6; ++head) {
      SCOPED_TRACE(head);
      const Pairs pairs = kHeads[head].type == PatternType::BlockSparse
                              ? block_pairs(sequence, span, head)
                              : line_pairs(sequence, span, head, kHeads[head]);
      const Ints keys = past_keys_of(pairs, span.begin, 1);
      const Ints by_rule = past_keys_of(pairs, span.begin, 2);
      expect_blocks(cell.blocks.value(), pairs, head);
      expect_scores(cell, sequence, span, head);
      dropped += static_cast<std::size_t>(span.begin) - keys.size();
      all[head / per_row].insert(keys.begin(), keys.end());
      forced[head / per_row].insert(by_rule.begin(), by_rule.end());
    }
    for (std::size_t row = 0; row < cell.rows.size(); ++row) {
      for (int key = span.begin / 64 * 64; key < span.begin; ++key) {
        all[row].insert(key);
        forced[row].insert(key);
      }
      EXPECT_EQ(cell.rows[row].positions, Ints(all[row].begin(), all[row].end()));
      EXPECT_EQ(cell.rows[row].forced, Ints(forced[row].begin(), forced[row].end()));
    }
  }
  EXPECT_GT(dropped, 300U);
}

TEST_F(MInferenceTest, ComputesThePairsOfTheSlowLoops) {
  SequenceShape shape = long_shape();
  for (const int kv_heads : {2, 6}) {
    shape.num_kv_heads = kv_heads;
    expect_slow_pairs(random_sequence(shape, 31), write(kPatterns));
  }
}

// One row that looks at key 10 alone, distance 290; the rest is kept by rule.
TEST_F(MInferenceTest, HandComputedColumnsAndDiagonals) {
  Sequence sequence = one_head_sequence(2, {300, 1}, 32);
  std::fill(sequence.q.begin(), sequence.q.end(), 0.0F);
  std::fill(sequence.k.begin(), sequence.k.end(), 0.0F);
  sequence.q[600] = 10;
  sequence.k[240] = 10;  // key 120, distance 180
  const MethodRun run =
      run_method(sequence, "minference:lowering=union,config=" +
                               write(R"([{"0": ["vertical_and_slash", 31, 50, 1]}])"));
  // 30 first keys and key 120; of the 100 nearest distances the best 50, all alike: 0 to 49.
  Ints expected = range(0, 30);
  expected.push_back(120);
  const Ints near = range(251, 300);
  expected.insert(expected.end(), near.begin(), near.end());
  EXPECT_EQ(run.cells[1].rows[0].positions, expected);
}

// The code counts blocks after it has filled keys up to whole blocks: a last partial one counts.
TEST_F(MInferenceTest, AHundredBlocksAreKept) {
  SequenceShape shape = {
      .num_q_heads = 1, .num_kv_heads = 1, .head_dim = 2, .decoded = 0, .layer = 0};
  const std::string spec =
      "minference:lowering=union,config=" + write(R"([{"0": ["block_sparse", 1, 1, 1]}])");
  shape.chunk_lengths = {17, 70};
  const MethodRun few = run_method(random_sequence(shape, 36), spec);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j <= i; ++j)
      EXPECT_EQ(few.cells[1].blocks->kept[few.cells[1].blocks->index(0, i, j)], 1) << i << j;
  EXPECT_EQ(few.cells[1].rows[0].positions, range(0, 17));

  shape.chunk_lengths = {104 * 64, 10};
  Sequence sequence = random_sequence(shape, 37);
  std::fill(sequence.q.begin(), sequence.q.end(), 1.0F);
  for (std::size_t i = 0; i < sequence.k.size(); ++i)  // later blocks score more
    sequence.k[i] = static_cast<float>(i / 128) / 128.0F;
  const MethodRun many = run_method(sequence, spec);
  EXPECT_EQ(many.cells[1].rows[0].positions, range(5 * 64, 104 * 64));
  EXPECT_EQ(many.cells[1].blocks->kept[104], 1);
}

TEST_F(MInferenceTest, ThreadsAndPlacesOfKeysDoNotMatter) {
  const Sequence sequence = random_sequence(long_shape(), 33);
  const std::string spec = "minference:lowering=union,config=" + write(kPatterns);
  const MethodRun run = run_method(sequence, spec);
  const MethodRun roomy = run_method(sequence, spec, 7);
  at::set_num_threads(1);
  const MethodRun alone = run_method(sequence, spec);
  at::set_num_threads(2);
  EXPECT_EQ(positions_of(roomy), positions_of(run));
  EXPECT_EQ(positions_of(alone), positions_of(run));
  for (std::size_t chunk = 1; chunk < run.cells.size(); ++chunk) {
    if (run.cells[chunk].dense_reason) continue;
    const CellSelection fresh =
        selector_for(sequence, spec)->select(cell_of(sequence, static_cast<int>(chunk)));
    EXPECT_EQ(positions_of(fresh), positions_of(run.cells[chunk]));
    EXPECT_EQ(fresh.block_scores.values(), run.cells[chunk].block_scores.values());
  }
}

TEST_F(MInferenceTest, ABudgetKeepsWholeBlocksFirstOnesByRule) {
  const Sequence sequence = random_sequence(long_shape(), 34);
  const MethodRun run = run_method(
      sequence, "minference:lowering=budget,budget_tokens=130,config=" + write(kPatterns));
  const CellSelection& cell = run.cells[4];  // 284 past keys: four blocks and 28 tokens
  for (const SelectedRow& row : cell.rows) {
    EXPECT_EQ(row.positions.size(), 2U * 64 + 28);
    EXPECT_EQ(Ints(row.positions.begin(), row.positions.begin() + 64), range(0, 64));
    EXPECT_EQ(row.forced, row.positions);
  }
}

// Whole blocks wherever a column or diagonal lies: they cover the keys that a union reads singly.
TEST_F(MInferenceTest, NativeMasksCoverTheLines) {
  const Sequence sequence = random_sequence(long_shape(), 34);
  const std::string config = "config=" + write(kPatterns);
  const CellSelection lines = run_method(sequence, "minference:lowering=union," + config).cells[4];
  const CellSelection native =
      run_method(sequence, "minference:lowering=native," + config).cells[4];
  const trace::BlockMasks& masks = native.blocks.value();
  const int heads = sequence.shape.num_q_heads, group = sequence.gqa_group_size();
  ASSERT_EQ(static_cast<int>(native.rows.size()), heads);
  for (int kv_head = 0; kv_head < heads / group; ++kv_head) {
    std::vector<std::int32_t> together;
    for (int head = kv_head * group; head < (kv_head + 1) * group; ++head)
      together.insert(together.end(), native.rows[head].positions.begin(),
                      native.rows[head].positions.end());
    std::sort(together.begin(), together.end());
    const auto& single = lines.rows[kv_head].positions;
    EXPECT_TRUE(std::includes(together.begin(), together.end(), single.begin(), single.end()));
  }
  for (int head = 0; head < heads; ++head)
    for (std::int64_t i = 0; i < masks.grid.num_query_blocks(); ++i)
      EXPECT_EQ(masks.kept[masks.index(head, i, masks.grid.block_of_query_block(i))], 1);
}

TEST_F(MInferenceTest, SaysWhatIsWrongWithAFile) {
  const Sequence sequence = random_sequence(long_shape(), 35);
  const auto why = [&](const std::string& path) -> std::string {
    try {
      selector_for(sequence, "minference:lowering=union,config=" + path);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      return error.why();
    }
    return "";
  };
  EXPECT_EQ(why(write("[]")), "");
  EXPECT_EQ(why(write(kPatterns)), "");
  EXPECT_EQ(why(folder_ / "none"), "there is no such file");
  EXPECT_EQ(why(folder_.path().string()), "it is no file");
  EXPECT_EQ(why(write("{}")), "it is not a JSON list of layers");
  EXPECT_EQ(why(write("[{")), "it is not a JSON list of layers");
  EXPECT_EQ(why(write(std::string(100000, '['))), "it is not a JSON list of layers");
  EXPECT_EQ(why(write("[3]")), "layer 0 is not an object of heads");
  EXPECT_NE(why(write("[{},{},{},{},{},{},{},{},{},{},{}]")).find("11 layers"), std::string::npos);
  EXPECT_NE(why(write(R"([{"6": ["stream_llm", 1, 1, 1]}])")).find("head 6"), std::string::npos);
  EXPECT_NE(why(write(R"([{"a": ["stream_llm", 1, 1, 1]}])")).find("head a"), std::string::npos);
  EXPECT_NE(why(write(R"([{"0": ["a_shape", 1, 1, 1]}])")).find("a_shape"), std::string::npos);
  for (const char* entry : {"3", "[]", R"(["stream_llm", 1, 1])", R"(["stream_llm", -1, 1, 1])",
                            R"(["stream_llm", 1.5, 1, 1])", R"(["stream_llm", 1, 1, "a"])",
                            R"(["stream_llm", 1, 99999999999, 1])"})
    EXPECT_EQ(why(write(fmt::format(R"([{{"0": {}}}])", entry))),
              "layer 0, head 0 is not [type, vertical size, slash size, score]")
        << entry;
}

// Bytes changed at random: a sentence or other patterns, no crash.
TEST_F(MInferenceTest, SurvivesDamagedFiles) {
  const ModelShape model = random_sequence(long_shape(), 36).model();
  std::mt19937 random(4);
  int refused = 0;
  for (int round = 0; round < 200; ++round) {
    std::string text = kPatterns;
    for (int change = 0; change < 1 + round % 3; ++change)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    if (round % 4 == 0) text.resize(random() % text.size());
    try {
      read_patterns(write(text), model);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 50);
}

TEST_F(MInferenceTest, WrittenPatternsReadBack) {
  PatternConfig config(3);
  config[0][0] = {PatternType::StreamLlm, 30, 800, 0.25};
  config[0][5] = {PatternType::BlockSparse, 0, 0, 1.0 / 3};
  config[2][1] = {PatternType::VerticalSlash, 1000, 6096, 1};
  const fs::path path = folder_ / "written.json";
  write_patterns(path, config);
  EXPECT_EQ(read_patterns(path, random_sequence(long_shape(), 1).model()), config);
  EXPECT_EQ(pattern_of(config, 2, 0), HeadPattern{});
  EXPECT_EQ(pattern_of(config, 7, 0), HeadPattern{});
  EXPECT_EQ(pattern_of(config, 0, 0).slash_size, 800);
}

}  // namespace
}  // namespace kvloupe::selection::testing
