// Mass oracle: keeps the keys that the chunk's attention truly weighs most. Needs the attention
// that a sparse method wants to avoid, so it is an upper bound, not a method to deploy.
//   p[h,t,j]  the dense causal softmax of the chunk's rows
//   sum:  score[g,j] = sum over the group's heads h and the rows t of p[h,t,j]   (best mass recall)
//   max:  score[g,j] = max over h, t of p[h,t,j]                                 (worst query)
// The sum is the exact maximiser of captured mass at its size; neither minimises the output error.
#include "core/selection/method.h"

#ifdef KVLOUPE_SELECTORS
#include "core/attention/attention.h"
#include "core/selection/cell_rows.h"
#include "core/selection/kernels.h"
#include "core/selection/visibility_selector.h"

#include <algorithm>

namespace kvloupe::selection {
namespace {

class Oracle final : public ScoringSelector {
 public:
  using ScoringSelector::ScoringSelector;

 protected:
  std::vector<float> scores(const Cell& cell, std::int64_t num_candidates) override {
    return spec().text("reduce") == "sum" ? mass(cell, num_candidates)
                                          : largest(cell, num_candidates);
  }

 private:
  static std::vector<float> mass(const Cell& cell, std::int64_t num_candidates) {
    const at::Tensor all = attention::chunk_mass(cell.q, cell.k, cell.softmax).key_mass;
    std::vector<float> result;
    for (std::int64_t head = 0; head < cell.num_kv_heads(); ++head) {
      const float* row = all.const_data_ptr<float>() + head * all.stride(0);
      result.insert(result.end(), row, row + num_candidates);
    }
    return result;
  }

  static std::vector<float> largest(const Cell& cell, std::int64_t num_candidates) {
    const std::int64_t total = cell.kv_len();
    std::vector<float> result(static_cast<std::size_t>(cell.num_kv_heads() * num_candidates));
    const std::int64_t operations =
        cell.gqa_group_size() * cell.chunk_len * total * (cell.q.size(2) + 16);
    for_each_item(cell.num_kv_heads(), operations, [&](std::int64_t kv_head) {
      std::vector<float> best(static_cast<std::size_t>(total), 0.0F);
      for (std::int64_t member = 0; member < cell.gqa_group_size(); ++member) {
        const std::int64_t q_head = kv_head * cell.gqa_group_size() + member;
        const ChunkRows rows =
            chunk_rows(cell, q_head, latest_rows(cell.chunk_len, cell.chunk_len));
        reduce_probabilities(pack_rows(rows.pointers, cell.q.size(2)), rows.visible,
                             keys_of(cell, kv_head), total, rows.softmax(cell.softmax),
                             ColumnReduce::Max, best.data());
      }
      std::copy_n(best.begin(), num_candidates, result.begin() + kv_head * num_candidates);
    });
    return result;
  }
};

}  // namespace

std::unique_ptr<Selector> make_oracle(const Setup& setup) {
  return std::make_unique<Oracle>(setup.spec);
}

}  // namespace kvloupe::selection

#else  // what is known of it

namespace kvloupe::selection {

Method oracle_method() {
  Method method;
  MethodInfo& info = method.info;
  info.id = "oracle";
  info.title = "Mass oracle";
  info.paper = "reference, no paper";
  info.evidence = "exact top keys by dense attention mass";
  info.summary = "Keeps the keys that the chunk's dense attention weighs most.";
  info.needs = {"q", "k"};
  info.accepts_scope_all = true;
  info.params = {
      enum_param("reduce", {"sum", "max"}, "over the chunk's rows and the group's heads")};
  return method;
}

}  // namespace kvloupe::selection

#endif
