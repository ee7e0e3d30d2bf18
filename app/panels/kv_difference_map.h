// The KV map of what A and B keep differently.
#pragma once

#include "app/panels/kv_map_axes.h"
#include "app/panels/show_control.h"
#include "app/state/questions/kept/kv_difference.h"

namespace kvloupe::panels {

class KvDifferenceMap {
 public:
  // Fills what is left of the view. `view` has the options `show` and `truth`.
  void draw(DrawContext& context, const char* view, KvMapAxes& axes);

 private:
  using Difference = state::Result<state::KvDifferenceQuestion>;
  using TrueKeys = state::Result<state::TrueKeysQuestion>;
  void plots_ui(DrawContext& context, const Difference& result, const TrueKeys& true_keys,
                KvMapAxes& axes);

  state::LastAnswer<state::KvDifferenceQuestion> last_difference_;
  state::LastAnswer<state::TrueKeysQuestion> last_true_keys_;
  widgets::MapTexture texture_;
};

}  // namespace kvloupe::panels
