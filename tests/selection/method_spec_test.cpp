// Method SPECs: canonical texts word for word, and everything that must be refused.
#include "core/selection/spec/method_spec.h"

#include "core/base/error.h"
#include "core/selection/spec/default_budget.h"
#include "core/selection/spec/recorded_spec.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::selection {
namespace {

const ModelShape kShape{30, 9, 3, 64};

std::string canonical(const std::string& text) {
  return MethodSpec::parse(text).resolved(kShape).canonical();
}

TEST(MethodSpec, WritesAllParametersInTheContractsOrder) {
  const std::string budget = "budget_tokens=1024,budget_ratio=0,budget_scope=past,skip_layers=0";
  EXPECT_EQ(canonical("dense"), "dense");
  EXPECT_EQ(canonical("oracle"), "oracle:" + budget + ",reduce=sum");
  EXPECT_EQ(canonical("random"), "random:" + budget + ",seed=0");
  EXPECT_EQ(canonical("sliding_window"), "sliding_window:" + budget);
  EXPECT_EQ(canonical("quoka"),
            "quoka:" + budget +
                ",num_queries=16,metric=cosine,query_reduce=max,group_query_mode=rank_paired,"
                "decode=select");
  EXPECT_TRUE(canonical("quoka:query_ratio=0.25").ends_with(",decode=select,query_ratio=0.25"));
  EXPECT_EQ(canonical("quoka:query_ratio=0"), canonical("quoka"));
  EXPECT_EQ(canonical("uniform_queries"), "uniform_queries:" + budget + ",num_queries=16");
  EXPECT_EQ(canonical("snapkv"), "snapkv:" + budget + ",window=32,kernel=7,pool=max,state=evict");
  EXPECT_EQ(canonical("h2o"), "h2o:" + budget + ",recent_ratio=0.5,normalise=none,start=prefill");
  EXPECT_TRUE(canonical("h2o:start=decode").ends_with(",normalise=none,start=decode"));
  EXPECT_EQ(canonical("keydiff"), "keydiff:" + budget + ",state=evict");
  EXPECT_EQ(canonical("streaming_llm"),
            "streaming_llm:" + budget + ",sink_tokens=4,positions=original");
}

TEST(MethodSpec, WithOtherValuesIsTheSpecThatNamesThem) {
  const auto with = [](const std::string& text, const ParamValues& changes) {
    return MethodSpec::parse(text).with(changes);
  };
  EXPECT_EQ(with("quoka:num_queries=4", {{"budget_tokens", "32"}}),
            MethodSpec::parse("quoka:budget_tokens=32,num_queries=4"));
  // One budget takes the place of the other.
  EXPECT_EQ(with("quoka:budget_tokens=64", {{"budget_ratio", "0.5"}}),
            MethodSpec::parse("quoka:budget_ratio=0.5"));
  EXPECT_EQ(with("quoka:budget_ratio=0.5", {{"budget_tokens", "64"}}),
            MethodSpec::parse("quoka:budget_tokens=64"));
  // What is a formula of the model stays one.
  EXPECT_EQ(with("sparq", {{"budget_tokens", "64"}}), MethodSpec::parse("sparq:budget_tokens=64"));
  for (const ParamValues& wrong : {ParamValues{{"num_queries", "0"}},
                                   {{"page_size", "4"}},
                                   {{"budget_tokens", "0"}},
                                   {{"budget_tokens", "8"}, {"budget_ratio", "0.5"}}})
    EXPECT_THROW(with("quoka", wrong), Error);
}

TEST(MethodSpec, NumbersInUseAreThoseThatCanBeVaried) {
  const auto has = [](const std::string& text, const char* name) {
    return MethodSpec::parse(text).number(name) != nullptr;
  };
  EXPECT_TRUE(has("quoka", "num_queries"));
  EXPECT_TRUE(has("quoka", "budget_ratio"));
  EXPECT_TRUE(has("sparq", "num_channels"));
  EXPECT_FALSE(has("quoka", "metric"));
  EXPECT_FALSE(has("tova", "force_last"));
  EXPECT_FALSE(has("dense", "budget_tokens"));
  EXPECT_FALSE(has("flash_prefill", "budget_tokens"));
  EXPECT_TRUE(has("flash_prefill:lowering=budget,budget_tokens=64", "budget_tokens"));
  EXPECT_TRUE(has("flash_prefill", "alpha"));
}

TEST(MethodSpec, MethodsWithDenseLayersOfTheirOwnSkipNoOthers) {
  EXPECT_EQ(MethodSpec::parse("quest").traits().dense_layers, 2);
  EXPECT_EQ(MethodSpec::parse("quest:skip_layers=0").traits().dense_layers, 0);
  EXPECT_EQ(MethodSpec::parse("h2o:skip_layers=3").traits().dense_layers, 3);
  for (const char* text : {"tidal_decode:skip_layers=1", "less_is_more:skip_layers=1",
                           "dense:skip_layers=1", "aqua:skip_layers=1", "oracle:skip_layers=-1"})
    EXPECT_THROW(MethodSpec::parse(text), Error) << text;
}

TEST(MethodSpec, ListsTheMethodsInTheContractsOrder) {
  const std::vector<std::string> contract = {"dense",
                                             "oracle",
                                             "random",
                                             "sliding_window",
                                             "quoka",
                                             "uniform_queries",
                                             "sample_attention",
                                             "sparq",
                                             "loki",
                                             "tidal_decode",
                                             "less_is_more",
                                             "snapkv",
                                             "keydiff",
                                             "h2o",
                                             "tova",
                                             "streaming_llm",
                                             "infinipot",
                                             "quest",
                                             "aqua",
                                             "static_slicing",
                                             "aqua_h2o",
                                             "aqua_memory",
                                             "flash_prefill",
                                             "xattention",
                                             "seer_attention",
                                             "minference",
                                             "flex_prefill",
                                             "compact_attention"};
  std::vector<std::string> ids;
  for (const MethodInfo& info : catalogue()) ids.push_back(info.id);
  EXPECT_EQ(ids, contract);
}

TEST(MethodSpec, ARatioReplacesTheDefaultTokens) {
  EXPECT_EQ(
      canonical("keydiff:budget_ratio=0.25"),
      "keydiff:budget_tokens=0,budget_ratio=0.25,budget_scope=past,skip_layers=0,state=evict");
  EXPECT_EQ(canonical("keydiff:budget_tokens=0,budget_ratio=1"),
            "keydiff:budget_tokens=0,budget_ratio=1,budget_scope=past,skip_layers=0,state=evict");
  EXPECT_EQ(
      canonical("keydiff:budget_ratio=-0"),
      "keydiff:budget_tokens=1024,budget_ratio=0,budget_scope=past,skip_layers=0,state=evict");
}

TEST(MethodSpec, TheDefaultBudgetIsThatOfASpecUnlessItWouldKeepAll) {
  EXPECT_EQ(MethodSpec::parse("quoka").budget_tokens(), 1024);
  EXPECT_EQ(selection::default_budget(100000), 1024);
  EXPECT_EQ(selection::default_budget(1025), 1024);
  EXPECT_EQ(selection::default_budget(1024), 128);
  EXPECT_EQ(selection::default_budget(152), 19);
  EXPECT_EQ(selection::default_budget(127), 16);
  EXPECT_EQ(selection::default_budget(1), 16);
}

TEST(MethodSpec, NumbersTakeTheirShortestForm) {
  EXPECT_EQ(canonical("random:seed=007,budget_ratio=0.50000"),
            "random:budget_tokens=0,budget_ratio=0.5,budget_scope=past,skip_layers=0,seed=7");
  EXPECT_EQ(canonical("random:budget_ratio=1e-1"),
            "random:budget_tokens=0,budget_ratio=0.1,budget_scope=past,skip_layers=0,seed=0");
}

// A SPEC with what the method cannot do without, ready for further parameters.
std::string with_required(const MethodInfo& info) {
  std::string spec = info.id;
  for (const ParamInfo* param : params_with(info, {}))
    if (param->required) spec += fmt::format("{}{}=x", spec == info.id ? ":" : ",", param->name);
  return spec;
}
std::string and_also(const std::string& spec, const std::string& params) {
  return spec + (spec.find(':') == std::string::npos ? ":" : ",") + params;
}

TEST(MethodSpec, TheCanonicalTextOfACanonicalTextIsItself) {
  for (const MethodInfo& info : catalogue()) {
    const std::string plain = canonical(with_required(info));
    EXPECT_EQ(canonical(plain), plain);
    if (!MethodSpec::parse(plain).has("budget_ratio")) continue;
    std::string by_ratio = and_also(with_required(info), "budget_ratio=0.3");
    if (MethodSpec::parse(plain).has("lowering")) by_ratio += ",lowering=budget";
    EXPECT_EQ(canonical(canonical(by_ratio)), canonical(by_ratio));
  }
}

TEST(MethodSpec, AFileThatAMethodNeedsHasNoDefault) {
  for (const char* spec : {"seer_attention", "seer_attention:threshold=0.1", "minference",
                           "minference:budget_tokens=64,lowering=budget",
                           "compact_attention:selector=seer_attention"}) {
    try {
      MethodSpec::parse(spec);
      ADD_FAILURE() << spec << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage);
      EXPECT_NE(std::string(error.what()).find(" needs "), std::string::npos);
    }
  }
  EXPECT_EQ(
      canonical("seer_attention:gate=a.safetensors"),
      "seer_attention:budget_tokens=0,budget_ratio=0,budget_scope=past,skip_layers=0,block_size=64,"
      "threshold=0.0003,gate=a.safetensors,lowering=native");
  EXPECT_EQ(
      canonical("minference:config=a.json"),
      "minference:budget_tokens=0,budget_ratio=0,budget_scope=past,skip_layers=0,config=a.json,"
      "lowering=native");
}

