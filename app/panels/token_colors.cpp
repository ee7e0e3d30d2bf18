#include "app/panels/token_colors.h"

namespace kvloupe::panels {

TokenColors colors_of(const widgets::Palette& p, state::TokenLook look) {
  using state::TokenLook;
  switch (look) {
    case TokenLook::Plain: return {0, p.muted};
    case TokenLook::Future: return {0, p.faint};
    case TokenLook::Kept: return {widgets::mix(p.panel, p.hit, 0.42), p.text};
    case TokenLook::Sink:
    case TokenLook::Recent: return {widgets::mix(p.panel, p.by_rule, 0.5), p.text};
    case TokenLook::Dense: return {widgets::mix(p.panel, p.dense, 0.6), p.text};
    case TokenLook::Current: return {widgets::mix(p.panel, p.current, 0.28), p.text};
    case TokenLook::Missed: return {widgets::mix(p.panel, p.miss, 0.42), p.text};
    case TokenLook::Evicted: return {p.evicted, p.text};
  }
  return {0, p.muted};
}

}  // namespace kvloupe::panels
