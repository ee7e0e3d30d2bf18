// What a trace stores, as a set: asked for by `capture --store`, kept in the attribute `store` of
// /capture (FORMAT.md, section 2), and what each field of fields.h belongs to.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::trace {

enum class Part : std::uint8_t {
  Qkv,
  Lse,
  Mass,
  Probe,
  Loss,   // -log P of the tokens; a probe and the drift need it
  Drift,  // distances of a closed loop from the dense model
  // Without a word, for they follow from something else: tokens that are sampled,
  Top,  // the most probable next tokens
  // or the kind of a run.
  Evictions,
  Lanes,
  Blocks,
  BlockTables,
  Given,        // what the caller writes by itself
  SomeQueries,  // the queries of some chunks alone
};

class StoredParts {
 public:
  constexpr StoredParts() = default;
  constexpr StoredParts(std::initializer_list<Part> parts) {
    for (const Part part : parts) set(part);
  }

  constexpr bool has(Part part) const { return (bits_ & bit(part)) != 0; }
  constexpr bool has_all(StoredParts other) const { return (other.bits_ & ~bits_) == 0; }
  constexpr void set(Part part, bool stored = true) {
    bits_ = stored ? bits_ | bit(part) : bits_ & ~bit(part);
  }
  constexpr bool operator==(const StoredParts&) const = default;

 private:
  static constexpr std::uint32_t bit(Part part) { return 1u << static_cast<unsigned>(part); }
  std::uint32_t bits_ = 0;
};

// The words that `--store` takes, in the order of a list.
std::vector<std::string_view> store_words();
// A word of that list.
std::optional<Part> store_word(std::string_view word);

// With the losses that a probe and the drift need.
StoredParts with_needed(StoredParts parts);
// As the file has it, "qkv,lse,probe": losses that a probe brings have no word of their own.
std::string text_of(StoredParts parts);
// The set that such a text stands for; words that a later version added are passed over.
StoredParts stored_parts_of(std::string_view text);

}  // namespace kvloupe::trace
