// Copies of a layer's keys that methods score by instead of the keys themselves: rotated, by lane, or
// cut down to a few directions; in fp32 whatever the type of the keys. A copy is made once and grows as
// keys come in, so that a chunk or a step pays for its own keys alone; all methods that ask for the
// same one share it.
#pragma once

#include "core/attention/lane_attention.h"
#include "core/selection/selector.h"

#include <cstdint>
#include <vector>

namespace kvloupe::selection {

// What a copy holds: of each key the first `width` lanes in the basis of its layer and KV head.
struct KeyCopyForm {
  BasisPtr basis;          // null: the channels as they are stored
  std::int64_t width = 0;  // at most head_dim
  bool by_lane = true;     // lane tiles (attention/lane_products.h); else rows of `width`
  bool of_values = false;  // of V and its basis, in place of K
};

// One layer's, from a KV cache whose keys do not change. One thread at a time.
class KeyCopies {
 public:
  // A copy of all keys of the cell, from cell.first_key on at the least; of those that an earlier
  // call has copied nothing is read. The numbers of a key depend on it and the basis alone. Throws
  // Error{Input} where the basis does not hold the layer.
  attention::LaneKeys get(const Cell& cell, const KeyCopyForm& form);
  // The directions of a basis that get() has had, of keys or of values, on the device of the cell, where
  // they are brought once. Undefined: it has not had them.
  at::Tensor held_directions(const Cell& cell, const trace::Basis& basis, bool of_values) const;
  // Forgets the keys from this position on.
  void forget_from(std::int64_t position);
  std::int64_t bytes() const;

 private:
  struct Copy {
    KeyCopyForm form;
    std::int64_t first = 0, end = 0;  // positions
    at::Tensor numbers;               // with room for more keys
  };
  // The basis is held as long: no other one has its address.
  struct Directions {
    BasisPtr basis;
    bool of_values = false;
    int layer = 0;
    at::Tensor there;
  };
  Copy& copy_of(int layer, const KeyCopyForm& form);
  at::Tensor directions_for(const Cell& cell, const KeyCopyForm& form);

  std::vector<Copy> copies_;
  std::vector<Directions> directions_;
};

// get() of the cell's copies; where it has none, of a copy that nobody else sees.
attention::LaneKeys copied_keys(const Cell& cell, const KeyCopyForm& form);

// The keys of the cell from such a copy of rows, [num_kv_heads, kv_len, width].
at::Tensor rows_of_copy(const Cell& cell, const attention::LaneKeys& rows);

// The directions of the layer, [num_kv_heads, head_dim, head_dim] with direction i in column i, on the
// cell's device: those that the cell's copies hold, else brought there; on the CPU in the memory of
// `basis`. Throws as get().
at::Tensor directions_of(const Cell& cell, const trace::Basis& basis);
// The same of the values. Throws Error{Input} where the basis holds none.
at::Tensor value_directions_of(const Cell& cell, const trace::Basis& basis);

}  // namespace kvloupe::selection
