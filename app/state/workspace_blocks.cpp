// What views of blocks and of received attention ask for.
#include "app/state/workspace.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::state {

MethodChoice Workspace::block_choice() const {
  const MethodChoice& shown = selection().choice(selection().shown);
  if (!shown.empty() &&
      selection::MethodSpec::parse(shown.spec).traits().granularity == trace::Granularity::Block)
    return shown;
  return {selection::MethodSpec::parse("compact_attention")
              .resolved(ready()->source->shape())
              .canonical(),
          -1};
}

Result<replay::ReplayResult> Workspace::block_replay() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<replay::ReplayResult>("Open a trace");
  const MethodChoice choice = block_choice();
  const int layer = selection().layer;
  // With mass a recorded run tells also which blocks were kept by rule.
  return replays_.request(
      "replay blocks", fmt::format("{}|{}#{}|mass", place_key(), choice.spec, choice.run),
      fmt::format("Selecting blocks in layer {}", layer), Lane::Compute,
      [source = tab->source, choice, layer](const WorkContext& context) {
        if (choice.run >= 0)
          return std::make_shared<replay::ReplayResult>(
              source->recorded_run(choice.run, {layer}, std::nullopt, true, false, context));
        replay::ReplayRequest request;
        request.spec = selection::MethodSpec::parse(choice.spec).resolved(source->shape());
        request.layers = {layer};
        return std::make_shared<replay::ReplayResult>(source->replay(request, context));
      });
}

std::pair<std::int32_t, std::int32_t> Workspace::query_window() const {
  const trace::ChunkInfo& here = chunk();
  const int wanted = selection().window;
  return {wanted == 0 ? here.begin : std::max(0, here.end() - wanted), here.end()};
}

Result<analysis::ReceivedRankings> Workspace::received_rankings() {
  const TraceTab* tab = ready();
  if (tab == nullptr) return empty_result<analysis::ReceivedRankings>("Open a trace");
  const std::int32_t num_keys = chunk().begin;
  if (num_keys == 0)
    return empty_result<analysis::ReceivedRankings>(
        "The first chunk has no past keys to rank: step to a later one");
  const auto [begin, end] = query_window();
  const int group = info().model.gqa_group_size(), first = kv_head() * group;
  return rankings_.request(
      "received", fmt::format("{}|h{}|{}-{}|{}", place_key(), first, begin, end, num_keys),
      "Ranking keys by the attention that they receive", Lane::Compute,
      [source = tab->source, layer = selection().layer, first, group, begin, end,
       num_keys](const WorkContext& context) {
        return std::make_shared<analysis::ReceivedRankings>(
            source->received_rankings(layer, first, group, begin, end, num_keys, context));
      });
}

}  // namespace kvloupe::state