// Named alone a block method is its own paper's.
TEST(MethodSpec, ABlockMethodNamedAloneIsThePapers) {
  const std::string common = "budget_tokens=0,budget_ratio=0,budget_scope=past,skip_layers=0,";
  EXPECT_EQ(canonical("flash_prefill"), "flash_prefill:" + common +
                                            "block_size=128,alpha=0.01,sink_blocks=2,"
                                            "window_blocks=4,last_full_blocks=0,lowering=native");
  EXPECT_EQ(canonical("xattention"),
            "xattention:" + common + "block_size=128,stride=16,tau=0.9,lowering=native");
  EXPECT_EQ(
      canonical("flex_prefill"),
      "flex_prefill:" + common + "block_size=128,gamma=0.9,tau=0.1,min_budget=512,lowering=native");
  for (const char* id :
       {"flash_prefill", "xattention", "flex_prefill", "seer_attention", "minference"}) {
    SCOPED_TRACE(id);
    const MethodInfo& info = *find_method(id);
    EXPECT_EQ(info.row_axis, trace::RowAxis::QHead);
    EXPECT_EQ(MethodSpec::parse(info.paper_spec).canonical().find("lowering=union"),
              std::string::npos);
    const std::string file = with_required(info);
    EXPECT_EQ(title_of(MethodSpec::parse(file)), info.title);
    EXPECT_EQ(title_of(MethodSpec::parse(and_also(file, "lowering=union"))),
              info.title + ", union of blocks");
    EXPECT_EQ(title_of(MethodSpec::parse(and_also(file, "lowering=budget,budget_tokens=256"))),
              info.title + ", best blocks of a budget");
  }
  EXPECT_EQ(MethodSpec::parse("flash_prefill"),
            MethodSpec::parse(find_method("flash_prefill")->paper_spec));
  EXPECT_EQ(MethodSpec::parse("seer_attention:gate=PATH"),
            MethodSpec::parse(find_method("seer_attention")->paper_spec));
}

