// How two selections differ, cell by cell: `kvloupe diff`. docs/metrics.md, "Two selections", defines the
// numbers. Free of Torch but for diff_selections().
#pragma once

#include "core/device/default_device.h"
#include "core/replay/method_choice.h"
#include "core/replay/replay.h"
#include "core/replay/span_kept.h"
#include "core/replay/table.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::replay {

// Which keys of A are which of B; of one trace each is its own partner.
struct KeyPairs {
  std::vector<std::int32_t> b_of_a, a_of_b;  // -1: none; both empty: each is its own
  std::int64_t count = 0;

  // -1 too for a key that the text does not have: the window may still point at one of the text shown before.
  std::int32_t in_b(std::int32_t key) const { return partner(b_of_a, key); }
  std::int32_t in_a(std::int32_t key) const { return partner(a_of_b, key); }

 private:
  static std::int32_t partner(const std::vector<std::int32_t>& pairs, std::int32_t key) {
    if (pairs.empty()) return key;
    return key >= 0 && key < std::ssize(pairs) ? pairs[static_cast<std::size_t>(key)] : -1;
  }
};
KeyPairs same_keys(std::int64_t num_tokens);
KeyPairs paired_keys(const std::vector<std::int32_t>& tokens_a,
                     const std::vector<std::int32_t>& tokens_b, const CancelToken& cancel);
// Ids of one model, texts of two: one id may stand for other words there.
KeyPairs paired_keys(const session::TraceSession& a, const session::TraceSession& b,
                     const CancelToken& cancel);

// Of each chunk of A the one of B that holds most of its tokens, the earlier of two as good; -1: none does.
std::vector<int> paired_chunks(const std::vector<trace::ChunkInfo>& a,
                               const std::vector<trace::ChunkInfo>& b, const KeyPairs& pairs);

struct DiffRow {
  int layer = 0;
  int chunk = 0;    // of A
  int chunk_b = 0;  // its partner; of one trace the same
  int row = 0;      // of Diff::layout
  std::int64_t both = 0, only_a = 0, only_b = 0;
  double mass_a = 1, mass_b = 1;  // mass_recall of each, in its own trace
  std::optional<double> span_kept_a = {}, span_kept_b = {};  // where a span is watched
  std::vector<std::int32_t> first_only_a = {},
                            first_only_b = {};  // positions in its own trace, at most kNamedKeys

  // 1 of two empty sets.
  double jaccard() const {
    const std::int64_t any = both + only_a + only_b;
    return any == 0 ? 1 : static_cast<double>(both) / static_cast<double>(any);
  }
  bool differs() const { return only_a + only_b > 0; }
};
inline constexpr std::size_t kNamedKeys = 3;

// Counts the keys of `row`, among those that are candidates in both cells.
void count_keys(const trace::CellRecord& a, const trace::CellRecord& b, const KeyPairs& pairs,
                DiffRow& row);

// The finer of two layouts; nothing where the rows of neither are parts of the other's.
std::optional<selection::RowLayout> finer_layout(const selection::RowLayout& a,
                                                 const selection::RowLayout& b);
// Each row once for every one of the finer layout that is a part of it.
void split_rows(ReplayResult& result, const selection::RowLayout& layout);

struct DiffSide {
  const session::TraceSession& session;
  MethodChoice method;
  std::optional<trace::KeySet> watched = {};
};
struct DiffRequest {
  std::vector<int> layers;  // empty: all that both have
  std::vector<int> chunks;  // of A; empty: all
  std::string device = device::kDefault;
};
struct Diff {
  selection::RowLayout layout;
  bool two_traces = false;
  std::int64_t aligned_tokens = 0;
  std::vector<DiffRow> rows;  // by layer, chunk and row

  // The first row that differs in the order in which a model computes: by chunk, layer and row.
  const DiffRow* first_divergence() const;
};

std::vector<const DiffRow*> pointers_to(const std::vector<DiffRow>& rows);
// "KV head"
const char* words_of_axis(trace::RowAxis axis);
// A line a row, and what both keep of a span where `spans` are watched.
table::Table diff_table(const Diff& diff, const std::vector<const DiffRow*>& rows, bool spans);

// Throws Error{Input} for traces of models whose layers or heads do not agree, for methods that keep
// every key or whose rows do not agree, and what replay() throws.
Diff diff_selections(const DiffSide& a, const DiffSide& b, const DiffRequest& request,
                     const WorkContext& context);

}  // namespace kvloupe::replay
