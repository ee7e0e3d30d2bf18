// A method made ready for a trace, in one place: all who run one on a trace begin with this. Needs Torch.
#pragma once

#include "core/replay/replay.h"
#include "core/selection/lanes/basis.h"
#include "core/selection/selector.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::replay {

struct PreparedMethod {
  selection::MethodSpec spec;   // resolved
  selection::ModelShape shape;  // of the trace's model
  selection::RowLayout layout;  // the rows of its selections
  selection::BasisPtr basis;    // that it rotates by; null: none
  std::string device;           // where its cells are, as device::open_device() takes it

  const selection::Traits& traits() const { return spec.traits(); }
  std::unique_ptr<selection::Selector> selector(
      selection::Ablation ablation = selection::Ablation::None) const {
    return selection::make_selector(spec, shape, basis, ablation);
  }
};

// For these layers, which the basis must hold: the session's provider makes a basis that is due, and
// basis=self is fitted on the trace. Throws Error{Input}.
PreparedMethod prepare(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const std::vector<int>& layers, const std::string& device,
                       const WorkContext& context);

}  // namespace kvloupe::replay
