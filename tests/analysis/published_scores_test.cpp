#include "core/analysis/published_scores.h"

#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/base/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

namespace kvloupe::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<PublishedScore> read(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "p.csv", std::ios::binary) << text;
  return read_published(folder / "p.csv");
}

std::string refusal_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kHeader = "place,model,task,length,method,budget,metric,value,doubt\n";

TEST(PublishedScores, AreReadAsTheyStand) {
  const auto scores = read(std::string(kHeader) +
                           "Table 1,M,ruler,4096,quoka,1024,accuracy,87.10,\r\n"
                           "\"Table 2\",M,\"a, b\",,dense,,score,1,\"He said \"\"maybe\"\".\"\n");
  ASSERT_THAT(scores, SizeIs(2));
  EXPECT_EQ(scores[0].value, "87.10");
  EXPECT_EQ(scores[0].doubt, "");
  EXPECT_EQ(scores[1].task, "a, b");
  EXPECT_EQ(scores[1].length, "");
  EXPECT_EQ(scores[1].doubt, "He said \"maybe\".");
}

TEST(PublishedScores, OfADamagedFileSayWhatIsWrong) {
  EXPECT_THAT(refusal_of(""), HasSubstr("its first row does not name the columns"));
  EXPECT_THAT(refusal_of("place,model\n"), HasSubstr("its first row does not name the columns"));
  EXPECT_THAT(refusal_of(std::string(kHeader) + "a,b\n"), HasSubstr("row 2 has 2 columns of 9"));
  EXPECT_THAT(refusal_of(std::string(kHeader) + "\"open"), HasSubstr("row 2: "));
  EXPECT_THROW(read_published("absent.csv"), Error);
}

// Numbers that the papers' texts have in a sentence or a table of few rows, looked up by hand.
TEST(PublishedScores, ThatComeWithTheProgramAreThePapers) {
  const auto value = [](const char* paper, const auto& is) {
    const auto scores =
        read_published(paths::share_dir() / "papers" / (std::string(paper) + ".csv"));
    const auto found = std::ranges::find_if(scores, is);
    return found == scores.end() ? "absent" : found->value;
  };
  EXPECT_EQ(value("quoka",
                  [](const PublishedScore& s) {
                    return s.place == "Table 1" && s.model == "Llama-3.2-3B-Instruct" &&
                           s.method == "snapkv" && s.length == "4096";
                  }),
            "29.15");
  EXPECT_EQ(value("compact_attention",
                  [](const PublishedScore& s) {
                    return s.place == "Table 1" && s.model == "LLaMA-3.1-8B-Instruct" &&
                           s.method == "dense" && s.length == "32768";
                  }),
            "88.23");
  for (const Paper& paper : papers()) {
    const auto scores =
        read_published(paths::share_dir() / "papers" / (std::string(paper.id) + ".csv"));
    EXPECT_GT(scores.size(), 40U) << paper.id;
    for (const PublishedScore& score : scores) {
      std::size_t end = 0;
      EXPECT_NO_THROW(std::stod(score.value, &end)) << paper.id << ": " << score.value;
      EXPECT_EQ(end, score.value.size()) << paper.id << ": " << score.value;
    }
  }
}

TEST(PublishedScores, TasksOfAFamilyMeasureTheSame) {
  EXPECT_EQ(task_family("kvloupe_niah"), task_family("ruler"));
  EXPECT_EQ(task_family("niah_single_1"), task_family("ruler_average"));
  EXPECT_EQ(task_family("longbench_qasper"), task_family("longbench_trec"));
  EXPECT_NE(task_family("gsm8k"), task_family("mmlu"));
}

}  // namespace
}  // namespace kvloupe::analysis
