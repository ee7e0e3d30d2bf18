// The table of numbers against itself and against docs/metrics.md, which has their formulas.
#include "core/replay/numbers.h"
#include "core/replay/averages.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace kvloupe::replay {
namespace {

// By heading, the lines below it.
std::map<std::string, std::string> sections_of(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::map<std::string, std::string> sections;
  std::string heading;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) heading = line.substr(3);
    sections[heading] += line + "\n";
  }
  return sections;
}

// "recall_at_10" is written recall_at_k there.
std::string formula_name(const NumberInfo& info) {
  const std::string id = info.id;
  return id.starts_with("recall_at_") ? "recall_at_k" : id;
}

TEST(Numbers, HaveTheirFormulaWhereTheTableSays) {
  const auto sections =
      sections_of(std::string(KVLOUPE_TEST_SOURCE_DIR) + "/../../docs/metrics.md");
  for (const NumberInfo& info : kNumbers) {
    const auto section = sections.find(heading_of(info.section));
    ASSERT_NE(section, sections.end()) << info.id;
    bool found = false;
    std::string line;
    for (std::istringstream lines(section->second); std::getline(lines, line);) {
      const std::string first_cell = line.substr(0, line.find('|', 1));
      found = found || (line.starts_with("| ") &&
                        first_cell.find('`' + formula_name(info) + '`') != std::string::npos);
    }
    EXPECT_TRUE(found) << info.id << " has no row under " << section->first;
  }
}

TEST(Numbers, AreCalledByOneNameEach) {
  std::set<std::string> ids;
  for (const NumberInfo& info : kNumbers) {
    EXPECT_TRUE(ids.insert(info.id).second) << info.id;
    EXPECT_EQ(find_number(info.id)->number, info.number);
    EXPECT_EQ(std::string(info.sentence).back(), '.') << info.id;
  }
  EXPECT_EQ(find_number("missed_mass"), nullptr);
  EXPECT_EQ(find_number(""), nullptr);
  EXPECT_EQ(headline_of(Number::MassRecall), "Mass recall");
}

TEST(Numbers, WhatIsNotKnownIsNoNumber) {
  Numbers numbers;
  for (std::size_t i = 0; i < kNumRowNumbers; ++i)
    EXPECT_FALSE(numbers[kNumbers[i].number].has_value());
  numbers.set(Number::Gap, 0.25);
  EXPECT_EQ(numbers[Number::Gap], 0.25);
  EXPECT_FALSE(numbers[Number::SpanKept].has_value());
  numbers.set(Number::Gap, {});
  EXPECT_FALSE(numbers[Number::Gap].has_value());
}

}  // namespace
}  // namespace kvloupe::replay
