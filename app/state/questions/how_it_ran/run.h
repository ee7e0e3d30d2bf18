// What a method selected in one layer, all chunks: the answer that most views of a method build on,
// and what they must say of it.
#pragma once

#include "app/state/question_at.h"
#include "core/replay/replay.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

// The sets alone: a recorded run is read, without Torch; another method selects anew (open loop).
struct RunQuestion : OfRun<At::Layer> {
  static constexpr const char* kName = "run";
  using Answer = replay::ReplayResult;

  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// The same with what the sets are worth: mass recall, overlap, score errors of lanes.
struct MeasuredRunQuestion : OfMethod<At::Layer> {
  static constexpr const char* kName = "measured run";
  using Answer = replay::ReplayResult;

  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return RunQuestion::bytes(answer); }
};

// A method on any layers and chunks (none: all); from a job.
replay::ReplayResult run_method(const Place& place, const MethodChoice& method,
                                const std::vector<int>& layers, const std::vector<int>& chunks,
                                bool want_mass, bool want_output_error, const WorkContext& context);

// The row of a replay that speaks for the place's query head.
int row_of(const Place& place, const replay::ReplayResult& replay);

// What a view must say about the method that it shows.
struct MethodFacts {
  struct Chunk {
    std::optional<trace::DenseReason> dense;
    std::int64_t ties = 0;             // at the cut
    std::optional<std::int64_t> kept;  // by the row
  };

  MethodChoice choice;
  trace::LoopMode mode = trace::LoopMode::OpenLoop;         // how the selection was made
  trace::LoopMode source_mode = trace::LoopMode::OpenLoop;  // how the model ran
  std::string scope;                                        // "past", "all"; empty without a budget
  bool prunes_lanes = false;                                // drops lanes of the dot product
  bool evicts = false;                                      // drops keys for good
  bool decode_dense = false;                                // decoded tokens see all keys left
  bool leakage = false;  // the basis was fitted on text of this trace

  // Of the row in the layer; known once the method has been run.
  bool has_run = false;
  std::optional<double> requested_budget;  // mean of B over the row's cells that selected
  std::optional<double> effective_budget;  // mean of |selected| over the same
  double forced = 0;                       // of those, kept by rule, mean
  std::uint64_t bytes = 0;                 // K and V of the kept keys as stored, mean
  int cells = 0;                           // chunks of the row that selected
  int dense_cells = 0;                     // chunks that kept everything
  std::optional<int> source_layer;         // whose set this layer reuses
  std::optional<replay::BasisNote> basis;  // that queries and keys are rotated by
  std::vector<Chunk> chunks;

  // Lane methods that evict nothing: recall and overlap have no meaning for them.
  bool keeps_every_key() const { return prunes_lanes && !evicts; }
  Chunk at(int chunk) const;
};
// Before the method has been run.
MethodFacts facts_of(const Place& place, const MethodChoice& method);
MethodFacts facts_of(const Place& place, const MethodChoice& method,
                     const replay::ReplayResult& run);

// The facts alone, for views that draw something else of the method.
struct FactsQuestion : OfRun<At::Head> {
  static constexpr const char* kName = "facts";
  using Answer = MethodFacts;

  Answer work(Steps& steps) const;
};
// The facts as far as they are known now; asks for the rest.
class Workspace;
std::shared_ptr<const MethodFacts> known_facts(Workspace& workspace, const Place& place,
                                               const MethodChoice& method);

}  // namespace kvloupe::state
