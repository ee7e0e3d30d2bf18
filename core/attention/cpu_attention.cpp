#include "core/attention/cpu_attention.h"

#include "core/attention/gemm.h"
#include "core/attention/scratch.h"
#include "core/attention/softmax.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

// Of the BLAS inside libtorch_cpu. Returns the calling thread's setting so far, 0 where it has none.
extern "C" int MKL_Set_Num_Threads_Local(int num_threads);

namespace kvloupe::attention::cpu {
namespace {

// Inside a parallel region a product runs on one thread, and yet MKL cuts it into as many parts as
// it has threads in all, which decides the bits. While this lives it cuts into a fixed number.
class FixedCut {
 public:
  FixedCut() : before_(MKL_Set_Num_Threads_Local(kParts)) {}
  ~FixedCut() { MKL_Set_Num_Threads_Local(before_); }
  FixedCut(const FixedCut&) = delete;
  FixedCut& operator=(const FixedCut&) = delete;

 private:
  static constexpr int kParts = 2;
  int before_;
};

struct Shape {
  std::int64_t num_q_heads, num_kv_heads, chunk_len, kv_len, head_dim;
  std::int64_t past_len() const { return kv_len - chunk_len; }
  std::int64_t rows_per_kv_head() const { return num_q_heads / num_kv_heads * chunk_len; }
};

Shape shape_of(const at::Tensor& q, const at::Tensor& k) {
  return {q.size(0), k.size(0), q.size(1), k.size(1), q.size(2)};
}

}  // namespace

at::Tensor contiguous_per_head(const at::Tensor& tensor) {
  const bool as_is = tensor.stride(2) == 1 && tensor.stride(1) == tensor.size(2);
  return as_is ? tensor : tensor.contiguous();
}

const float* head_data(const at::Tensor& tensor, std::int64_t head) {
  return tensor.const_data_ptr<float>() + head * tensor.stride(0);
}

void share_out(std::int64_t count, const std::function<void(const NextItem&)>& work) {
  std::atomic<std::int64_t> taken = 0;
  const NextItem next = [&]() -> std::optional<std::int64_t> {
    const std::int64_t item = taken.fetch_add(1, std::memory_order_relaxed);
    return item < count ? std::optional(item) : std::nullopt;
  };
  // Two workers at least, though one may find nothing to do: a product outside of a parallel region
  // is cut over the threads, and its bits depend on their number.
  const std::int64_t workers =
      std::min<std::int64_t>(std::max<std::int64_t>(count, 2), at::get_num_threads());
  at::parallel_for(0, workers, 1, [&](std::int64_t, std::int64_t) {
    if (!at::in_parallel_region()) return work(next);
    const FixedCut cut;
    work(next);
  });
}

void shape_gathered_view(const SoftmaxForm& softmax, std::int64_t first_head,
                         const std::int32_t* positions, std::int64_t count, std::int64_t chunk_len,
                         KeyView* view) {
  shape_view(
      softmax, first_head, positions[count - chunk_len], chunk_len,
      [&](std::int64_t position) {
        return std::lower_bound(positions, positions + count, position) - positions;
      },
      view);
}

void attend_views(const Queries& q, double scale, const std::vector<KeyView>& views,
                  const std::vector<RowSpan>& spans, Results* results) {
  const std::int64_t chunk_len = q.values.size(1), width = q.values.size(2);
  const std::int64_t dim = results->output.defined() ? results->output.size(2) : 0;
  const std::int64_t rows_per_view =
      q.values.size(0) / static_cast<std::int64_t>(views.size()) * chunk_len;
  const float* values = q.values.const_data_ptr<float>();
  const std::int32_t* lanes = q.lanes.defined() ? q.lanes.const_data_ptr<std::int32_t>() : nullptr;
  float* output = results->output.defined() ? results->output.mutable_data_ptr<float>() : nullptr;
  float* lse = results->lse.defined() ? results->lse.mutable_data_ptr<float>() : nullptr;
  float* sums =
      results->span_sums.defined() ? results->span_sums.mutable_data_ptr<float>() : nullptr;
  std::int64_t most_keys = 0;
  for (const KeyView& view : views) most_keys = std::max(most_keys, view.past + chunk_len);
  share_out(static_cast<std::int64_t>(spans.size()), [&](const NextItem& next) {
    const Scratch scratch(scratch_floats(most_keys, sums != nullptr));
    while (const auto s = next()) {
      const RowSpan& span = spans[*s];
      float* column_sums = sums == nullptr ? nullptr : sums + *s * padded(most_keys);
      if (column_sums != nullptr) std::fill_n(column_sums, padded(most_keys), 0.0f);
      for (std::int64_t row = span.begin; row < span.end; row += span.block_rows) {
        const std::int64_t rows = std::min(span.block_rows, span.end - row);
        const std::int64_t folded = span.view * rows_per_view + row;
        const QueryRows block{values + folded * width, width,
                              lanes == nullptr ? nullptr : lanes + folded * width};
        attend_row_block(block, row, rows, chunk_len, dim, static_cast<float>(scale),
                         views[span.view], scratch.data(),
                         {output == nullptr ? nullptr : output + folded * dim,
                          lse == nullptr ? nullptr : lse + folded, column_sums});
      }
    }
  });
}

at::Tensor room_for_sums(const std::vector<RowSpan>& spans, std::int64_t num_keys,
                         const at::Tensor& like) {
  return at::empty({static_cast<std::int64_t>(spans.size()), padded(num_keys)}, like.options());
}

namespace {

// Views of the whole cache, less the keys that a window hides from all rows.
struct CacheViews {
  std::int64_t first_key = 0;
  std::vector<KeyView> views;  // per KV head
};

CacheViews whole_cache(const at::Tensor& k, const at::Tensor* v, const Shape& shape,
                       const SoftmaxForm& softmax) {
  CacheViews cache;
  cache.first_key = softmax.first_visible(shape.past_len());
  const std::int64_t skipped = cache.first_key * shape.head_dim;
  const std::int64_t group = shape.num_q_heads / shape.num_kv_heads;
  for (std::int64_t g = 0; g < shape.num_kv_heads; ++g) {
    const float* values = v == nullptr ? nullptr : head_data(*v, g) + skipped;
    KeyView& view = cache.views.emplace_back();
    view.segments = {{head_data(k, g) + skipped, values, shape.kv_len - cache.first_key}};
    view.past = shape.past_len() - cache.first_key;
    shape_view(
        softmax, g * group, shape.past_len(), shape.chunk_len,
        [&](std::int64_t position) { return position - cache.first_key; }, &view);
  }
  return cache;
}

// Adds the spans' column sums up in order: key_mass [num_kv_heads, kv_len]; the sums are those of the
// keys from first_key on.
at::Tensor key_mass_of_spans(const at::Tensor& span_sums, const std::vector<RowSpan>& spans,
                             const Shape& shape, std::int64_t first_key) {
  at::Tensor mass = at::zeros({shape.num_kv_heads, shape.kv_len}, span_sums.options());
  float* out = mass.mutable_data_ptr<float>();
  const float* sums = span_sums.const_data_ptr<float>();
  const std::int64_t count = shape.kv_len - first_key;
  for (std::size_t s = 0; s < spans.size(); ++s) {
    float* row = out + spans[s].view * shape.kv_len + first_key;
    const float* add = sums + s * padded(count);
    for (std::int64_t j = 0; j < count; ++j) row[j] += add[j];
  }
  return mass;
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const at::Tensor& q_in,
                                                               const at::Tensor& k_in,
                                                               const at::Tensor& v_in,
                                                               PackedSoftmax packed_softmax,
                                                               bool want_mass) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_in.contiguous(), k = contiguous_per_head(k_in),
                   v = contiguous_per_head(v_in);
  const Shape shape = shape_of(q, k);
  const std::vector<RowSpan> spans = cut_rows(shape.num_kv_heads, shape.rows_per_kv_head());
  const CacheViews cache = whole_cache(k, &v, shape, softmax);
  Results results;
  results.output = at::empty(q.sizes(), q.options());
  results.lse = at::empty({shape.num_q_heads, shape.chunk_len}, q.options());
  if (want_mass) results.span_sums = room_for_sums(spans, shape.kv_len - cache.first_key, q);
  attend_views({q}, softmax.scale, cache.views, spans, &results);
  return {results.output, results.lse,
          want_mass ? key_mass_of_spans(results.span_sums, spans, shape, cache.first_key)
                    : at::empty({0}, q.options())};
}

std::tuple<at::Tensor, at::Tensor> chunk_mass(const at::Tensor& q_in, const at::Tensor& k_in,
                                              PackedSoftmax packed_softmax) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_in.contiguous(), k = contiguous_per_head(k_in);
  const Shape shape = shape_of(q, k);
  const std::vector<RowSpan> spans = cut_rows(shape.num_kv_heads, shape.rows_per_kv_head());
  const CacheViews cache = whole_cache(k, nullptr, shape, softmax);
  Results results;
  results.lse = at::empty({shape.num_q_heads, shape.chunk_len}, q.options());
  results.span_sums = room_for_sums(spans, shape.kv_len - cache.first_key, q);
  attend_views({q}, softmax.scale, cache.views, spans, &results);
  return {results.lse, key_mass_of_spans(results.span_sums, spans, shape, cache.first_key)};
}

