// Results of an evaluation as the window has them: what is compared, what is said first, and the way to a sample's trace.
#include "app/state/questions/results/lost_answer.h"
#include "app/state/questions/results/needle_grid.h"
#include "app/state/questions/results/published.h"
#include "app/state/questions/results/task_scores.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "tests/gui/results_steps.h"
#include "tests/gui/workspace_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>

namespace kvloupe::state {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ResultsState : public ::testing::Test {
 protected:
  void SetUp() override {
    test::open_results(workspace);
    ASSERT_NE(workspace.results.ready(), nullptr) << workspace.results.error();
  }
  std::string finding() {
    return test::answer(workspace, task_scores_question(workspace))->finding;
  }

  Workspace workspace;
};

TEST_F(ResultsState, DenseIsWhatOthersAreComparedWith) {
  EXPECT_THAT(workspace.results.shown(),
              ElementsAre("dense", "quoka:budget_tokens=64", "quoka:budget_tokens=256",
                          "snapkv:budget_tokens=64"));
  EXPECT_EQ(workspace.results.against(), "dense");
  EXPECT_EQ(workspace.results.ready()->label_of("quoka:budget_tokens=64"), "quoka 64");
}

TEST_F(ResultsState, TheWorstCellIsSaidFirst) {
  EXPECT_EQ(finding(),
            "snapkv 64 falls furthest below dense in kvloupe_niah: 0.33 against 0.96 (24 "
            "samples, p below 0.001).");
  const auto answer = test::answer(workspace, task_scores_question(workspace));
  ASSERT_GE(answer->worst, 0);
  EXPECT_NEAR(answer->scores.cells[static_cast<std::size_t>(answer->worst)].mean, 0.33, 0.005);
  workspace.choose("task_scores", "across", "depth");
  EXPECT_EQ(finding(),
            "snapkv 64 falls furthest below dense at depth 0 %: 0 against 1 (8 samples, p "
            "0.008).");
  workspace.results.show_methods({"dense", "quoka:budget_tokens=256"});
  workspace.choose("task_scores", "across", "length");
  EXPECT_THAT(finding(), HasSubstr("quoka 256 falls furthest below dense at 512 tokens"));
}

TEST_F(ResultsState, MethodsAreNamedAsSpecsAre) {
  workspace.results.show_methods({"snapkv:window=32,budget_tokens=64", "dense"});
  EXPECT_THAT(workspace.results.shown(), ElementsAre("snapkv:budget_tokens=64", "dense"));
  EXPECT_EQ(workspace.results.against(), "snapkv:budget_tokens=64");
  EXPECT_EQ(finding(), "No method does worse than snapkv 64 on any sample.");
  EXPECT_THROW(workspace.results.show_methods({"h2o"}), Error);
}

TEST_F(ResultsState, BudgetsAreColumnsOfOneMethod) {
  workspace.choose("task_scores", "across", "budget");
  const auto answer = test::answer(workspace, task_scores_question(workspace));
  EXPECT_THAT(answer->row_labels, ElementsAre("dense", "quoka", "snapkv"));
  EXPECT_THAT(answer->column_labels, ElementsAre("64 keys", "256 keys", "all keys"));
}

TEST_F(ResultsState, OneTaskHasAColumnForEachBudgetOrLength) {
  ReadResults results = *workspace.results.ready();
  const auto across = [&] {
    const ResultsSight sight = scores_across_more_than_one(results);
    return sight.options.empty() ? "task" : sight.options.at("task_scores.across");
  };
  EXPECT_EQ(across(), "task");
  std::erase_if(results.file.samples, [](const auto& s) { return s.task != "kvloupe_niah"; });
  EXPECT_EQ(across(), "budget");
  std::erase_if(results.file.samples, [](const auto& s) { return s.budget == 256; });
  EXPECT_EQ(across(), "length");
}

TEST_F(ResultsState, NeedlesHaveAGridForEachMethod) {
  const auto answer = test::answer(workspace, needle_grid_question(workspace));
  EXPECT_THAT(answer->lengths, ElementsAre(512, 1024));
  EXPECT_THAT(answer->depths, ElementsAre(0, 50, 100));
  ASSERT_EQ(answer->grids.size(), 4U);
  EXPECT_EQ(answer->grids[1].scores.at(1, 1).mean, 0);
  EXPECT_EQ(answer->grids[0].scores.at(1, 1).mean, 0.75);
  // In three cells it finds nothing where dense finds all; where dense misses some too it loses less.
  EXPECT_EQ(answer->finding,
            "snapkv 64 misses most in 3 of 6 cells: it scores 0 where dense scores 1.");
  workspace.results.show_methods({"dense", "quoka:budget_tokens=256"});
  EXPECT_THAT(test::answer(workspace, needle_grid_question(workspace))->finding,
              HasSubstr("quoka 256 misses most at 512 tokens, depth 50 %: "));
}

// Needles have lengths, so that a row is a model, a method and a budget: read beside the file itself.
TEST_F(ResultsState, PublishedScoresOfTheSameTasksStandByLength) {
  workspace.choose("task_scores", "published", "quoka");
  const auto answer = test::answer(workspace, published_question(workspace));
  const Table& table = answer->table;
  ASSERT_GT(table.columns.size(), 6U);
  EXPECT_EQ(table.columns[1].id, "model");
  EXPECT_THAT(answer->words, HasSubstr("As printed, up to 100; the map above goes to 1."));
  const auto text = [&](std::size_t row, const std::string& id) {
    return table::exact_text(table.at(row, id));
  };
  std::size_t found = 0;
  for (const analysis::PublishedScore& score :
       analysis::read_published(paths::share_dir() / "papers" / "quoka.csv")) {
    if (score.task != "ruler" || score.metric != "accuracy" ||
        (score.method != "dense" && score.method != "quoka" && score.method != "snapkv"))
      continue;
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      if (text(row, "place") != score.place || text(row, "model") != score.model ||
          text(row, "method") != score.method || text(row, "budget") != score.budget)
        continue;
      ++found;
      EXPECT_EQ(text(row, "ruler, " + score.length), score.value) << score.place << score.model;
    }
  }
  EXPECT_GT(found, 20U);
  EXPECT_EQ(answer->doubts.size(), table.rows.size() * table.columns.size());
}

