// What a method has on the host for all its cells, bases and the weights of gates, goes to the device once.
#include "core/device/torch_device.h"
#include "core/selection/attend.h"
#include "core/selection/lanes/key_copies.h"
#include "tests/selection/sequences.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvloupe::selection::testing {
namespace {

struct Upload {
  const void* source;
  std::vector<std::int64_t> sizes;
};

// All that this thread copies from the host to a device while one lives.
class Uploads {
 public:
  Uploads()
      : callback_(at::addThreadLocalCallback(at::RecordFunctionCallback(&note).needsInputs(true))) {
    seen_.clear();
  }
  ~Uploads() { at::removeCallback(callback_); }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  std::int64_t from(const std::vector<float>& numbers) const {
    return std::count_if(seen_.begin(), seen_.end(),
                         [&](const Upload& upload) { return upload.source == numbers.data(); });
  }
  std::int64_t of(const std::vector<std::int64_t>& sizes) const {
    return std::count_if(seen_.begin(), seen_.end(),
                         [&](const Upload& upload) { return upload.sizes == sizes; });
  }

 private:
  static std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& call) {
    if (std::string_view(call.name()) != "aten::copy_") return nullptr;
    const at::Tensor to = call.inputs()[0].toTensor(), from = call.inputs()[1].toTensor();
    if (!to.is_cpu() && from.is_cpu()) seen_.push_back({from.const_data_ptr(), from.sizes().vec()});
    return nullptr;
  }

  static inline thread_local std::vector<Upload> seen_;
  at::CallbackHandle callback_;
};

// The cells of a sequence on `sim`, which share the copies of their keys.
class Cells {
 public:
  explicit Cells(Sequence sequence) : sequence_(std::move(sequence)) {
    sequence_.device = device::torch_device("sim");
  }
  const Sequence& sequence() const { return sequence_; }
  Cell of(int chunk) const {
    Cell cell = cell_of(sequence_, chunk);
    cell.copies = copies_;
    return cell;
  }

 private:
  Sequence sequence_;
  std::shared_ptr<KeyCopies> copies_ = std::make_shared<KeyCopies>();
};

struct Pass {
  std::int64_t of_keys = 0, of_values = 0;  // uploads of the basis
};
Pass pass_with_basis(const std::string& text) {
  const Cells cells(random_sequence({.chunk_lengths = {20, 20, 20}}, 31));
  const ModelShape model = cells.sequence().model();
  const MethodSpec spec = MethodSpec::parse(text).resolved(model);
  const auto basis = std::make_shared<trace::Basis>(cells.sequence().basis);
  basis->kind = spec.traits().basis->kind;
  const auto selector = make_selector(spec, model, basis);
  const Uploads uploads;
  for (int chunk = 0; chunk < static_cast<int>(cells.sequence().chunks.size()); ++chunk) {
    const Cell cell = cells.of(chunk);
    const CellSelection selection = selector->select(cell);
    selector->evict(cell);
    attend_selected(spec, {}, cell, row_layout(spec, model), selection);
  }
  const trace::LayerBasis& layer = basis->layers.at(0);
  return {uploads.from(layer.vectors), uploads.from(layer.value_vectors)};
}

TEST(Uploads, OfABasisAreOne) {
  for (const char* spec :
       {"aqua:dim_ratio=0.5", "static_slicing:dim_ratio=0.5", "aqua_h2o:dim_ratio=0.5",
        "loki:budget_tokens=8,num_channels=3", "loki:budget_tokens=8,agg=prob_mean"}) {
    const Pass pass = pass_with_basis(spec);
    EXPECT_EQ(pass.of_keys, 1) << spec;
    EXPECT_EQ(pass.of_values, 0) << spec;
  }
  const Pass pass = pass_with_basis("aqua_memory:dim_ratio=0.5,slice_ratio=0.25,slice_values=1");
  EXPECT_EQ(pass.of_keys, 1);
  EXPECT_EQ(pass.of_values, 1);
}

// Of another basis with the same directions, too.
TEST(Uploads, OfABasisAreHeldAsLongAsTheCopies) {
  std::weak_ptr<const trace::Basis> held_one;
  {
    const Cells cells(random_sequence({}, 32));
    const Cell cell = cells.of(2);
    const auto one = std::make_shared<const trace::Basis>(cells.sequence().basis);
    const auto same = std::make_shared<const trace::Basis>(cells.sequence().basis);
    held_one = one;
    for (const BasisPtr& basis : {one, same}) {
      EXPECT_FALSE(cell.copies->held_directions(cell, *basis, false).defined());
      cell.copies->get(cell, {basis, 16, true});
      const at::Tensor held = cell.copies->held_directions(cell, *basis, false);
      EXPECT_TRUE(held.is_same(directions_of(cells.of(3), *basis)));
      EXPECT_FALSE(cell.copies->held_directions(cell, *basis, true).defined());
    }
  }
  EXPECT_TRUE(held_one.expired());
}

TEST(Uploads, OfAGateAreOneOfALayer) {
  const Cells cells(random_sequence({.chunk_lengths = {20, 20, 20, 20}, .decoded = 0}, 33));
  const auto selector = selector_for(cells.sequence(), "seer_attention:block_size=8,gate=FILE");
  // Each chunk has three blocks of queries.
  const std::vector<std::int64_t> of_queries = {4, 16, 12}, of_keys = {2, 48, 12},
                                  of_angles = {2, 64, 6}, of_angles_of_chunk = {3, 6};
  const auto select = [&](int chunk) {
    const Cell cell = cells.of(chunk);
    const Uploads uploads;
    selector->select(cell);
    return std::vector<std::int64_t>{uploads.of(of_queries), uploads.of(of_keys),
                                     uploads.of(of_angles), uploads.of(of_angles_of_chunk)};
  };
  select(0);  // keeps all that there is
  EXPECT_EQ(select(1), (std::vector<std::int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(select(2), (std::vector<std::int64_t>{0, 0, 0, 0}));
  EXPECT_EQ(select(3), (std::vector<std::int64_t>{0, 0, 0, 0}));
}

}  // namespace
}  // namespace kvloupe::selection::testing
