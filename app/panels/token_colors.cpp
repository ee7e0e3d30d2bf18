#include "app/panels/token_colors.h"

namespace kvloupe::panels {

TokenColors colors_of(const widgets::Palette& p, state::TokenLook look) {
  using state::TokenLook;
  switch (look) {
    case TokenLook::Plain: return {0, p.muted, 0};
    case TokenLook::Future: return {0, p.faint, 0};
    case TokenLook::Kept: return {widgets::mix(p.panel, p.hit, 0.42), p.text, p.hit};
    case TokenLook::Sink:
    case TokenLook::Recent: return {widgets::mix(p.panel, p.by_rule, 0.5), p.text, p.by_rule};
    case TokenLook::Dense: return {widgets::mix(p.panel, p.dense, 0.6), p.text, p.dense};
    case TokenLook::Current: return {widgets::mix(p.panel, p.current, 0.28), p.text, p.current};
    case TokenLook::Missed: return {widgets::mix(p.panel, p.miss, 0.55), p.text, p.miss};
    case TokenLook::MissedEvicted:
      return {widgets::mix(p.panel, p.miss, 0.55), p.text, p.miss, true};
    // Most of a text may be: it is quiet.
    case TokenLook::Evicted: return {0, p.muted, 0, true};
  }
  return {0, p.muted, 0};
}

}  // namespace kvloupe::panels