TEST_F(ResultsState, ATraceLiesWithItsResults) {
  const ReadResults& results = *workspace.results.ready();
  trace::ResultSample sample;
  EXPECT_EQ(trace_of(results, sample), "");
  const std::filesystem::path folder = std::filesystem::path(test::results_file()).parent_path();
  sample.trace = "needles.traces/lost.h5";
  EXPECT_EQ(trace_of(results, sample), (folder / "needles.traces/lost.h5").string());
  for (const char* elsewhere : {"/etc/passwd", "../secret.h5", "a/../../secret.h5"}) {
    sample.trace = elsewhere;
    EXPECT_EQ(trace_of(results, sample), "") << elsewhere;
  }
}

// Results that a test makes up, as the question of the needle grid has them.
struct Needles {
  std::shared_ptr<ReadResults> results = std::make_shared<ReadResults>();
  void add(const char* method, double score, std::int64_t length, const char* refused = "") {
    trace::ResultSample sample;
    sample.task = "kvloupe_niah";
    sample.method = method;
    sample.sample = "text " + std::to_string(length);
    sample.length = length;
    sample.depth = 50;
    sample.score = score;
    sample.refused = refused;
    results->file.samples.push_back(sample);
    results->labels[method] = method;
    if (std::ranges::find(results->methods, method) == results->methods.end())
      results->methods.push_back(method);
  }
  ResultsPtr opened() {
    ++results->id;
    return std::make_shared<ReadResults>(*results);
  }
  template <typename Question>
  std::string finding(Workspace& workspace, Question question) {
    question.results = opened();
    question.methods = results->methods;
    question.against = results->methods.front();
    const auto answer = test::answer(workspace, question);
    return answer ? answer->finding : answer.error;
  }
  std::string of_grid(Workspace& workspace) { return finding(workspace, NeedleGridQuestion()); }
};

TEST(Results, NothingIsFoundWhereNothingWasScored) {
  Workspace workspace;
  Needles needles;
  constexpr double kNone = trace::ResultSample::kUnknown;
  needles.add("dense", kNone, 512, "too long");
  EXPECT_EQ(needles.of_grid(workspace), "No sample is scored: 1 sample was refused.");
  needles.add("quoka 64", kNone, 512, "too long");
  EXPECT_EQ(needles.of_grid(workspace),
            "No sample is scored of a method and of dense: 1 sample was refused.");
  needles.add("dense", 1, 1024);
  needles.add("quoka 64", 1, 1024);
  EXPECT_EQ(needles.of_grid(workspace), "Every method finds all that dense finds.");
  needles.add("h2o 64", kNone, 1024);  // not answered yet
  EXPECT_EQ(needles.of_grid(workspace),
            "quoka 64 finds all that dense finds. The others share no scored sample with dense.");
}

// A cell for each length and depth: a few kilobytes of a file would ask for gigabytes.
TEST(Results, AGridOfMoreCellsThanAnybodyReadsIsRefused) {
  Workspace workspace;
  Needles needles;
  for (int i = 0; i < 300; ++i) {
    needles.add("dense", 1, 512 + i);
    needles.results->file.samples.back().depth = i;
  }
  EXPECT_THAT(needles.of_grid(workspace), HasSubstr("300 lengths, 300 depths"));
}