// Runs of before name no lowering, or are made by others: the run says what its rows are.
TEST(MethodSpec, ARecordedTextWithoutALoweringIsWhatItsRunSays) {
  const ModelShape shape = {.num_layers = 4, .num_q_heads = 6, .num_kv_heads = 2, .head_dim = 8};
  trace::RunInfo run;
  run.method = "flash_prefill:block_size=8";
  run.granularity = trace::Granularity::Block;
  run.lowering = trace::Lowering::Union;
  EXPECT_EQ(spec_of_run(run, shape),
            MethodSpec::parse("flash_prefill:block_size=8,lowering=union"));
  run.lowering = trace::Lowering::Native;
  EXPECT_EQ(spec_of_run(run, shape), MethodSpec::parse("flash_prefill:block_size=8"));
  run.method = "quoka:budget_tokens=8";
  run.lowering = trace::Lowering::Union;
  EXPECT_EQ(spec_of_run(run, shape), MethodSpec::parse("quoka:budget_tokens=8"));
  run.method = "compact_attention";
  EXPECT_EQ(spec_of_run(run, shape), MethodSpec::parse("compact_attention"));
}

TEST(MethodSpec, NativeMasksTakeNoBudgetAndHaveRowsOfQueryHeads) {
  const ModelShape shape = {.num_layers = 4, .num_q_heads = 6, .num_kv_heads = 2, .head_dim = 8};
  int methods = 0;
  for (const MethodInfo& info : catalogue()) {
    const std::string plain = with_required(info);
    if (!MethodSpec::parse(plain).has("lowering")) continue;
    ++methods;
    const MethodSpec native = MethodSpec::parse(plain);
    const MethodSpec united = MethodSpec::parse(and_also(plain, "lowering=union"));
    EXPECT_EQ(native, MethodSpec::parse(and_also(plain, "lowering=native")));
    EXPECT_EQ(MethodSpec::parse(native.canonical()), native);
    EXPECT_TRUE(native.traits().native_masks);
    EXPECT_FALSE(united.traits().native_masks);
    EXPECT_EQ(row_layout(native, shape).axis, trace::RowAxis::QHead);
    EXPECT_EQ(row_layout(native, shape).q_heads_per_row, 1);
    EXPECT_EQ(row_layout(united, shape).axis, trace::RowAxis::KvHead);
    for (const std::string lowering : {"native", "union"})
      for (const char* budget : {",budget_tokens=64", ",budget_ratio=0.5"}) {
        try {
          MethodSpec::parse(and_also(plain, "lowering=" + lowering + budget));
          ADD_FAILURE() << info.id << " took " << budget;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::Usage);
          EXPECT_NE(error.why().find(lowering), std::string::npos) << error.what();
        }
      }
  }
  EXPECT_EQ(methods, 5);
  EXPECT_THROW(MethodSpec::parse("compact_attention:lowering=native"), Error);
}

