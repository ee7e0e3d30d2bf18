#include "core/selection/lanes/key_copies.h"

#include "core/attention/lane_products.h"
#include "core/attention/upload.h"
#include "core/base/error.h"
#include "core/selection/cell_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::selection {
namespace {

using attention::kLaneTileKeys;

const trace::LayerBasis& layer_of(const Cell& cell, const trace::Basis& basis) {
  const auto found = basis.layers.find(cell.layer);
  if (found == basis.layers.end())
    throw input_error(fmt::format("layer {} cannot be rotated", cell.layer),
                      fmt::format("the basis from {} does not hold it", basis.source),
                      "name other layers, or make the basis again by kvloupe calibrate");
  return found->second;
}

const std::vector<float>& vectors_of(const Cell& cell, const trace::Basis& basis, bool of_values) {
  const trace::LayerBasis& layer = layer_of(cell, basis);
  if (of_values && layer.value_vectors.empty())
    throw input_error("values cannot be sliced",
                      fmt::format("the basis from {} holds no directions of values", basis.source),
                      "make it again by kvloupe calibrate aqua");
  return of_values ? layer.value_vectors : layer.vectors;
}

at::Tensor brought_to(const Cell& cell, const trace::Basis& basis, bool of_values) {
  const std::vector<float>& vectors = vectors_of(cell, basis, of_values);
  const std::int64_t dim = basis.head_dim;
  return attention::uploaded(
      at::from_blob(const_cast<float*>(vectors.data()), {basis.num_kv_heads, dim, dim}, at::kFloat),
      cell.k.device());
}

at::Tensor held_or_brought(const Cell& cell, const trace::Basis& basis, bool of_values) {
  at::Tensor held;
  if (cell.copies) held = cell.copies->held_directions(cell, basis, of_values);
  return held.defined() ? held : brought_to(cell, basis, of_values);
}

// For `num_keys` keys of each KV head.
at::Tensor room_for(const Cell& cell, const KeyCopyForm& form, std::int64_t num_keys) {
  const at::TensorOptions fp32 = cell.k.options().dtype(at::kFloat);
  if (!form.by_lane) return at::empty({cell.num_kv_heads(), num_keys, form.width}, fp32);
  return at::zeros(
      {cell.num_kv_heads(), attention::num_lane_tiles(num_keys), form.width, kLaneTileKeys}, fp32);
}

// Along dimension 1, which is of keys or of tiles of them.
std::int64_t room_of(const at::Tensor& numbers, const KeyCopyForm& form) {
  return numbers.size(1) * (form.by_lane ? kLaneTileKeys : 1);
}

// Of `count` keys from cell position `begin` on to the places from `place` on. In pieces, so that what
// is rotated stays small beside the keys.
void copy_keys(const Cell& cell, const KeyCopyForm& form, const at::Tensor& directions,
               std::int64_t begin, std::int64_t count, std::int64_t place,
               const at::Tensor& numbers) {
  constexpr std::int64_t kPiece = 4096;
  const at::Tensor& source = form.of_values ? cell.v : cell.k;
  for (std::int64_t done = 0; done < count; done += kPiece) {
    const std::int64_t rows = std::min(kPiece, count - done);
    const at::Tensor keys = source.narrow(1, begin + done, rows);
    const at::Tensor lanes =
        form.basis ? rotate_rows(keys, directions, form.width) : keys.narrow(2, 0, form.width);
    if (form.by_lane)
      store_lanes(numbers, lanes, place + done);
    else
      numbers.narrow(1, place + done, rows).copy_(lanes);
  }
}

}  // namespace

at::Tensor directions_of(const Cell& cell, const trace::Basis& basis) {
  return held_or_brought(cell, basis, /*of_values=*/false);
}

at::Tensor value_directions_of(const Cell& cell, const trace::Basis& basis) {
  return held_or_brought(cell, basis, /*of_values=*/true);
}

