// See selection.h.
#include "app/state/selection.h"

#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <map>

namespace kvloupe::state {

GotoTarget parse_goto(const std::string& text) {
  GotoTarget target;
  const std::map<std::string, std::optional<int>*> fields{
      {"layer", &target.layer},  {"q_head", &target.q_head}, {"kv_head", &target.kv_head},
      {"chunk", &target.chunk},  {"query", &target.query},   {"key", &target.key},
      {"window", &target.window}};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const auto field = fields.find(name);
    if (equals == std::string::npos || field == fields.end())
      throw usage_error(fmt::format("the place '{}' is not understood", text),
                        fmt::format("'{}' is no coordinate", item),
                        "name layer, q_head, kv_head, chunk, query, key or window, as in "
                        "layer=3,q_head=5,chunk=12");
    const auto value = parse_int(item.substr(equals + 1));
    if (!value || *value < 0 || *value > 1'000'000'000)
      throw usage_error(fmt::format("the place '{}' is not understood", text),
                        fmt::format("'{}' is not a number from 0 on", item.substr(equals + 1)),
                        fmt::format("write {}=3, for example", name));
    *field->second = static_cast<int>(*value);
  }
  return target;
}

void SelectionHistory::push(const Selection& before, const std::string& kind) {
  future_.clear();
  if (!past_.empty() && kind == last_kind_ && !kind.empty()) return;
  last_kind_ = kind;
  past_.push_back(before);
  if (past_.size() > kDepth) past_.erase(past_.begin());
}

std::optional<Selection> SelectionHistory::back(const Selection& now) {
  if (past_.empty()) return std::nullopt;
  future_.push_back(now);
  Selection target = past_.back();
  past_.pop_back();
  last_kind_.clear();
  return target;
}

std::optional<Selection> SelectionHistory::forward(const Selection& now) {
  if (future_.empty()) return std::nullopt;
  past_.push_back(now);
  Selection target = future_.back();
  future_.pop_back();
  last_kind_.clear();
  return target;
}

void SelectionHistory::clear() {
  past_.clear();
  future_.clear();
  last_kind_.clear();
}

}  // namespace kvloupe::state
