#include "core/replay/prepared_method.h"

#include "core/replay/trace_basis.h"

namespace kvloupe::replay {

PreparedMethod prepare(const session::TraceSession& session, const selection::MethodSpec& spec,
                       const std::vector<int>& layers, const std::string& device,
                       const WorkContext& context) {
  PreparedMethod method;
  method.shape = session.shape();
  method.spec = spec.resolved(method.shape);
  method.layout = selection::row_layout(method.spec, method.shape);
  method.basis = basis_for(session, method.spec, layers, context);
  method.device = device;
  return method;
}

}  // namespace kvloupe::replay
