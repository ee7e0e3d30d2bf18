// What methods declare of themselves, SPEC by SPEC as the contract and the papers have it, and that
// a SPEC is a value.
#include "core/base/error.h"
#include "core/selection/spec/method_spec.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>

namespace kvloupe::selection {
namespace {

Traits traits(const std::string& text) { return MethodSpec::parse(text).traits(); }

// The methods whose SPEC, with these parameters, has a property; a file that is needed is given.
template <typename Property>
std::set<std::string> methods_with(const Property& property) {
  std::set<std::string> ids;
  for (const MethodInfo& info : catalogue()) {
    std::string text = info.id;
    for (const ParamInfo& param : info.params)
      if (param.required && param.only_for.empty())
        text += (text == info.id ? ":" : ",") + param.name + "=f";
    if (property(traits(text))) ids.insert(info.id);
  }
  return ids;
}

using Ids = std::set<std::string>;

TEST(Traits, NameTheMethodsThatHaveThem) {
  EXPECT_EQ(methods_with([](const Traits& t) { return t.evicts(); }),
            (Ids{"snapkv", "keydiff", "h2o", "tova", "streaming_llm", "infinipot", "aqua_h2o"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.lanes.has_value(); }),
            (Ids{"aqua", "static_slicing", "aqua_h2o", "aqua_memory"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.keeps_every_key(); }),
            (Ids{"aqua", "static_slicing", "aqua_memory"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.basis.has_value(); }),
            (Ids{"loki", "aqua", "static_slicing", "aqua_h2o", "aqua_memory"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.block_tables; }),
            (Ids{"compact_attention"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.needs_probe; }), (Ids{"infinipot"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.samples_rows; }),
            (Ids{"quoka", "uniform_queries", "sample_attention", "snapkv", "tova", "minference",
                 "flex_prefill"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.has_slots; }),
            (Ids{"quoka", "uniform_queries"}));
  EXPECT_EQ(methods_with([](const Traits& t) { return t.page_size > 0; }),
            (Ids{"quest", "flash_prefill", "xattention", "seer_attention", "minference",
                 "flex_prefill", "compact_attention"}));
}

TEST(Traits, FollowTheParameters) {
  EXPECT_FALSE(traits("snapkv:state=select").evicts());
  EXPECT_FALSE(traits("keydiff:state=select").evicts());
  EXPECT_TRUE(traits("quoka").acts_in_decode);
  EXPECT_FALSE(traits("quoka:decode=dense").acts_in_decode);
  EXPECT_FALSE(traits("snapkv").acts_in_decode);
  EXPECT_FALSE(traits("streaming_llm").reassigns_positions);
  EXPECT_TRUE(traits("streaming_llm:positions=reassigned").reassigns_positions);
  EXPECT_EQ(traits("compact_attention:selector=xattention,block_size=32,stride=8").page_size, 32);
  EXPECT_EQ(traits("aqua_h2o:token_ratio=0.25").cache_share, 0.25);
  EXPECT_EQ(traits("aqua").cache_share, 0);
}

TEST(Traits, OfLanesAndBases) {
  const Traits memory = traits("aqua_memory:dim_ratio=0.5,slice_ratio=0.25,basis=self");
  EXPECT_EQ(memory.lanes->kept, 0.5);
  EXPECT_EQ(memory.lanes->sliced, 0.25);
  EXPECT_FALSE(memory.lanes->leading);
  EXPECT_TRUE(memory.basis->is_self());
  EXPECT_EQ(memory.basis->kind, trace::BasisKind::Aqua);
  const Traits sliced = traits("static_slicing:basis=some/file.h5");
  EXPECT_TRUE(sliced.lanes->leading);
  EXPECT_EQ(sliced.lanes->sliced, 0);
  EXPECT_EQ(sliced.basis->where, "some/file.h5");
  EXPECT_FALSE(sliced.basis->is_auto() || sliced.basis->is_self());
  EXPECT_TRUE(traits("loki").basis->is_auto());
  EXPECT_EQ(traits("loki").basis->kind, trace::BasisKind::Loki);
}

// The page of the newest key that a step sees: of its past alone, or with its own first key.
TEST(Traits, OfTheLastPage) {
  const std::string quest = "quest:page_size=8";
  const auto prefill = trace::Phase::Prefill, decode = trace::Phase::Decode;
  EXPECT_EQ(traits(quest).forced_page(16, prefill), 1);
  EXPECT_EQ(traits(quest).forced_page(17, prefill), 2);
  EXPECT_EQ(traits(quest).forced_page(17, decode), 2);
  EXPECT_EQ(traits(quest).forced_page(16, decode), std::nullopt);  // the new token begins a page
  EXPECT_EQ(traits(quest + ",prefill=per_query").forced_page(16, prefill), std::nullopt);
  EXPECT_EQ(traits(quest + ",prefill=per_query").forced_page(15, prefill), 1);
  EXPECT_EQ(traits(quest + ",force_last_page=0").forced_page(17, prefill), std::nullopt);
  EXPECT_EQ(traits(quest + ",force_last_page=0,rule=kernel").forced_page(17, prefill), 2);
  EXPECT_EQ(traits("flash_prefill").forced_page(17, prefill), std::nullopt);
}

TEST(SpecAsAValue, IsEqualWhereTheMethodAndAllValuesAre) {
  const MethodSpec a = MethodSpec::parse("quoka:budget_tokens=7,metric=dot");
  EXPECT_EQ(a, MethodSpec::parse("quoka:metric=dot,budget_tokens=007"));
  EXPECT_EQ(a, MethodSpec::parse(a.canonical()));
  EXPECT_NE(a, MethodSpec::parse("quoka:budget_tokens=7"));
  EXPECT_NE(MethodSpec::parse("snapkv"), MethodSpec::parse("keydiff"));
  EXPECT_EQ(MethodSpec(), MethodSpec());
  EXPECT_NE(MethodSpec(), a);
  EXPECT_NE(a, MethodSpec());
}

TEST(SpecAsAValue, AFormulaIsNotItsNumber) {
  const ModelShape shape{30, 9, 3, 64};
  const MethodSpec open = MethodSpec::parse("sparq"), closed = open.resolved(shape);
  EXPECT_NE(open, closed);
  EXPECT_EQ(closed, MethodSpec::parse("sparq:num_channels=16"));
  EXPECT_EQ(closed, closed.resolved({5, 4, 2, 8}));  // resolved once and for all
  EXPECT_EQ(open.resolved({5, 4, 2, 8}).integer("num_channels"), 2);
}

TEST(SpecAsAValue, ACopyOutlivesItsOriginal) {
  std::optional<MethodSpec> original = MethodSpec::parse("aqua_memory:slice_ratio=0.5");
  const MethodSpec copy = *original;
  original.reset();
  EXPECT_EQ(copy.real("slice_ratio"), 0.5);
  EXPECT_EQ(copy.traits().lanes->sliced, 0.5);
}

TEST(SpecAsAValue, SaysItsBudgetBothWays) {
  const MethodSpec tokens = MethodSpec::parse("h2o:budget_tokens=12");
  EXPECT_EQ(tokens.budget_tokens(), 12);
  EXPECT_EQ(tokens.budget_ratio(), 0);
  const MethodSpec share = MethodSpec::parse("h2o:budget_ratio=0.5");
  EXPECT_EQ(share.budget_tokens(), 0);
  EXPECT_EQ(share.budget_ratio(), 0.5);
  for (const char* none : {"dense", "aqua", "compact_attention", "flash_prefill"}) {
    EXPECT_FALSE(MethodSpec::parse(none).has_budget()) << none;
    EXPECT_EQ(MethodSpec::parse(none).budget_tokens(), 0) << none;
    EXPECT_EQ(MethodSpec::parse(none).budget_ratio(), 0) << none;
    EXPECT_EQ(MethodSpec::parse(none).scope(), BudgetScope::Past) << none;
  }
}

TEST(SpecAsAValue, AMethodOfALaterVersionIsRefusedWithASentence) {
  try {
    MethodSpec::parse("future_method:depth=3");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    EXPECT_NE(std::string(error.what()).find("'future_method' is not a method"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvloupe::selection
