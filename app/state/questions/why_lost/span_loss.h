// Why a span of keys was lost: what a method keeps of it in every head, at once; then layer by layer the
// causes, and the budget that would keep all of it.
#pragma once

#include "app/state/number_chunks.h"
#include "app/state/questions/how_it_ran/run.h"
#include "core/replay/span_loss.h"
#include "core/replay/table.h"

#include <cstdint>
#include <optional>
#include <string>

namespace kvloupe::state {

class Workspace;

// A span of keys in the chunks that numbers are over.
template <typename Base>
struct OfSpan : Base {
  NumberChunks chunks;
  std::optional<trace::NamedKeys> span;

  template <typename... Added>
  std::string key(const Added&... added) const {
    return Base::key(chunks, span, added...);
  }
  std::string obstacle() const {
    const std::string obstacle = Base::obstacle();
    if (!obstacle.empty() || span) return obstacle;
    return "Watch several keys: the bar above has a list of spans.";
  }
};

// From the sets alone, of a recorded run those that were recorded.
struct SpanCountQuestion : OfSpan<OfRun<At::Trace>> {
  static constexpr const char* kName = "span count";
  using Answer = replay::SpanLoss;

  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) {
    return sizeof(answer) + bytes_in(answer.heads, answer.changes, answer.layers, answer.chunks);
  }
};

// Of one layer: what is done stays known when the rest is cancelled.
struct LayerSpanLossQuestion : OfSpan<OfMethod<At::Layer>> {
  static constexpr const char* kName = "layer span loss";
  bool want_budgets = false;
  using Answer = replay::SpanLoss;

  std::string key() const { return OfSpan::key(want_budgets); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return SpanCountQuestion::bytes(answer); }
};

// Of all layers, shown as they come. By selecting anew where the method is known: a recorded set does not
// say what would have kept a key.
struct SpanLossQuestion : OfSpan<OfMethod<At::Trace>> {
  static constexpr const char* kName = "span loss";
  static constexpr Pace kPace = Pace::Patient;
  bool want_budgets = false;
  struct Answer {
    replay::SpanLoss loss;  // of the layers done
    int num_layers = 0;     // of the trace
    bool finished() const { return static_cast<int>(loss.layers.size()) == num_layers; }
  };

  std::string key() const { return OfSpan::key(want_budgets); }
  std::string title() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return SpanCountQuestion::bytes(answer.loss); }

  // Budgets are found at once where a larger one keeps all that a smaller one does; of others, which are
  // tried one by one in every layer, on request alone.
  bool budgets_are_quick() const;
  bool has_budget() const { return method.known() && method.spec->has_budget(); }
};

// The watched span of several keys in the chunks that numbers are over; no span: one key, or none.
SpanLossQuestion span_loss_question(const Workspace& workspace, const MethodChoice& method);

// The best answer that there is now.
struct SpanLossNow {
  SpanLossQuestion question;
  std::shared_ptr<const replay::SpanLoss> loss;  // null: nothing yet
  std::string error;                             // why there will be nothing
  std::string doing;      // "asking why: 12 of 30 layers"; empty: nothing is due
  bool may_look = false;  // for the budget, which is looked for on request
};
SpanLossNow span_loss_now(Workspace& workspace, const SpanLossQuestion& question, bool search);

// Of the heads that hold the span those to list: the one of `place`, then those that give the span most of
// its attention, at most `most` of them.
std::vector<const replay::SpanHead*> heads_to_list(const replay::SpanLoss& loss, const Place& place,
                                                   std::size_t most);
bool is_head_of(const Place& place, const replay::SpanLoss& loss, const replay::SpanHead& head);
// A row a head, its layer and name first.
table::Table span_heads_table(const replay::SpanLoss& loss,
                              const std::vector<const replay::SpanHead*>& heads);

}  // namespace kvloupe::state