at::Tensor attention_rows(const at::Tensor& q_head, const at::Tensor& k_head,
                          PackedSoftmax packed_softmax, std::int64_t first_position,
                          const at::Tensor& lse_rows) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_head.contiguous(), k = k_head.contiguous(), lse = lse_rows.contiguous();
  const std::int64_t rows = q.size(0), keys = k.size(0), stride = padded(keys);
  at::Tensor p = at::zeros({rows, stride}, q.options());
  float* data = p.mutable_data_ptr<float>();
  const float* shift = lse.const_data_ptr<float>();
  multiply_qk(q.const_data_ptr<float>(), k.const_data_ptr<float>(), rows, keys, q.size(1),
              static_cast<float>(softmax.scale), data, stride);
  at::parallel_for(0, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const std::int64_t visible = std::clamp<std::int64_t>(first_position + r + 1, 0, keys);
      float* row = data + r * stride;
      if (softmax.softcap > 0) cap_row(row, padded(visible), static_cast<float>(softmax.softcap));
      exp_row(row, padded(visible), shift[r]);
      std::fill_n(row, std::min(softmax.first_visible(first_position + r), visible), 0.0f);
      std::fill(row + visible, row + stride, 0.0f);
    }
  });
  return stride == keys ? p : p.narrow(1, 0, keys).contiguous();
}

