#include "core/replay/diff.h"

#include "core/base/error.h"
#include "core/replay/token_alignment.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace kvloupe::replay {

KeyPairs same_keys(std::int64_t num_tokens) { return {{}, {}, num_tokens}; }

KeyPairs paired_keys(const std::vector<std::int32_t>& tokens_a,
                     const std::vector<std::int32_t>& tokens_b, const CancelToken& cancel) {
  KeyPairs pairs{align_tokens(tokens_a, tokens_b, cancel),
                 std::vector<std::int32_t>(tokens_b.size(), -1)};
  for (std::size_t i = 0; i < pairs.b_of_a.size(); ++i) {
    if (pairs.b_of_a[i] < 0) continue;
    pairs.a_of_b[static_cast<std::size_t>(pairs.b_of_a[i])] = static_cast<std::int32_t>(i);
    ++pairs.count;
  }
  return pairs;
}

KeyPairs paired_keys(const session::TraceSession& a, const session::TraceSession& b,
                     const CancelToken& cancel) {
  if (trace::same_model(a.info().model, b.info().model))
    return paired_keys(a.token_ids(), b.token_ids(), cancel);
  std::unordered_map<std::string_view, std::int32_t> numbers;
  std::int32_t unknown = -1;  // a token without a text is like no other
  const auto numbered = [&](const std::vector<std::string>& texts) {
    std::vector<std::int32_t> ids;
    for (const std::string& text : texts)
      ids.push_back(
          text.empty()
              ? unknown--
              : numbers.try_emplace(text, static_cast<std::int32_t>(numbers.size())).first->second);
    return ids;
  };
  return paired_keys(numbered(a.token_texts()), numbered(b.token_texts()), cancel);
}

std::vector<int> paired_chunks(const std::vector<trace::ChunkInfo>& a,
                               const std::vector<trace::ChunkInfo>& b, const KeyPairs& pairs) {
  std::vector<int> chunk_of_b;
  for (std::size_t chunk = 0; chunk < b.size(); ++chunk)
    chunk_of_b.insert(chunk_of_b.end(), static_cast<std::size_t>(b[chunk].length),
                      static_cast<int>(chunk));
  std::vector<int> partners;
  for (const trace::ChunkInfo& chunk : a) {
    std::map<int, int> votes;
    for (std::int32_t token = chunk.begin; token < chunk.begin + chunk.length; ++token)
      if (const std::int32_t partner = pairs.in_b(token); partner >= 0)
        ++votes[chunk_of_b.at(static_cast<std::size_t>(partner))];
    const auto most =
        std::max_element(votes.begin(), votes.end(),
                         [](const auto& x, const auto& y) { return x.second < y.second; });
    partners.push_back(most == votes.end() ? -1 : most->first);
  }
  return partners;
}

void count_keys(const trace::CellRecord& a, const trace::CellRecord& b, const KeyPairs& pairs,
                DiffRow& row) {
  const auto index = static_cast<std::size_t>(row.row);
  const auto is_candidate = [](const trace::CellRecord& cell, std::int32_t key) {
    return key >= cell.first_candidate && key < cell.end_of_candidates();
  };
  // The keys of both in positions of A: partners ascend as they do.
  std::vector<std::int32_t> of_a, of_b;
  for (const std::int32_t key : a.rows.at(index).positions)
    if (const std::int32_t other = pairs.in_b(key); other >= 0 && is_candidate(b, other))
      of_a.push_back(key);
  for (const std::int32_t key : b.rows.at(index).positions)
    if (const std::int32_t other = pairs.in_a(key); other >= 0 && is_candidate(a, other))
      of_b.push_back(other);
  const auto name = [](std::vector<std::int32_t>& named, std::int32_t key) {
    if (named.size() < kNamedKeys) named.push_back(key);
  };
  std::size_t i = 0, j = 0;
  while (i < of_a.size() || j < of_b.size()) {
    if (j == of_b.size() || (i < of_a.size() && of_a[i] < of_b[j])) {
      ++row.only_a;
      name(row.first_only_a, of_a[i++]);
    } else if (i == of_a.size() || of_b[j] < of_a[i]) {
      ++row.only_b;
      name(row.first_only_b, pairs.in_b(of_b[j++]));
    } else {
      ++row.both, ++i, ++j;
    }
  }
}

std::optional<selection::RowLayout> finer_layout(const selection::RowLayout& a,
                                                 const selection::RowLayout& b) {
  const bool a_is_finer = a.q_heads_per_row <= b.q_heads_per_row;
  const selection::RowLayout& fine = a_is_finer ? a : b;
  const selection::RowLayout& coarse = a_is_finer ? b : a;
  if (coarse.q_heads_per_row % fine.q_heads_per_row != 0) return std::nullopt;
  return fine;
}

void split_rows(ReplayResult& result, const selection::RowLayout& layout) {
  const int parts = result.q_heads_per_row / layout.q_heads_per_row;
  KVLOUPE_CHECK(parts * layout.q_heads_per_row == result.q_heads_per_row);
  result.row_axis = layout.axis;
  result.q_heads_per_row = layout.q_heads_per_row;
  if (parts == 1) return;
  for (ReplayCell& cell : result.cells) {
    std::vector<trace::SelectedRow> rows;
    for (const trace::SelectedRow& row : cell.rows)
      rows.insert(rows.end(), static_cast<std::size_t>(parts), row);
    cell.rows = std::move(rows);
  }
}

const DiffRow* Diff::first_divergence() const {
  const DiffRow* first = nullptr;
  const auto order = [](const DiffRow& row) { return std::tuple(row.chunk, row.layer, row.row); };
  for (const DiffRow& row : rows)
    if (row.differs() && (first == nullptr || order(row) < order(*first))) first = &row;
  return first;
}

}  // namespace kvloupe::replay
