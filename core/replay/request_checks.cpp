#include "core/replay/request_checks.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace kvloupe::replay {
namespace {

// Each once.
std::vector<int> ascending(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace

std::vector<int> checked_layers(const trace::TraceInfo& info, const std::vector<int>& wanted) {
  if (info.layers.empty())
    throw input_error("there is nothing to select from", "no layer of this trace can be read",
                      "see kvloupe validate for what is wrong with it");
  if (wanted.empty()) return info.layers;
  for (const int layer : wanted)
    if (!info.has_layer(layer))
      throw input_error(fmt::format("layer {} is not in this trace", layer),
                        fmt::format("it holds {} layers from {} to {}", info.layers.size(),
                                    info.layers.front(), info.layers.back()),
                        "see kvloupe info for the layers captured");
  return ascending(wanted);
}

std::vector<int> checked_chunks(const trace::TraceInfo& info, const std::vector<int>& wanted,
                                std::size_t num_chunks) {
  for (const int chunk : wanted) {
    check_chunk(chunk, num_chunks);
    if (!info.has_queries(chunk)) throw trace::lacks_queries(info, chunk);
  }
  if (!wanted.empty()) return ascending(wanted);
  std::vector<int> all(num_chunks);
  std::iota(all.begin(), all.end(), 0);
  std::erase_if(all, [&](int chunk) { return !info.has_queries(chunk); });
  if (all.empty() && num_chunks > 0) throw trace::lacks_queries(info, 0);
  return all;
}

std::vector<int> checked_layers_of_run(const session::TraceSession& session, int run,
                                       const std::vector<int>& wanted) {
  const trace::TraceInfo& info = session.info();
  std::vector<int> layers = checked_layers(info, wanted);
  const auto is_missing = [&](int layer) { return !session.reader().has_run_layer(run, layer); };
  if (wanted.empty()) {
    std::erase_if(layers, is_missing);
    return layers;
  }
  std::vector<int> own = info.layers;
  std::erase_if(own, is_missing);
  if (const auto missing = std::find_if(layers.begin(), layers.end(), is_missing);
      missing != layers.end())
    throw input_error(fmt::format("run {} has no layer {}", run, *missing),
                      fmt::format("it was recorded for layer{} {}", own.size() == 1 ? "" : "s",
                                  fmt::join(own, ", ")),
                      own.size() == 1 ? "choose that one" : "choose one of these");
  return layers;
}

void check_chunk(const std::optional<int>& chunk, std::size_t num_chunks) {
  if (chunk && (*chunk < 0 || static_cast<std::size_t>(*chunk) >= num_chunks))
    throw input_error(fmt::format("chunk {} is not in this trace", *chunk),
                      fmt::format("it has {} chunks, numbered from 0", num_chunks),
                      "choose one of them, or all");
}

const trace::RunInfo& recorded_run_of(const trace::TraceInfo& info, int run) {
  for (const trace::RunInfo& entry : info.runs)
    if (entry.id == run) return entry;
  std::vector<int> ids;
  for (const trace::RunInfo& entry : info.runs) ids.push_back(entry.id);
  throw input_error(fmt::format("run {} is not in this trace", run),
                    ids.empty() ? "it has no runs that can be read"
                                : fmt::format("it has the runs {}", fmt::join(ids, ", ")),
                    "see kvloupe info for the runs");
}

}  // namespace kvloupe::replay
