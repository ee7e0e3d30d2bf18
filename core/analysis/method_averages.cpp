#include "core/analysis/method_averages.h"

namespace kvloupe::analysis {

MethodAverages average(const session::TraceSession& session, const replay::MethodChoice& method,
                       const std::vector<int>& layers, const replay::Counted& counted,
                       const WorkContext& context, const std::string& device) {
  replay::ReplayRequest request;
  request.device = device;
  request.layers = layers;
  request.chunks = counted.chunks;
  request.want_output_error = true;
  return MethodAverages(
      std::move(replay::measure_methods(session, {method}, request, counted, context).front()));
}

}  // namespace kvloupe::analysis
