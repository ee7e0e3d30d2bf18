// What stages there are, without running any: part of what is known of methods.
#include "core/base/error.h"
#include "core/base/units.h"
#include "core/replay/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvloupe::replay {
namespace {

struct Names {
  const char *name, *words;
};
constexpr std::array<Names, kNumStages> kNames = {{{"evicted", "evicted"},
                                                   {"reused_set", "reused set"},
                                                   {"query_sampling", "query sampling"},
                                                   {"head_merge", "head merge"},
                                                   {"unit", "page or block"},
                                                   {"approximation", "approximation"},
                                                   {"threshold", "threshold"},
                                                   {"budget", "budget"}}};

bool merges_heads(const selection::MethodSpec& spec, const selection::ModelShape& shape) {
  const selection::Traits& traits = spec.traits();
  const std::vector<std::string>& needs = spec.info().needs;
  if (selection::row_layout(spec, shape).q_heads_per_row == 1 || traits.unites_heads) return false;
  if (traits.granularity == trace::Granularity::Block && !spec.has_budget()) return false;
  return std::find(needs.begin(), needs.end(), "q") != needs.end();
}

}  // namespace

const char* name_of(Stage stage) { return kNames[static_cast<std::size_t>(stage)].name; }
const char* words_of(Stage stage) { return kNames[static_cast<std::size_t>(stage)].words; }

std::string row_words(const selection::RowLayout& layout, int row) {
  if (layout.axis == trace::RowAxis::KvHead) return fmt::format("KV head {}", row);
  const int first = row * layout.q_heads_per_row, last = first + layout.q_heads_per_row - 1;
  return first == last ? fmt::format("query head {}", first)
                       : fmt::format("query heads {} to {}", first, last);
}

std::vector<Stage> stages_of(const selection::MethodSpec& spec, const selection::ModelShape& shape,
                             int layer) {
  const selection::Traits& traits = spec.traits();
  std::vector<Stage> stages;
  const auto add_if = [&](bool has, Stage stage) {
    if (has) stages.push_back(stage);
  };
  const bool blocks = traits.granularity == trace::Granularity::Block;
  if (traits.evicts()) {
    stages.push_back(Stage::Evicted);
  } else if (spec.has_budget() || blocks) {
    add_if(selection::source_layer(spec, shape, layer).has_value(), Stage::ReusedSet);
    add_if(traits.samples_rows, Stage::QuerySampling);
    add_if(merges_heads(spec, shape), Stage::HeadMerge);
    add_if(blocks || traits.granularity == trace::Granularity::Page, Stage::Unit);
    add_if(traits.approximates, Stage::Approximation);
    add_if(!spec.has_budget(), Stage::Threshold);
  }
  add_if(spec.has_budget(), Stage::Budget);
  return stages;
}

std::string budget_words(const Explanation& why) {
  const std::string budget = format_count(*why.needed_budget);
  // Of a recorded run it is known by scores alone, whose best are kept.
  if (why.run || why.spec.traits().grows_with_budget)
    return "kept from a budget of " + budget + " on";
  return budget + " is the smallest budget that keeps it, a larger one need not";
}

int row_of_heads(const selection::RowLayout& layout, const selection::ModelShape& shape,
                 std::optional<int> kv_head, std::optional<int> q_head) {
  const int per_row = layout.q_heads_per_row;
  const int group = shape.num_q_heads / shape.num_kv_heads;
  const auto check = [](int head, int count, const char* kind) {
    if (head < 0 || head >= count)
      throw input_error(fmt::format("there is no {} head {}", kind, head),
                        fmt::format("the model has {} of them", count),
                        fmt::format("give one from 0 to {}", count - 1));
  };
  if (q_head) {
    check(*q_head, shape.num_q_heads, "query");
    if (kv_head && *kv_head != *q_head / group)
      throw usage_error(fmt::format("query head {} does not read KV head {}", *q_head, *kv_head),
                        fmt::format("it reads KV head {}", *q_head / group), "give one of the two");
    return *q_head / per_row;
  }
  if (!kv_head)
    throw usage_error("a head is missing", "a key is kept or lost by head",
                      "give --kv-head or --q-head");
  check(*kv_head, shape.num_kv_heads, "KV");
  if (per_row < group)
    throw usage_error(
        "the method does not choose by KV head",
        fmt::format("query heads {} to {} of KV head {} have {} sets", *kv_head * group,
                    (*kv_head + 1) * group - 1, *kv_head, group / per_row),
        "give --q-head");
  return *kv_head * group / per_row;
}

}  // namespace kvloupe::replay
