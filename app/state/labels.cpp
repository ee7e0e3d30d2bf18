#include "app/state/labels.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <vector>

namespace kvloupe::state {

const char* label_of(replay::BlockState state) {
  using replay::BlockState;
  switch (state) {
    case BlockState::Future: return "in the future";
    case BlockState::Dropped: return "not kept";
    case BlockState::Kept: return "kept by score";
    case BlockState::Forced: return "kept by rule";
    case BlockState::Straddling: return "straddles the chunk's begin";
    case BlockState::Current: return "of the chunk";
  }
  return "";
}

const char* label_of(analysis::KeyKind kind) {
  using analysis::KeyKind;
  switch (kind) {
    case KeyKind::Other: return "other";
    case KeyKind::Global: return "global: high by mean";
    case KeyKind::QuerySpecific: return "query-specific: high by maximum only";
    case KeyKind::Broken: return "not a number";
  }
  return "";
}

const char* label_of(analysis::KeyState state) {
  using analysis::KeyState;
  switch (state) {
    case KeyState::Future: return "not yet seen";
    case KeyState::Dropped: return "not selected";
    case KeyState::Evicted: return "evicted";
    case KeyState::Kept: return "kept";
    case KeyState::Sink: return "sink";
    case KeyState::Recent: return "recent";
    case KeyState::Current: return "current chunk";
    case KeyState::Dense: return "all kept (dense)";
    case KeyState::Hidden: return "beyond the window";
  }
  return "";
}

const char* label_of(analysis::KeyVerdict verdict) {
  using analysis::KeyVerdict;
  switch (verdict) {
    case KeyVerdict::Hit: return "hit";
    case KeyVerdict::Miss: return "miss";
    case KeyVerdict::Waste: return "waste";
    case KeyVerdict::Neither: return "neither";
  }
  return "";
}

const char* label_of(analysis::KeptBy kept_by) {
  using analysis::KeptBy;
  switch (kept_by) {
    case KeptBy::Neither: return "neither";
    case KeptBy::AOnly: return "A only";
    case KeptBy::BOnly: return "B only";
    case KeptBy::Both: return "both";
    case KeptBy::NoCandidate: return "no candidate";
  }
  return "";
}

std::string share_tick_text(double share) {
  if (share != 0 && std::abs(share) < 1e-9) return fmt::format("{:g} %", share * 100);
  std::string text = fmt::format("{:.9f}", share * 100);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return (text == "-0" ? "0" : text) + " %";
}

std::string share_text(double share) {
  if (std::isnan(share)) return "\u2013";
  return share > 0 && share < 0.00995 ? fmt::format("{:.2g} %", 100 * share)
                                      : fmt::format("{:.1f} %", 100 * share);
}

// From 99.5 on {:.2g} would write 1e+02.
std::string brief_share_text(double share) {
  return 100 * share < 99.5 ? fmt::format("{:.2g} %", 100 * share)
                            : fmt::format("{:.0f} %", 100 * share);
}

std::string label_of_layer(const trace::ModelInfo& model, int layer) {
  const SoftmaxForm softmax = model.softmax_of(layer);
  std::vector<std::string> parts;
  if (softmax.window > 0) parts.push_back(fmt::format("window {}", format_count(softmax.window)));
  if (model.lacks_window(layer)) parts.emplace_back("a window of unknown size");
  if (softmax.softcap > 0) parts.push_back(fmt::format("softcap {:g}", softmax.softcap));
  if (!softmax.sink_logits.empty()) parts.emplace_back("learned sinks");
  const auto index = static_cast<std::size_t>(layer);
  if (index < model.layer_types.size() && model.layer_types[index] == trace::LayerType::Nope)
    parts.emplace_back("no RoPE");
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string layer_name(const trace::ModelInfo& model, int layer) {
  const std::string label = label_of_layer(model, layer);
  return label.empty() ? std::to_string(layer) : fmt::format("{} ({})", layer, label);
}

}  // namespace kvloupe::state
