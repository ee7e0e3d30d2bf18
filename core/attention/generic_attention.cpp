#include "core/attention/generic_attention.h"

#include "core/attention/upload.h"

#include <ATen/ATen.h>

#include <limits>
#include <vector>

namespace kvloupe::attention::generic {

DeviceSoftmax::DeviceSoftmax(PackedSoftmax packed, const at::Tensor& queries)
    : form_(unpacked(packed)), options_(queries.options()) {
  if (form_.sink_logits.empty()) return;
  sinks_ = uploaded(at::tensor(form_.sink_logits, at::kFloat).view({-1, 1, 1}), options_.device());
}

at::Tensor DeviceSoftmax::logits(const at::Tensor& q, const at::Tensor& k) const {
  at::Tensor s = at::matmul(q.to(at::kFloat) * form_.scale, k.to(at::kFloat).t());
  if (form_.softcap > 0) s.div_(form_.softcap).tanh_().mul_(form_.softcap);
  return s;
}

at::Tensor DeviceSoftmax::hidden(const at::Tensor& positions, const at::Tensor& shared,
                                 std::int64_t chunk_len) const {
  const at::Tensor pairs = at::ones({chunk_len, chunk_len}, options_.dtype(at::kBool));
  at::Tensor later = pairs.triu(1);
  if (shared.numel() > 0) later.logical_or_(pairs.tril(-1).logical_and(shared.eq(0)));
  if (!has_window()) return later;
  const std::int64_t past = positions.size(0) - chunk_len;
  const at::Tensor rows = positions.narrow(0, past, chunk_len).unsqueeze(1);
  at::Tensor hidden = positions.unsqueeze(0) <= rows - form_.window;
  hidden.narrow(1, past, chunk_len).logical_or_(later);
  return hidden;
}

at::Tensor weighted(const at::Tensor& p, const at::Tensor& v) {
  return at::matmul(p, v.to(at::kFloat)).to(v.scalar_type());
}

Probabilities DeviceSoftmax::operator()(const at::Tensor& q, const at::Tensor& k,
                                        const at::Tensor& hidden, std::int64_t first_head) const {
  at::Tensor s = logits(q, k);
  s.narrow(-1, k.size(0) - hidden.size(1), hidden.size(1))
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
  at::Tensor max = s.amax(-1, /*keepdim=*/true), of_sink;
  if (sinks_.defined()) {
    of_sink = sinks_.narrow(0, first_head, q.size(0));
    max = at::maximum(max, of_sink);
  }
  s.sub_(max).exp_();
  at::Tensor sum = s.sum(-1, /*keepdim=*/true);
  if (sinks_.defined()) sum.add_((of_sink - max).exp());
  s.div_(sum);
  return {s, (max + sum.log()).squeeze(-1)};
}

at::Tensor positions_of(std::int64_t begin, std::int64_t end, const at::Tensor& like) {
  return at::arange(begin, end, like.options().dtype(at::kLong));
}

ChunkResults attend_cache(const at::Tensor& q, const Cache& cache, const DeviceSoftmax& softmax,
                          bool want_mass) {
  const std::int64_t chunk_len = q.size(1), group = q.size(0) / cache.num_kv_heads;
  const std::int64_t first = softmax.first_visible(cache.kv_len - chunk_len);
  const std::int64_t count = cache.kv_len - first;
  const at::Tensor hidden =
      softmax.hidden(positions_of(first, cache.kv_len, q), at::Tensor(), chunk_len);
  std::vector<at::Tensor> outputs, lses;
  ChunkResults results;
  if (want_mass)
    results.key_mass = at::zeros({cache.num_kv_heads, cache.kv_len}, q.options().dtype(at::kFloat));
  for (std::int64_t g = 0; g < cache.num_kv_heads; ++g) {
    const auto [p, lse] =
        softmax(q.narrow(0, g * group, group), cache.keys(g, first), hidden, g * group);
    lses.push_back(lse);
    if (cache.v.defined()) outputs.push_back(weighted(p, cache.v[g].narrow(0, first, count)));
    if (want_mass) results.key_mass[g].narrow(0, first, count).copy_(p.flatten(0, 1).sum(0));
  }
  results.lse = at::cat(lses);
  if (cache.v.defined()) results.output = at::cat(outputs);
  return results;
}

namespace {

Cache cache_of(const at::Tensor& k, const at::Tensor& v) {
  const auto keys = [k](std::int64_t g, std::int64_t first) {
    return k[g].narrow(0, first, k.size(1) - first);
  };
  return {k.size(0), k.size(1), keys, v};
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> chunk_attention(const at::Tensor& q,
                                                               const at::Tensor& k,
                                                               const at::Tensor& v,
                                                               PackedSoftmax packed_softmax,
                                                               bool want_mass) {
  const auto [output, lse, key_mass] =
      attend_cache(q, cache_of(k, v), DeviceSoftmax(packed_softmax, q), want_mass);
  return {output, lse, want_mass ? key_mass : at::empty({0}, lse.options())};
}

std::tuple<at::Tensor, at::Tensor> chunk_mass(const at::Tensor& q, const at::Tensor& k,
                                              PackedSoftmax packed_softmax) {
  const ChunkResults results =
      attend_cache(q, cache_of(k, at::Tensor()), DeviceSoftmax(packed_softmax, q), true);
  return {results.lse, results.key_mass};
}

at::Tensor attention_rows(const at::Tensor& q_head, const at::Tensor& k_head,
                          PackedSoftmax packed_softmax, std::int64_t first_position,
                          const at::Tensor& lse_rows) {
  const SoftmaxForm form = unpacked(packed_softmax);
  const at::Tensor rows =
      positions_of(first_position, first_position + q_head.size(0), q_head).unsqueeze(1);
  const at::Tensor keys = positions_of(0, k_head.size(0), q_head).unsqueeze(0);
  at::Tensor hidden = keys > rows;
  if (form.window > 0) hidden.logical_or_(keys <= rows - form.window);
  const at::Tensor s = DeviceSoftmax(packed_softmax, q_head).logits(q_head, k_head);
  return (s - lse_rows.unsqueeze(1)).exp_().masked_fill_(hidden, 0);
}

namespace {

// The rows of all heads as one matrix, and how many lie from one head to the next.
struct RowsOfHeads {
  at::Tensor rows;
  std::int64_t step = 0;
};
RowsOfHeads rows_of_heads(const at::Tensor& k) {
  const std::int64_t heads = k.size(0), dim = k.size(2);
  // A cache has room behind each head: read where it lies.
  if (heads > 1 && k.stride(2) == 1 && k.stride(1) == dim && k.stride(0) % dim == 0) {
    const std::int64_t step = k.stride(0) / dim;
    return {k.as_strided({(heads - 1) * step + k.size(1), dim}, {dim, 1}), step};
  }
  return {k.reshape({-1, dim}), k.size(1)};
}

// Where the positions of each head lie in that matrix, on its device.
at::Tensor places_in(const RowsOfHeads& all, at::IntArrayRef begin, const at::Tensor& positions) {
  at::Tensor places = positions.to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  for (std::size_t g = 1; g + 1 < begin.size(); ++g)
    places.narrow(0, begin[g], begin[g + 1] - begin[g])
        .add_(static_cast<std::int64_t>(g) * all.step);
  return uploaded(places, all.rows.device());
}

}  // namespace

std::tuple<at::Tensor, at::Tensor> gather_keys(const at::Tensor& k, const at::Tensor& v,
                                               std::int64_t /*chunk_len*/, at::IntArrayRef begin,
                                               const at::Tensor& positions) {
  // One launch each, for all heads.
  const RowsOfHeads keys = rows_of_heads(k), values = rows_of_heads(v);
  const at::Tensor places = places_in(keys, begin, positions);
  return {keys.rows.index_select(0, places),
          values.rows.index_select(
              0, values.step == keys.step ? places : places_in(values, begin, positions))};
}

void for_each_gathered(const at::Tensor& q, const at::Tensor& k, const DeviceSoftmax& softmax,
                       at::IntArrayRef begin, const at::Tensor& positions, const at::Tensor& shared,
                       const std::function<void(std::int64_t g, const at::Tensor& p)>& use) {
  const auto heads = static_cast<std::int64_t>(begin.size()) - 1;
  const std::int64_t chunk_len = q.size(1), group = q.size(0) / heads;
  const at::Tensor on_device =
      softmax.has_window() ? uploaded(positions, q.device()) : at::Tensor();
  const at::Tensor seen_later = shared.numel() > 0 ? uploaded(shared, q.device()) : shared;
  for (std::int64_t g = 0; g < heads; ++g) {
    const std::int64_t count = begin[g + 1] - begin[g];
    const at::Tensor hidden = softmax.hidden(
        on_device.defined() ? on_device.narrow(0, begin[g], count) : on_device,
        shared.numel() > 0 ? seen_later.narrow(0, g * chunk_len, chunk_len) : shared, chunk_len);
    use(g,
        softmax(q.narrow(0, g * group, group), k.narrow(0, begin[g], count), hidden, g * group).p);
  }
}

at::Tensor attend_gathered(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           PackedSoftmax packed_softmax, at::IntArrayRef begin,
                           const at::Tensor& positions, const at::Tensor& shared) {
  std::vector<at::Tensor> outputs;
  for_each_gathered(
      q, k, DeviceSoftmax(packed_softmax, q), begin, positions, shared,
      [&](std::int64_t g, const at::Tensor& p) {
        outputs.push_back(weighted(p, v.narrow(0, begin[g], begin[g + 1] - begin[g])));
      });
  return at::cat(outputs);
}

at::Tensor gathered_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              PackedSoftmax packed_softmax, at::IntArrayRef begin,
                              const at::Tensor& positions, const at::Tensor& shared) {
  const auto [k_rows, v_rows] = generic::gather_keys(k, v, q.size(1), begin, positions);
  return generic::attend_gathered(q, k_rows, v_rows, packed_softmax, begin, positions, shared);
}

at::Tensor kept_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          PackedSoftmax packed_softmax, const at::Tensor& kept) {
  const std::int64_t heads = k.size(0), kv_len = k.size(1), chunk_len = q.size(1);
  const at::Tensor own =
      positions_of(kv_len - chunk_len, kv_len, q).unsqueeze(0).expand({heads, chunk_len});
  const at::Tensor positions = at::cat({kept.to(at::kLong), own}, 1);
  std::vector<std::int64_t> begin;
  for (std::int64_t g = 0; g <= heads; ++g) begin.push_back(g * positions.size(1));
  return generic::gathered_attention(q, k, v, packed_softmax, begin, positions.flatten(),
                                     /*shared=*/at::empty({0}, at::kByte));
}

}  // namespace kvloupe::attention::generic