TEST(MethodSpec, CompactAttentionTakesTheParametersOfItsSelectorOnly) {
  EXPECT_EQ(MethodSpec::parse("compact_attention:selector=seer_attention,gate=a").canonical(),
            "compact_attention:selector=seer_attention,subgroup_size=4,block_size=64,"
            "threshold=0.0005,gate=a");
  EXPECT_EQ(MethodSpec::parse("compact_attention").canonical(),
            "compact_attention:selector=flash_prefill,subgroup_size=4,block_size=128,alpha=0.06,"
            "sink_blocks=2,window_blocks=4,last_full_blocks=0");
  EXPECT_EQ(MethodSpec::parse("compact_attention:tau=0.8,selector=xattention").canonical(),
            "compact_attention:selector=xattention,subgroup_size=4,block_size=128,stride=16,"
            "tau=0.8");
  for (const char* text :
       {"compact_attention:tau=0.8", "compact_attention:lowering=union",
        "compact_attention:selector=xattention,alpha=0.1", "compact_attention:budget_tokens=10",
        "flash_prefill:budget_tokens=10", "flash_prefill:lowering=budget",
        "flash_prefill:block_size=0", "flex_prefill:gamma=0", "xattention:tau=1.1"}) {
    try {
      MethodSpec::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Usage) << text;
    }
  }
}

