// A selector of one method on arrays of the caller: what kvloupe.h promises, in the project's own types. Needs Torch. Everything
// here throws Error, and runs on one thread at a time.
#pragma once

#include "core/c_api/chunk_order.h"
#include "core/c_api/kvloupe.h"
#include "core/selection/selector.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::c_api {

// Positions of rows, one row after the other: row r is from offsets[r] to before offsets[r + 1]. Both empty: nothing was
// selected.
struct Rows {
  std::vector<std::int32_t> positions;
  std::vector<std::int64_t> offsets;
};

class Session {
 public:
  // `threads` 0: all cores. Throws Error{Usage} for a SPEC or a model that is none, Error{Input} where
  // the method needs what arrays do not give, or a file that does not fit.
  Session(std::string_view spec, const kvloupe_model& model, int threads);

  // A copy with all that `other` has seen. Throws Error{Usage} where a chunk failed half way.
  Session(const Session& other);
  Session& operator=(const Session&) = delete;

  void select(const kvloupe_chunk& chunk);
  void show_alive(int layer);
  void reset(std::int64_t past, std::int64_t chunk);

  const std::string& spec() const { return canonical_; }
  const selection::RowLayout& layout() const { return layout_; }
  std::int64_t num_rows() const;
  // Of the last select() or show_alive(); throws Error{Usage} where there was none, or not that row.
  const Rows& rows() const;
  std::span<const std::int32_t> row(std::int64_t index) const;
  // Of the last select(), of a block method; null where the cell is dense. Throws Error{Usage} as row(), and
  // for other methods.
  const trace::BlockMasks* blocks() const;
  // Of the last select(); null where the method chose.
  const char* dense_reason() const;

 private:
  void check_layer(int layer) const;
  void check_selected(const char* what) const;
  void check_sources(int layer) const;
  // The cell, its values checked; it reads the caller's memory where it can.
  selection::Cell cell_of(const kvloupe_chunk& chunk, std::int64_t length);
  const std::shared_ptr<selection::KeyCopies>& copies_of(int layer);
  void add_probe(const kvloupe_chunk& chunk, selection::Cell& cell) const;
  void start();
  int oldest_asked_for() const;

  int threads_;
  selection::ModelShape shape_;
  std::vector<SoftmaxForm> softmax_;  // [num_layers]
  selection::MethodSpec spec_;
  std::string canonical_;
  selection::RowLayout layout_;
  selection::BasisPtr basis_;
  bool reads_values_ = false;

  std::unique_ptr<selection::Selector> selector_;
  ChunkOrder order_;
  // By layer; a copied session makes its own, since its text may go on otherwise.
  std::map<int, std::shared_ptr<selection::KeyCopies>> copies_;
  // A chunk failed half way, so that nobody knows what the selector has seen.
  bool broken_ = false;
  std::optional<trace::DenseReason> dense_reason_;
  Rows rows_;
  std::optional<trace::BlockMasks> blocks_;
};

}  // namespace kvloupe::c_api
