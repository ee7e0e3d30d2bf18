#include "core/trace/fields/stored_parts.h"

#include <algorithm>

namespace kvloupe::trace {
namespace {

struct PartWord {
  Part part;
  std::string_view word;
  bool in_store;  // whether --store takes it; the drift has an option of its own
};

constexpr PartWord kWords[] = {
    {Part::Qkv, "qkv", true},     {Part::Lse, "lse", true},   {Part::Mass, "mass", true},
    {Part::Probe, "probe", true}, {Part::Loss, "loss", true}, {Part::Drift, "drift", false},
};

const PartWord* find_word(std::string_view word) {
  const auto* found = std::find_if(std::begin(kWords), std::end(kWords),
                                   [&](const PartWord& row) { return row.word == word; });
  return found == std::end(kWords) ? nullptr : found;
}

}  // namespace

std::vector<std::string_view> store_words() {
  std::vector<std::string_view> words;
  for (const PartWord& row : kWords)
    if (row.in_store) words.push_back(row.word);
  return words;
}

std::optional<Part> store_word(std::string_view word) {
  const PartWord* row = find_word(word);
  if (row == nullptr || !row->in_store) return std::nullopt;
  return row->part;
}

StoredParts with_needed(StoredParts parts) {
  if (parts.has(Part::Probe) || parts.has(Part::Drift)) parts.set(Part::Loss);
  return parts;
}

std::string text_of(StoredParts parts) {
  if (parts.has(Part::Probe)) parts.set(Part::Loss, false);
  std::string text;
  for (const PartWord& row : kWords) {
    if (!parts.has(row.part)) continue;
    if (!text.empty()) text += ',';
    text += row.word;
  }
  return text;
}

StoredParts stored_parts_of(std::string_view text) {
  StoredParts parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (const PartWord* row = find_word(text.substr(0, end))) parts.set(row->part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return with_needed(parts);
}

}  // namespace kvloupe::trace