class Refused : public ::testing::TestWithParam<const char*> {};

TEST_P(Refused, AsAUsageError) {
  try {
    MethodSpec::parse(GetParam());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Usage);
    const std::string text = error.what();
    EXPECT_EQ(std::count(text.begin(), text.end(), ';'), 2) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Refused,
    ::testing::Values(
        "", "nonesuch", "QUOKA", " quoka", "quoka:", "quoka:,", "quoka:num_queries",
        "quoka:num_queries=", "quoka:=4", "quoka:num_queries=4,", "quoka:num_queries=16x",
        "quoka:num_queries= 16", "quoka:num_queries=1.5", "quoka:num_queries=+4",
        "quoka:num_queries=0x10", "quoka:num_queries=0", "quoka:num_queries=-3",
        "quoka:num_queries=99999999999999999999", "quoka:num_queries=4,num_queries=4",
        "quoka:nonesuch=1", "quoka:metric=Cosine", "quoka:metric=euclid", "quoka:decode=1",
        "quoka:budget_tokens=-1", "quoka:budget_tokens=2147483648", "quoka:budget_tokens=0",
        "quoka:budget_tokens=0,budget_ratio=0", "quoka:budget_tokens=8,budget_ratio=0.5",
        "quoka:budget_ratio=1.01", "quoka:budget_ratio=-0.1", "quoka:budget_ratio=nan",
        "quoka:budget_ratio=inf", "quoka:budget_ratio=1e400", "quoka:budget_scope=chunk",
        "snapkv:budget_scope=all", "keydiff:budget_scope=all", "streaming_llm:budget_scope=all",
        "snapkv:kernel=4", "snapkv:kernel=0", "snapkv:kernel=-3", "snapkv:window=0",
        "dense:budget_tokens=4", "dense:budget_scope=all", "dense:", "streaming_llm:sink_tokens=-1",
        "streaming_llm:positions=", "random:seed=-1", "sliding_window:window=3"));

TEST(MethodSpec, ScopeAllIsForTheMethodsThatTakeIt) {
  for (const char* id : {"oracle", "random", "sliding_window", "quoka", "uniform_queries"})
    EXPECT_EQ(MethodSpec::parse(std::string(id) + ":budget_scope=all").scope(), BudgetScope::All);
}

TEST(MethodSpec, BudgetIsTokensOrTheFloorOfTheRatio) {
  EXPECT_EQ(MethodSpec::parse("quoka:budget_tokens=7").budget(3), 7);
  const MethodSpec quarter = MethodSpec::parse("quoka:budget_ratio=0.25");
  EXPECT_EQ(quarter.budget(100), 25);
  EXPECT_EQ(quarter.budget(103), 25);
  EXPECT_EQ(quarter.budget(3), 1);
  EXPECT_EQ(quarter.budget(0), 1);
  // 0.29 * 100 is 28.999... in double; the contract rounds 1e-9 up first.
  EXPECT_EQ(MethodSpec::parse("quoka:budget_ratio=0.29").budget(100), 29);
}

