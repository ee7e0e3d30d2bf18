#include "app/state/goto_target.h"

#include "core/base/error.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <vector>

namespace kvloupe::state {
namespace {

constexpr std::int64_t kMostInText = 1'000'000'000;

Error not_understood(const std::string& text, const std::string& why, const std::string& remedy) {
  return usage_error(fmt::format("the place '{}' is not understood", text), why, remedy);
}

int number_of(const std::string& text, const std::string& name, const std::string& value) {
  const auto number = parse_int(value);
  if (!number || *number < 0 || *number > kMostInText)
    throw not_understood(text, fmt::format("'{}' is not a number from 0 on", value),
                         fmt::format("write {}=3, for example", name));
  return static_cast<int>(*number);
}

// "40-52+60"
trace::KeySet positions_of(const std::string& text, const std::string& name,
                           const std::string& value) {
  std::vector<trace::TokenRange> ranges;
  for (std::size_t at = 0; at <= value.size();) {
    const std::size_t plus = std::min(value.find('+', at), value.size());
    const std::string part = value.substr(at, plus - at);
    at = plus + 1;
    const std::size_t dash = part.find('-', 1);
    const int first = number_of(text, name, part.substr(0, dash));
    const int last =
        dash == std::string::npos ? first : number_of(text, name, part.substr(dash + 1));
    if (last < first)
      throw not_understood(text, fmt::format("the positions '{}' end before they begin", part),
                           fmt::format("write {}=40-52, first and last", name));
    ranges.push_back({first, last + 1});
  }
  return trace::KeySet::of(std::move(ranges));
}

}  // namespace

GotoTarget parse_goto(const std::string& text) {
  GotoTarget target;
  const std::map<std::string, std::optional<int>*> fields{
      {"layer", &target.layer}, {"q_head", &target.q_head}, {"kv_head", &target.kv_head},
      {"chunk", &target.chunk}, {"query", &target.query},   {"window", &target.window}};
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string item = text.substr(at, comma - at);
    at = comma + 1;
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    const auto field = fields.find(name);
    if (name == "head")
      throw not_understood(text, "a head is a query head or a KV head",
                           "write q_head=3 or kv_head=3, for example");
    if (equals == std::string::npos ||
        (field == fields.end() && name != "key" && name != "span" && name != "queries"))
      throw not_understood(
          text, fmt::format("'{}' is no coordinate", item),
          "name layer, q_head, kv_head, chunk, query, queries, key, span or window, as in "
          "layer=3,q_head=5,chunk=12");
    const std::string value = item.substr(equals + 1);
    if (name == "span" && !value.empty() && (value[0] < '0' || value[0] > '9'))
      target.span = value;
    else if (name == "queries")
      target.queries = positions_of(text, name, value);
    else if (field == fields.end())
      target.keys = positions_of(text, "key", value);
    else
      *field->second = number_of(text, name, value);
  }
  return target;
}

std::string goto_text(const GotoTarget& target) {
  std::vector<std::string> items;
  const auto add = [&](const char* name, const std::optional<int>& value) {
    if (value) items.push_back(fmt::format("{}={}", name, *value));
  };
  add("layer", target.layer);
  add("q_head", target.q_head);
  add("kv_head", target.kv_head);
  add("chunk", target.chunk);
  add("query", target.query);
  add("window", target.window);
  if (target.queries) items.push_back("queries=" + target.queries->text());
  if (target.keys) items.push_back("key=" + target.keys->text());
  if (target.span) items.push_back("span=" + *target.span);
  return fmt::format("{}", fmt::join(items, ","));
}

}  // namespace kvloupe::state
