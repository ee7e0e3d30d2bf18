// Lists of methods as text: `all`, parameters for all, methods that lack a file.
#include "core/base/error.h"
#include "core/replay/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace kvloupe::replay {
namespace {

using selection::MethodSpec;

TEST(ParseMethods, ThresholdMethodsTakeABudgetToRankBlocksBy) {
  int ranking = 0;
  for (const MethodSpec& spec :
       parse_methods("all:budget_tokens=512,lowering=budget").required_specs()) {
    if (spec.info().budget != selection::BudgetUse::Optional) continue;
    EXPECT_EQ(spec.integer("budget_tokens"), 512) << spec.id();
    EXPECT_EQ(spec.text("lowering"), "budget") << spec.id();
    ++ranking;
  }
  EXPECT_GE(ranking, 3);
  EXPECT_THROW(parse_methods("all:lowering=budget"), Error);
}

TEST(ParseMethods, MethodsThatLackAFileAreNamed) {
  const MethodList all = parse_methods("all:budget_tokens=9");
  std::set<std::string> lacking;
  for (const UnavailableMethod& entry : all.unavailable) {
    lacking.insert(entry.method.substr(0, entry.method.find(':')));
    EXPECT_NE(std::string(entry.error.what()).find("needs"), std::string::npos);
  }
  for (const selection::MethodInfo& info : selection::catalogue()) {
    const bool needs_file = std::any_of(
        info.params.begin(), info.params.end(),
        [](const selection::ParamInfo& param) { return param.required && param.only_for.empty(); });
    EXPECT_EQ(lacking.contains(info.id), needs_file) << info.id;
  }
}

TEST(ParseMethods, AllTakesParametersWhereTheyExist) {
  for (const MethodSpec& spec :
       parse_methods("all:budget_tokens=77,window=9,budget_scope=all").required_specs()) {
    // Threshold methods have no budget unless they are told to rank blocks.
    const bool by_threshold = spec.info().budget == selection::BudgetUse::Optional;
    EXPECT_TRUE(!spec.has("budget_tokens") ||
                spec.integer("budget_tokens") == (by_threshold ? 0 : 77))
        << spec.id();
    EXPECT_TRUE(!spec.has("window") || spec.integer("window") == 9) << spec.id();
    EXPECT_EQ(spec.scope() == selection::BudgetScope::All, spec.info().accepts_scope_all)
        << spec.id();
  }
  EXPECT_EQ(parse_methods("quoka:budget_tokens=5").required_specs().size(), 1U);
  for (const char* wrong : {"all:", "all:nonesuch=1", "all:budget_tokens=x", "all:=3", "al",
                            "run:3", "run:x", "custom:mine"}) {
    try {
      parse_methods(wrong).required_specs();
      FAIL() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage) << wrong;
    }
  }
}

}  // namespace
}  // namespace kvloupe::replay