TEST(Results, AMethodIsSetAgainstTheSamplesThatBothAnswered) {
  Workspace workspace;
  Needles needles;
  needles.add("dense", 1, 512);
  needles.add("quoka 64", 0, 512);
  for (const int length : {1024, 2048}) needles.add("quoka 64", 1, length);
  TaskScoresQuestion question;
  question.across = "task";
  EXPECT_EQ(needles.finding(workspace, question),
            "quoka 64 falls furthest below dense in kvloupe_niah: 0 against 1 (1 sample, p 1.00).");
  needles.add("dense", 0, 1024);  // as often better as worse
  EXPECT_EQ(needles.finding(workspace, question), "No method does worse than dense on average.");
}

// A method that keeps as much as it sees fit stands beside those with a budget, and what has no column is
// no proof that nothing is lost.
TEST(Results, SamplesWithoutABudgetOrALengthAreNotPassedOver) {
  Workspace workspace;
  Needles needles;
  const auto add = [&](const char* method, double score, std::int64_t budget, int length) {
    needles.add(method, score, length);
    needles.results->file.samples.back().budget = budget;
  };
  for (const int length : {512, 1024}) {
    add("dense", 1, -1, length);
    add("quoka:budget_tokens=64", 1, 64, length);
    add("quoka:budget_tokens=256", 1, 256, length);
    add("quoka:budget_ratio=0.1", 0, -1, length);
    add("xattention", 0.5, -1, length);
  }
  TaskScoresQuestion question;
  question.across = "budget";
  EXPECT_THAT(needles.finding(workspace, question),
              HasSubstr("falls furthest below dense with no fixed budget: 0 against 1"));
  needles.results->file.samples.clear();
  add("dense", 1, -1, 512);
  add("quoka:budget_tokens=64", 1, 64, 512);
  add("dense", 1, -1, -1);
  add("quoka:budget_tokens=64", 0, 64, -1);
  question.across = "length";
  EXPECT_EQ(needles.finding(workspace, question),
            "Of the samples with a length, no method does worse than dense on any.");
}

TEST(Results, TheMethodThatAnsweredTheSameText) {
  ReadResults results;
  const auto add = [&](const char* method, double score, std::int64_t budget,
                       const char* text = "text 1") {
    trace::ResultSample sample;
    sample.task = "kvloupe_niah";
    sample.sample = text;
    sample.method = method;
    sample.score = score;
    sample.budget = budget;
    results.file.samples.push_back(sample);
    return sample;
  };
  const trace::ResultSample lost = add("snapkv 64", 0.5, 64);
  add("dense", 1, -1);
  EXPECT_EQ(method_that_answered(results, lost), "") << "dense keeps all";
  add("h2o 64", 0.5, 64);
  add("h2o 32", trace::ResultSample::kUnknown, 32);
  add("quest 64", 1, 64, "text 2");
  EXPECT_EQ(method_that_answered(results, lost), "") << "none is better at this text";
  add("aqua", 1, -1);
  EXPECT_EQ(method_that_answered(results, lost), "aqua");
  add("quoka 256", 1, 256);
  EXPECT_EQ(method_that_answered(results, lost), "quoka 256");
  add("quoka 128", 1, 128);
  EXPECT_EQ(method_that_answered(results, lost), "quoka 128") << "the least budget";
  add("quoka 64", 1, 64);
  add("quoka 32", 1, 32);
  EXPECT_EQ(method_that_answered(results, lost), "quoka 64") << "its own budget";
  add("oracle 512", 2, 512);
  EXPECT_EQ(method_that_answered(results, lost), "oracle 512") << "the best score";
  trace::ResultSample less = lost;
  less.higher_is_better = false;
  EXPECT_EQ(method_that_answered(results, less), "") << "none has less";
  less.method = "quoka 64";
  less.score = 1;
  EXPECT_EQ(method_that_answered(results, less), "snapkv 64") << "less is better";
}

TEST(Results, AFileIsOpenedAsWhatItIs) {
  Workspace workspace;
  workspace.traces.open(test::results_file());
  test::settle(workspace);
  EXPECT_TRUE(workspace.traces.tabs().empty());
  EXPECT_NE(workspace.results.ready(), nullptr);
  workspace.results.open("/nonexistent.h5");
  test::settle(workspace);
  EXPECT_THAT(workspace.results.error(), HasSubstr("there is no such file"));
  workspace.results.close();
  EXPECT_FALSE(workspace.results.is_open());
  EXPECT_EQ(problem_of(workspace.ask(task_scores_question(workspace))),
            "Open results of an evaluation");
}

}  // namespace
}  // namespace kvloupe::state