at::Tensor KeyCopies::held_directions(const Cell& cell, const trace::Basis& basis,
                                      bool of_values) const {
  for (const Directions& held : directions_)
    if (held.basis.get() == &basis && held.of_values == of_values && held.layer == cell.layer &&
        held.there.device() == cell.k.device())
      return held.there;
  return {};
}

at::Tensor KeyCopies::directions_for(const Cell& cell, const KeyCopyForm& form) {
  const at::Tensor held = held_directions(cell, *form.basis, form.of_values);
  if (held.defined()) return held;
  const at::Tensor there = brought_to(cell, *form.basis, form.of_values);
  directions_.push_back({form.basis, form.of_values, cell.layer, there});
  return there;
}

// Methods that name the same directions may have read them each for itself.
KeyCopies::Copy& KeyCopies::copy_of(int layer, const KeyCopyForm& form) {
  const auto vectors =
      form.of_values ? &trace::LayerBasis::value_vectors : &trace::LayerBasis::vectors;
  const auto same_directions = [&](const BasisPtr& other) {
    if (other == form.basis) return true;
    return other && form.basis && form.basis->layers.contains(layer) &&
           other->layers.at(layer).*vectors == form.basis->layers.at(layer).*vectors;
  };
  for (Copy& copy : copies_)
    if (copy.form.width == form.width && copy.form.by_lane == form.by_lane &&
        copy.form.of_values == form.of_values && same_directions(copy.form.basis))
      return copy;
  copies_.emplace_back().form = form;
  return copies_.back();
}

attention::LaneKeys KeyCopies::get(const Cell& cell, const KeyCopyForm& form) {
  KVLOUPE_CHECK(0 < form.width && form.width <= cell.k.size(2));
  KVLOUPE_CHECK(!form.basis || (form.basis->head_dim == cell.k.size(2) &&
                                form.basis->num_kv_heads == cell.num_kv_heads()));
  const std::int64_t end = cell.first_key + cell.kv_len();
  // Refuses a layer that the basis does not hold.
  const at::Tensor directions = form.basis ? directions_for(cell, form) : at::Tensor();
  Copy& copy = copy_of(cell.layer, form);
  // Keys that a window hid from the first cell were not there to copy.
  if (!copy.numbers.defined() || cell.first_key < copy.first || copy.end < cell.first_key ||
      copy.numbers.device() != cell.k.device())
    copy = {form, cell.first_key, cell.first_key, at::Tensor()};
  if (copy.end < end) {
    const std::int64_t num_keys = end - copy.first, held = copy.end - copy.first;
    if (!copy.numbers.defined() || room_of(copy.numbers, form) < num_keys) {
      // A selection that still refers to the smaller copy keeps it.
      at::Tensor larger = room_for(cell, form, held == 0 ? num_keys : num_keys + num_keys / 4);
      if (held > 0) {
        const std::int64_t used = copy.numbers.size(1);
        larger.narrow(1, 0, used).copy_(copy.numbers);
      }
      copy.numbers = std::move(larger);
    }
    copy_keys(cell, form, directions, copy.end - cell.first_key, end - copy.end, held,
              copy.numbers);
    copy.end = end;
  }
  return {copy.numbers, copy.first};
}

void KeyCopies::forget_from(std::int64_t position) {
  for (Copy& copy : copies_) copy.end = std::clamp(position, copy.first, copy.end);
}

std::int64_t KeyCopies::bytes() const {
  std::int64_t sum = 0;
  for (const Copy& copy : copies_)
    if (copy.numbers.defined()) sum += static_cast<std::int64_t>(copy.numbers.nbytes());
  return sum;
}

at::Tensor rows_of_copy(const Cell& cell, const attention::LaneKeys& rows) {
  return rows.numbers.narrow(1, cell.first_key - rows.first_position, cell.kv_len());
}

attention::LaneKeys copied_keys(const Cell& cell, const KeyCopyForm& form) {
  if (cell.copies) return cell.copies->get(cell, form);
  return KeyCopies().get(cell, form);
}

}  // namespace kvloupe::selection
