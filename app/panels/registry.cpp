// The list of views. A new view is one file beside this one and one line here.
#include "app/panels/panel.h"

namespace kvloupe::panels {

const std::vector<PanelInfo>& panel_registry() {
  using enum Format;
  static const std::vector<PanelInfo> panels{
      {"attention_map",
       "Attention map",
       "where one query head attends, with what the method kept below",
       {Png, Csv, Npy},
       make_attention_map_panel},
      {"kv_map",
       "KV map",
       "which keys the method kept, chunk by chunk",
       {Png, Csv, Npy},
       make_kv_map_panel},
      {"layer_head_overview",
       "Layer x head",
       "one number for every layer and head: where to look first",
       {Png, Csv, Npy},
       make_layer_head_overview_panel},
      {"selected_vs_true",
       "Selected vs true",
       "the keys that attention weighs, and whether they were kept",
       {Png, Csv},
       make_selected_vs_true_panel},
      {"miss_inspector",
       "Miss inspector",
       "what became of one key or needle, chunk by chunk",
       {Png, Csv},
       make_miss_inspector_panel},
      {"token_strip",
       "Token strip",
       "the text, coloured by what happened to each key",
       {Png, Csv},
       make_token_strip_panel},
      {"query_geometry",
       "Query geometry",
       "queries and keys in two principal components, chosen queries ringed",
       {Png, Csv, Npy},
       make_query_geometry_panel},
      {"query_relevance",
       "Query relevance",
       "S_q of each query against the largest attention that it gives",
       {Png, Csv, Npy},
       make_query_relevance_panel},
      {"aqua_lanes",
       "AQUA lanes",
       "which lanes of the dot product AQUA uses, and what cutting the others loses",
       {Png, Csv, Npy},
       make_aqua_lanes_panel},
      {"quest_pages",
       "Quest pages",
       "the bound of each page against its best key, and how the pages taken change",
       {Png, Csv, Npy},
       make_quest_pages_panel},
      {"latency",
       "Latency",
       "select, gather (or block tables) and attend against dense attention, measured live",
       {Png, Csv},
       make_latency_panel},
      {"trace_info", "Trace", "what the open trace holds", {Png, Csv}, make_trace_info_panel},
  };
  return panels;
}

}  // namespace kvloupe::panels
