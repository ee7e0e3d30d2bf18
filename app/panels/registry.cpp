// The list of views. A new view is one file beside this one and one line here.
#include "app/panels/panel.h"

namespace kvloupe::panels {

const std::vector<PanelInfo>& panel_registry() {
  using enum Format;
  static const std::vector<PanelInfo> panels{
      {"kv_map", "KV map", "which keys the method kept, chunk by chunk", {Png, Csv, Npy}, make_kv_map_panel},
  };
  return panels;
}

}  // namespace kvloupe::panels
