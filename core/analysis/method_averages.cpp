#include "core/analysis/method_averages.h"

namespace kvloupe::analysis {

MethodAverages average(const session::TraceSession& session, const replay::MethodChoice& method,
                       const std::vector<int>& layers,
                       const std::optional<replay::WatchedKeys>& watched,
                       const WorkContext& context, const std::string& device) {
  replay::ReplayRequest request;
  request.device = device;
  request.layers = layers;
  request.want_output_error = true;
  replay::Counted counted;
  counted.watched = watched;
  return MethodAverages(
      std::move(replay::measure_methods(session, {method}, request, counted, context).front()));
}

}  // namespace kvloupe::analysis
