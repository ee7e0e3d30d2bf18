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

// From the sets alone, of a recorded run those that were recorded.
struct SpanCountQuestion {
  static constexpr const char* kName = "span count";
  Place place;  // trace
  MethodChoice method;
  NumberChunks chunks;
  std::optional<trace::TokenSpan> span;
  using Answer = replay::SpanLoss;

  std::string key() const;
  Lane lane() const { return RunQuestion{place, method}.lane(); }
  std::string title() const;
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Of one layer: what is done stays known when the rest is cancelled.
struct LayerSpanLossQuestion {
  static constexpr const char* kName = "layer span loss";
  static constexpr Pace kPace = Pace::Patient;
  Place place;  // trace, layer
  MethodChoice method;
  NumberChunks chunks;
  std::optional<trace::TokenSpan> span;
  bool want_budgets = false;
  using Answer = replay::SpanLoss;

  std::string key() const;
  std::string title() const;
  std::string obstacle() const { return SpanCountQuestion{place, method, chunks, span}.obstacle(); }
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer) { return SpanCountQuestion::bytes(answer); }
};

// Of all layers, shown as they come. By selecting anew where the method is known: a recorded set does not
// say what would have kept a key.
struct SpanLossQuestion {
  static constexpr const char* kName = "span loss";
  static constexpr Pace kPace = Pace::Patient;
  Place place;  // trace
  MethodChoice method;
  NumberChunks chunks;
  std::optional<trace::TokenSpan> span;
  bool want_budgets = false;
  struct Answer {
    replay::SpanLoss loss;  // of the layers done
    int num_layers = 0;     // of the trace
    bool finished() const { return static_cast<int>(loss.layers.size()) == num_layers; }
  };

  std::string key() const;
  std::string title() const;
  std::string obstacle() const { return SpanCountQuestion{place, method, chunks, span}.obstacle(); }
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
  std::string doing;                             // "causes: 12 of 30 layers"; empty: nothing is due
  bool may_look = false;                         // for the budget, which is looked for on request
};
SpanLossNow span_loss_now(Workspace& workspace, const SpanLossQuestion& question, bool search);

// The heads that give the span most of its attention, at most `most` of them, as a table: layer and head
// first.
table::Table span_heads_table(const replay::SpanLoss& loss, std::size_t most);

}  // namespace kvloupe::state