std::tuple<at::Tensor, at::Tensor> gather_keys(const at::Tensor& k_in, const at::Tensor& v_in,
                                               std::int64_t chunk_len, at::IntArrayRef begin,
                                               const at::Tensor& positions) {
  const at::Tensor k = contiguous_per_head(k_in), v = contiguous_per_head(v_in);
  const std::int64_t heads = k.size(0), past_len = k.size(1) - chunk_len, dim = k.size(2);
  at::Tensor k_rows = at::empty({begin.back(), dim}, k.options());
  at::Tensor v_rows = at::empty({begin.back(), dim}, v.options());
  float* k_out = k_rows.mutable_data_ptr<float>();
  float* v_out = v_rows.mutable_data_ptr<float>();
  const auto* position = positions.const_data_ptr<std::int32_t>();
  // Twice as many pieces as KV heads: K and V of a head may go to two threads.
  at::parallel_for(0, 2 * heads, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t piece = first; piece < last; ++piece) {
      const std::int64_t g = piece / 2, past_count = begin[g + 1] - begin[g] - chunk_len;
      const float* from = piece % 2 == 0 ? head_data(k, g) : head_data(v, g);
      float* to = (piece % 2 == 0 ? k_out : v_out) + begin[g] * dim;
      copy_rows(from, position + begin[g], past_count, dim, to);
      std::memcpy(to + past_count * dim, from + past_len * dim, chunk_len * dim * sizeof(float));
    }
  });
  return {k_rows, v_rows};
}

at::Tensor attend_gathered(const at::Tensor& q_in, const at::Tensor& k, const at::Tensor& v,
                           PackedSoftmax packed_softmax, at::IntArrayRef begin,
                           const at::Tensor& positions, const at::Tensor& shared) {
  const SoftmaxForm softmax = unpacked(packed_softmax);
  const at::Tensor q = q_in.contiguous();
  const auto heads = static_cast<std::int64_t>(begin.size()) - 1;
  const Shape shape{q.size(0), heads, q.size(1), 0, q.size(2)};
  const auto* position = positions.const_data_ptr<std::int32_t>();
  const auto* is_shared = shared.numel() == 0 ? nullptr : shared.const_data_ptr<std::uint8_t>();
  std::vector<KeyView> views(heads);
  for (std::int64_t g = 0; g < heads; ++g) {
    const std::int64_t first = begin[g] * shape.head_dim, count = begin[g + 1] - begin[g];
    views[g] = {{{k.const_data_ptr<float>() + first, v.const_data_ptr<float>() + first, count}},
                count - shape.chunk_len,
                is_shared == nullptr ? nullptr : is_shared + g * shape.chunk_len};
    shape_gathered_view(softmax, g * (shape.num_q_heads / heads), position + begin[g], count,
                        shape.chunk_len, &views[g]);
  }
  Results results;
  results.output = at::empty(q.sizes(), q.options());
  attend_views({q}, softmax.scale, views, cut_rows(heads, shape.rows_per_kv_head()), &results);
  return results.output;
}

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              PackedSoftmax softmax, at::IntArrayRef begin,
                              const at::Tensor& positions, const at::Tensor& shared) {
  const auto [k_rows, v_rows] = cpu::gather_keys(k, v, q.size(1), begin, positions);
  return cpu::attend_gathered(q, k_rows, v_rows, softmax, begin, positions, shared);
}

at::Tensor kept_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          PackedSoftmax softmax, const at::Tensor& kept) {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t g = 0; g < kept.size(0); ++g) {
    const at::Tensor row = kept[g].contiguous();
    const auto* positions = row.const_data_ptr<std::int32_t>();
    rows.emplace_back(positions, positions + row.numel());
  }
  const GatheredKeys layout =
      layout_of(k.size(0), k.size(1), q.size(1), rows, ChunkVisibility::OpenChunk);
  return cpu::gathered_attention(q, k, v, softmax, layout.begin, on_host(layout.positions),
                                 on_host(layout.shared));
}

}  // namespace kvloupe::attention::cpu
