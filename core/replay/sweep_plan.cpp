// What a sweep goes through, and what it finds. Free of Torch.
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/replay/sweep.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

namespace kvloupe::replay {
namespace {

constexpr const char* kChunkSize = "chunk_size";
constexpr std::int64_t kMostChunkSize = 1 << 24;

Error bad_sweep(const std::string& text, std::string why) {
  return usage_error(fmt::format("--sweep {} is not valid", printable(text)), std::move(why),
                     "write for example budget_tokens=32,64,128 or budget_tokens=32..1024");
}

// NAME and the rest of NAME=rest.
std::optional<std::pair<std::string, std::string>> split(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return std::nullopt;
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

// "32..1024".
std::vector<std::string> doubled(const std::string& item, std::size_t dots,
                                 const std::string& text) {
  const auto first = parse_double(item.substr(0, dots));
  const auto last = parse_double(item.substr(dots + 2));
  if (!first || !last || *first <= 0 || *last < *first)
    throw bad_sweep(text, "a range goes from a number above 0 to one that is not smaller");
  std::vector<std::string> values;
  for (double value = *first; value <= *last; value *= 2) values.push_back(format_shortest(value));
  return values;
}

// As the number that stands in rows.
double number_of(const std::string& value) { return parse_double(value).value_or(0); }

int chunk_size_of(const std::string& value) {
  const auto size = parse_int(value);
  if (!size || *size < 1 || *size > kMostChunkSize)
    throw usage_error(fmt::format("{}={} is not valid", kChunkSize, printable(value)),
                      fmt::format("it must be a whole number from 1 to {}", kMostChunkSize),
                      "give the number of tokens of a chunk");
  return static_cast<int>(*size);
}

// Whether the values of an axis change what the method does.
bool varies(const MethodName& method, const SweepAxis& axis) {
  if (!method.spec) return false;
  return axis.cuts_anew() || method.spec->number(axis.name) != nullptr;
}

void check_axes(const std::vector<MethodName>& methods, const std::vector<SweepAxis>& axes) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::string& name = axes[i].name;
    for (std::size_t j = 0; j < i; ++j)
      if (axes[j].name == name)
        throw usage_error(fmt::format("--sweep {} is given twice", name),
                          "the values of a parameter are one list", "join the two lists");
    const bool known = std::any_of(methods.begin(), methods.end(), [&](const MethodName& method) {
      return varies(method, axes[i]);
    });
    if (!known)
      throw usage_error(fmt::format("--sweep {} is not valid", printable(name)),
                        "none of the methods has a numeric parameter of that name in use",
                        "see kvloupe methods");
  }
}

// One method at every point of its axes.
void add_variants(const MethodName& name, std::size_t method, const std::vector<SweepAxis>& axes,
                  SweepPlan& plan) {
  std::vector<SweepVariant> variants = {{name, {}, method, {}}};
  for (const SweepAxis& axis : axes) {
    const bool cuts = axis.cuts_anew();
    if (!varies(name, axis)) continue;
    std::vector<SweepVariant> longer;
    for (const SweepVariant& variant : variants)
      for (const std::string& value : axis.values) {
        SweepVariant& one = longer.emplace_back(variant);
        if (cuts) one.chunk_size = chunk_size_of(value);
        one.values.push_back({axis.name, number_of(value)});
      }
    variants = std::move(longer);
  }
  // All values at once: one alone may contradict what the others replace.
  for (SweepVariant& variant : variants) {
    selection::ParamValues changes;
    for (const SweptValue& one : variant.values)
      if (one.name != kChunkSize) changes[one.name] = format_shortest(*one.value);
    if (!changes.empty()) variant.name = name.spec->with(changes);
    plan.variants.push_back(std::move(variant));
  }
}

// Empty where all methods have the axis.
std::string note_of(const std::vector<MethodName>& methods, const SweepAxis& axis) {
  std::vector<std::string> without;
  for (const MethodName& method : methods)
    if (!varies(method, axis))
      without.push_back(method.spec ? method.spec->id() : printable(method.text));
  if (without.empty()) return {};
  return fmt::format("without a {} to vary, one row each: {}", axis.name, fmt::join(without, ", "));
}

bool is_target(const NumberInfo& info) {
  return info.rows != InRows::None && info.better != Better::Neither;
}

}  // namespace

