// What the user looks at: one selection drives every panel. Plain values, no widgets.
#pragma once

#include "core/analysis/overview.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::state {

enum class Slot { A = 0, B = 1 };
inline constexpr std::array<Slot, 2> kSlots{Slot::A, Slot::B};

// A method as the views show it: a recorded run, or a SPEC re-selected on the stored Q and K.
struct MethodChoice {
  std::string spec;  // canonical; empty: none
  int run = -1;      // number of the recorded run, -1: re-selected (open loop)
  bool empty() const { return spec.empty(); }
  bool operator==(const MethodChoice&) const = default;
};

struct Selection {
  int chunk = 0;
  int layer = 0;
  int q_head = 0;
  std::int32_t query = -1;      // absolute position, -1: all queries of the chunk
  int window = 0;               // queries up to the chunk's end that rank keys, 0: the chunk
  std::int32_t key_begin = -1;  // half-open key span, -1: none
  std::int32_t key_end = -1;
  std::array<MethodChoice, 2> method;
  Slot shown = Slot::A;  // the slot that single-method views show
  analysis::OverviewMetric metric = analysis::OverviewMetric::MassRecall;
  bool overview_all_chunks = false;

  bool has_keys() const { return key_begin >= 0 && key_end > key_begin; }
  const MethodChoice& choice(Slot slot) const { return method[static_cast<std::size_t>(slot)]; }
  bool operator==(const Selection&) const = default;
};

// Where --goto points: "layer=3,q_head=5,chunk=12,query=1536,key=40". Throws Error{Usage}.
struct GotoTarget {
  std::optional<int> layer, q_head, kv_head, chunk, query, key, window;
};
GotoTarget parse_goto(const std::string& text);

// Back and forward through what was looked at. Steps of one kind in a row (scrubbing) count as one.
class SelectionHistory {
 public:
  void push(const Selection& before, const std::string& kind);
  std::optional<Selection> back(const Selection& now);
  std::optional<Selection> forward(const Selection& now);
  bool can_go_back() const { return !past_.empty(); }
  bool can_go_forward() const { return !future_.empty(); }
  void clear();

 private:
  static constexpr std::size_t kDepth = 200;
  std::vector<Selection> past_, future_;
  std::string last_kind_;
};

}  // namespace kvloupe::state
