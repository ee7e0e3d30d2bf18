// Lane methods on traces made by h5py, held against tests/tools/selection_oracle: plain fp64 loops
// in Python over singular vectors, no code in common.
#include "core/replay/replay.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace kvloupe::analysis {
namespace {

using nlohmann::json;

const std::filesystem::path kGoldens =
    std::filesystem::path(KVLOUPE_TEST_SOURCE_DIR) / "../data/goldens";

// Rows whose lanes hang on a hair may choose another one, which moves two counts by one.
void expect_head(const json& want, const replay::LaneRow& lanes, double output_error) {
  const auto counts = want["counts"].get<std::vector<int>>();
  ASSERT_EQ(lanes.counts.size(), counts.size());
  const int close = want["close"];
  int moved = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) moved += std::abs(counts[i] - lanes.counts[i]);
  EXPECT_LE(moved, 2 * close);
  EXPECT_NEAR(lanes.score_error, want["score_error"].get<double>(), 1e-4 * (1 + close));
  EXPECT_NEAR(output_error, want["output_error"].get<double>(), 1e-4 * (1 + close));
}

void expect_cell(const json& want, const replay::ReplayCell& cell, bool evicts) {
  const json reason = want["reason"];
  EXPECT_EQ(cell.dense_reason.has_value(), !reason.is_null());
  if (cell.dense_reason) {
    EXPECT_EQ(name_of(*cell.dense_reason), reason.get<std::string>());
  }
  EXPECT_EQ(cell.dense_fallback, reason == "empty_past");
  ASSERT_EQ(cell.lanes.size(), want["heads"].size());
  ASSERT_EQ(cell.output_error.size(), want["heads"].size());
  for (std::size_t head = 0; head < cell.lanes.size(); ++head) {
    SCOPED_TRACE("head " + std::to_string(head));
    expect_head(want["heads"][head], cell.lanes[head], cell.output_error[head]);
  }
  if (!evicts) return;
  for (std::size_t row = 0; row < cell.rows.size(); ++row) {
    const auto alive = want["alive"][row].get<std::vector<std::int32_t>>();
    const auto near = want["near"][row].get<std::vector<std::int32_t>>();
    std::vector<std::int32_t> odd, real;
    std::set_symmetric_difference(alive.begin(), alive.end(), cell.rows[row].selected.begin(),
                                  cell.rows[row].selected.end(), std::back_inserter(odd));
    std::set_difference(odd.begin(), odd.end(), near.begin(), near.end(), std::back_inserter(real));
    EXPECT_EQ(real, std::vector<std::int32_t>{}) << "row " << row;
  }
}

class LanesGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(LanesGolden, EveryCellIsWhatTheOracleSays) {
  const session::TraceSession session(kGoldens / (GetParam() + ".h5"));
  std::ifstream file(kGoldens / (GetParam() + "_lanes.json"));
  const json goldens = json::parse(file);
  ASSERT_GE(goldens.size(), 10u);
  int cells = 0;
  for (const auto& [text, layers] : goldens.items()) {
    SCOPED_TRACE(text);
    replay::ReplayRequest request;
    request.spec = selection::MethodSpec::parse(text).resolved(session.shape());
    request.want_output_error = true;
    const replay::ReplayResult result = replay::replay(session, request, {});
    ASSERT_TRUE(result.basis.has_value());
    EXPECT_TRUE(result.basis->leakage);
    EXPECT_EQ(result.basis->source, "this trace");
    const bool evicts = request.spec.traits().evicts();
    for (const auto& [layer, want] : layers.items()) {
      for (std::size_t chunk = 0; chunk < want["chunks"].size(); ++chunk) {
        SCOPED_TRACE("layer " + layer + " chunk " + std::to_string(chunk));
        const replay::ReplayCell* cell = result.find(std::stoi(layer), static_cast<int>(chunk));
        ASSERT_NE(cell, nullptr);
        expect_cell(want["chunks"][chunk], *cell, evicts);
        ++cells;
      }
    }
  }
  EXPECT_GE(cells, 36);
}

INSTANTIATE_TEST_SUITE_P(Traces, LanesGolden, ::testing::Values("group3_f16", "group1_f32"));

}  // namespace
}  // namespace kvloupe::analysis