bool SweepAxis::cuts_anew() const { return name == kChunkSize; }

SweepAxis parse_sweep(const std::string& text) {
  const auto parts = split(text);
  if (!parts) throw bad_sweep(text, "it is not of the form NAME=values");
  SweepAxis axis{parts->first, {}};
  std::stringstream items(parts->second + ",");
  for (std::string item; std::getline(items, item, ',');) {
    const auto dots = item.find("..");
    if (dots != std::string::npos) {
      for (std::string& value : doubled(item, dots, text)) axis.values.push_back(std::move(value));
      continue;
    }
    const auto number = parse_double(item);
    if (!number) throw bad_sweep(text, fmt::format("'{}' is not a number", printable(item)));
    axis.values.push_back(format_shortest(*number));
  }
  for (auto value = axis.values.begin(); value != axis.values.end(); ++value)
    if (std::find(axis.values.begin(), value, *value) != value)
      throw bad_sweep(text, fmt::format("it names {} twice", *value));
  return axis;
}

bool SweepTarget::is_reached(const CompareRow& row) const {
  const auto reached = row.numbers[number];
  return reached && (info_of(number).higher_is_better() ? *reached >= value : *reached <= value);
}

SweepTarget parse_target(const std::string& text) {
  std::vector<std::string> names;
  const auto parts = split(text);
  const auto value = parts ? parse_double(parts->second) : std::nullopt;
  for (const NumberInfo& info : kNumbers) {
    if (!is_target(info)) continue;
    if (value && parts->first == info.id) return {info.number, *value};
    names.push_back(fmt::format("{}{}", info.id, info.higher_is_better() ? "" : " (at most)"));
  }
  throw usage_error(fmt::format("--target {} is not valid", printable(text)),
                    fmt::format("it is NAME=number with one of {}", fmt::join(names, ", ")),
                    "write for example mass_recall=0.95");
}

SweepPlan plan_sweep(const std::vector<MethodName>& methods, const std::vector<SweepAxis>& axes) {
  check_axes(methods, axes);
  SweepPlan plan;
  for (const SweepAxis& axis : axes)
    if (std::string note = note_of(methods, axis); !note.empty())
      plan.notes.push_back(std::move(note));
  for (std::size_t i = 0; i < methods.size(); ++i) add_variants(methods[i], i, axes, plan);
  return plan;
}

void solve(const SweepPlan& plan, const SweepTarget& target, std::vector<CompareRow>& rows) {
  // All that a value is chosen beside: the method, phase, scope and place, the axis, and the other
  // axes' values.
  using Question = std::tuple<std::size_t, std::string, std::string, int, std::vector<int>,
                              std::string, std::vector<double>>;
  const auto question_of = [&](const CompareRow& row, std::size_t axis) {
    std::vector<double> others;
    for (std::size_t i = 0; i < row.sweep.size(); ++i)
      if (i != axis) others.push_back(*row.sweep[i].value);
    return Question{plan.variants[row.method_idx].method,
                    row.phase,
                    row.scope,
                    row.index,
                    row.grid,
                    row.sweep[axis].name,
                    std::move(others)};
  };
  std::map<Question, double> smallest;
  for (const CompareRow& row : rows) {
    if (!target.is_reached(row)) continue;
    for (std::size_t axis = 0; axis < row.sweep.size(); ++axis) {
      const double value = *row.sweep[axis].value;
      const auto [found, is_first] = smallest.try_emplace(question_of(row, axis), value);
      if (!is_first) found->second = std::min(found->second, value);
    }
  }
  for (CompareRow& row : rows)
    for (std::size_t axis = 0; axis < row.sweep.size(); ++axis) {
      const auto found = smallest.find(question_of(row, axis));
      row.solved.push_back({row.sweep[axis].name,
                            found == smallest.end() ? std::nullopt : std::optional(found->second)});
    }
}

}  // namespace kvloupe::replay