TEST(MethodSpec, StateDecidesBetweenEvictionAndVisibility) {
  EXPECT_EQ(MethodSpec::parse("snapkv").traits().state_action, trace::StateAction::Eviction);
  EXPECT_EQ(MethodSpec::parse("snapkv:state=select").traits().state_action,
            trace::StateAction::Visibility);
  EXPECT_EQ(MethodSpec::parse("streaming_llm").traits().state_action, trace::StateAction::Eviction);
  EXPECT_EQ(MethodSpec::parse("quoka").traits().state_action, trace::StateAction::Visibility);
}

TEST(Catalogue, SaysWhatAUserNeeds) {
  for (const MethodInfo& info : catalogue()) {
    SCOPED_TRACE(info.id);
    for (const std::string* text : {&info.title, &info.paper, &info.evidence, &info.summary})
      EXPECT_FALSE(text->empty());
    for (const ParamInfo& param : info.params) {
      SCOPED_TRACE(param.name);
      EXPECT_FALSE(param.meaning.empty());
      // A default lies in the parameter's own range; of a formula, what a model makes of it.
      if (param.required || !param.only_for.empty()) continue;
      const std::string spec = with_required(info);
      const MethodSpec resolved = MethodSpec::parse(spec).resolved({30, 9, 3, 64});
      EXPECT_NO_THROW(
          MethodSpec::parse(and_also(spec, param.name + "=" + resolved.text(param.name))));
    }
  }
}

TEST(Resolved, FormulasBecomeNumbersOfTheModel) {
  const ModelShape shape{30, 9, 3, 64};
  const std::string budget = "budget_tokens=1024,budget_ratio=0,budget_scope=past,";
  const std::string common = budget + "skip_layers=0,";
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"sample_attention",
       "sample_attention:" + common + "num_queries=16,mode=budget,coverage=0.95"},
      {"sparq", "sparq:" + common + "num_channels=16,agg=logit_mean"},
      {"loki", "loki:" + common + "num_channels=16,agg=logit_mean,basis=auto"},
      {"tidal_decode",
       "tidal_decode:" + budget + "first_layer=2,correction_layer=12,sel_layers=dense"},
      {"less_is_more", "less_is_more:" + budget +
                           "first_layer=2,correction_layer=12,sel_layers=dense,sink_tokens=4,"
                           "recent_ratio=0.25"},
  };
  for (const auto& [id, canonical] : expected) {
    EXPECT_EQ(MethodSpec::parse(id).resolved(shape).canonical(), canonical);
    EXPECT_EQ(MethodSpec::parse(canonical).resolved(shape).canonical(), canonical);
  }
  // 0.4 * 5 is 2 and not a little less.
  EXPECT_EQ(MethodSpec::parse("tidal_decode").resolved({5, 4, 2, 8}).integer("correction_layer"),
            2);
  EXPECT_EQ(MethodSpec::parse("sparq").resolved({5, 4, 2, 6}).integer("num_channels"), 1);
}

// What a card calls the paper's own protocol is a SPEC of that method.
TEST(MethodSpec, ThePapersOwnProtocolIsASpec) {
  for (const MethodInfo& info : catalogue()) {
    SCOPED_TRACE(info.id);
    EXPECT_EQ(MethodSpec::parse(info.paper_spec).id(), info.id);
  }
  const MethodSpec quest = MethodSpec::parse(find_method("quest")->paper_spec);
  EXPECT_EQ(quest.text("prefill"), "dense");
  EXPECT_FALSE(quest.flag("force_last_page"));
  const MethodSpec flash = MethodSpec::parse(find_method("flash_prefill")->paper_spec);
  EXPECT_EQ(flash.real("alpha"), 0.01);
  EXPECT_TRUE(flash.native_lowering());
}

TEST(MethodInfo, DeviationsAreTheSentencesOfTheDeviation) {
  MethodInfo info;
  EXPECT_TRUE(info.deviations().empty());
  info.deviation = "one; two, three; four";
  EXPECT_EQ(info.deviations(), (std::vector<std::string>{"one", "two, three", "four"}));
}

}  // namespace
}  // namespace kvloupe::selection
