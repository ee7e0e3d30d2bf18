#include "core/selection/cell_rows.h"

#include "core/attention/attention.h"
#include "core/attention/upload.h"
#include "core/base/error.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

namespace kvloupe::selection {

at::Tensor on_device(std::span<const std::int32_t> values, c10::Device device) {
  // Tensors of the host read them where they are: copied, since they may not live as long.
  const at::Tensor borrowed = at::from_blob(const_cast<std::int32_t*>(values.data()),
                                            {static_cast<std::int64_t>(values.size())}, at::kInt);
  return device.is_cpu() ? borrowed.clone() : attention::uploaded(borrowed, device);
}

at::Tensor on_device(const std::vector<std::vector<std::int32_t>>& rows, c10::Device device) {
  std::vector<std::int32_t> values;
  for (const std::vector<std::int32_t>& row : rows) {
    KVLOUPE_CHECK(row.size() == rows.front().size());
    values.insert(values.end(), row.begin(), row.end());
  }
  return on_device(values, device).view({static_cast<std::int64_t>(rows.size()), -1});
}

namespace {

// On the host, which waits once: a copy is there when a later one from the same device is.
std::vector<at::Tensor> host_copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_cpu() || &tensor == &tensors.back()) {
      copies.push_back(tensor.cpu());
      continue;
    }
    const at::Tensor host =
        at::empty(tensor.sizes(), at::dtype(tensor.scalar_type()).pinned_memory(tensor.is_cuda()));
    copies.push_back(host.copy_(tensor, /*non_blocking=*/true));
  }
  return copies;
}

}  // namespace

template <typename T>
std::vector<T> on_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  const T* values = host.const_data_ptr<T>();
  return {values, values + host.numel()};
}
template std::vector<std::int32_t> on_host(const at::Tensor&);
template std::vector<std::int64_t> on_host(const at::Tensor&);
template std::vector<float> on_host(const at::Tensor&);
template std::vector<double> on_host(const at::Tensor&);
template std::vector<std::uint8_t> on_host(const at::Tensor&);

template <typename T>
std::vector<std::vector<T>> all_on_host(const std::vector<at::Tensor>& tensors) {
  std::vector<std::vector<T>> values;
  for (const at::Tensor& copy : host_copies(tensors)) values.push_back(on_host<T>(copy));
  return values;
}
template std::vector<std::vector<float>> all_on_host(const std::vector<at::Tensor>&);
template std::vector<std::vector<double>> all_on_host(const std::vector<at::Tensor>&);

std::vector<std::vector<std::int32_t>> rows_on_host(const at::Tensor& tensor) {
  const at::Tensor host = tensor.cpu().contiguous();
  const auto* values = host.const_data_ptr<std::int32_t>();
  std::vector<std::vector<std::int32_t>> rows;
  for (std::int64_t row = 0; row < host.size(0); ++row, values += host.size(1))
    rows.emplace_back(values, values + host.size(1));
  return rows;
}

at::Tensor attention_of_head(const Cell& cell, std::int64_t q_head) {
  const SoftmaxForm softmax = cell.softmax.of_heads(q_head, 1);
  const at::Tensor q = cell.q.narrow(0, q_head, 1);
  const at::Tensor k = cell.k.narrow(0, q_head / cell.gqa_group_size(), 1);
  const at::Tensor lse = attention::chunk_mass(q, k, softmax).lse;
  return attention::attention_rows(q[0], k[0], softmax, cell.past_len, lse[0]);
}

at::Tensor take_rows(const at::Tensor& queries, std::span<const std::int32_t> rows) {
  const auto count = static_cast<std::int64_t>(rows.size());
  KVLOUPE_CHECK(count > 0);
  if (rows.back() - rows.front() + 1 == count) return queries.narrow(1, rows.front(), count);
  return queries.index_select(1, on_device(rows, queries.device()));
}

RowSets sets_of(const SoftmaxForm& form, at::Tensor queries, std::int64_t first_q_head) {
  RowSets sets;
  sets.scale = form.scale;
  sets.softcap = form.softcap;
  if (!form.sink_logits.empty())
    for (std::int64_t head = 0; head < queries.size(0); ++head)
      sets.sinks.insert(sets.sinks.end(), static_cast<std::size_t>(queries.size(1)),
                        form.sink_logits[static_cast<std::size_t>(first_q_head + head)]);
  sets.queries = std::move(queries);
  return sets;
}

RowSets sets_over_cell(const Cell& cell, const at::Tensor& queries,
                       std::span<const std::int32_t> rows) {
  RowSets sets = sets_of(cell.softmax, take_rows(queries, rows), 0);
  for (const std::int32_t row : rows) {
    const std::int64_t position = cell.past_len + row;
    sets.visible.push_back(position + 1);
    if (cell.softmax.window > 0) sets.first.push_back(cell.softmax.first_visible(position));
  }
  return sets;
}

RowSets sets_over_pool(const Cell& cell, std::int64_t kv_head, std::span<const std::int32_t> rows,
                       std::span<const std::int32_t> pool) {
  const std::int64_t group = cell.gqa_group_size(), first = kv_head * group;
  RowSets sets = sets_of(cell.softmax, take_rows(cell.q.narrow(0, first, group), rows), first);
  const auto num_keys = static_cast<std::int64_t>(pool.size());
  for (const std::int32_t row : rows) {
    sets.visible.push_back(num_keys - cell.chunk_len + row + 1);
    if (cell.softmax.window > 0)
      sets.first.push_back(num_hidden(pool, cell.softmax, cell.past_len + row));
  }
  return sets;
}

RowSets in_one_set(RowSets sets) {
  const std::int64_t count = sets.queries.size(0);
  sets.queries = sets.queries.reshape({1, -1, sets.queries.size(2)});
  for (auto* list : {&sets.visible, &sets.first}) {
    const std::vector<std::int64_t> of_set = *list;
    for (std::int64_t i = 1; i < count; ++i)
      list->insert(list->end(), of_set.begin(), of_set.end());
  }
  return sets;
}

at::Tensor gather_keys(const Cell& cell, std::int64_t kv_head,
                       std::span<const std::int32_t> positions) {
  return take_rows(cell.k.narrow(0, kv_head, 1), positions);
}

std::vector<SelectedRow> rows_of(const KeptRows& kept) {
  const std::vector<at::Tensor> host = host_copies({kept.indices, kept.ties});
  std::vector<std::vector<std::int32_t>> positions = rows_on_host(host[0]);
  const std::vector<std::int64_t> ties = on_host<std::int64_t>(host[1]);
  std::vector<SelectedRow> rows(positions.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    rows[row].positions = std::move(positions[row]);
    rows[row].ties_at_cut = ties[row];
  }
  return rows;
}

std::vector<SelectedRow> rows_of(const at::Tensor& order, const at::Tensor& counts,
                                 const at::Tensor& ties) {
  const std::vector<at::Tensor> host = host_copies({order, counts, ties});
  std::vector<std::vector<std::int32_t>> best = rows_on_host(host[0]);
  const auto kept = on_host<std::int64_t>(host[1]), tied = on_host<std::int64_t>(host[2]);
  std::vector<SelectedRow> rows(best.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    best[row].resize(static_cast<std::size_t>(kept[row]));
    std::sort(best[row].begin(), best[row].end());
    rows[row].positions = std::move(best[row]);
    rows[row].ties_at_cut = tied[row];
  }
  return rows;
}

std::vector<SelectedRow> rows_of(const std::vector<KeptRows>& kept) {
  std::vector<at::Tensor> asked;
  for (const KeptRows& one : kept)
    if (one.indices.defined()) asked.insert(asked.end(), {one.indices, one.ties});
  const std::vector<at::Tensor> host = host_copies(asked);
  auto copy = host.begin();
  std::vector<SelectedRow> all;
  for (const KeptRows& one : kept) {
    if (!one.indices.defined()) {
      all.emplace_back();
      continue;
    }
    std::vector<SelectedRow> rows = rows_of(KeptRows{copy[0], {}, copy[1]});
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
    copy += 2;
  }
  return all;
}

}  // namespace kvloupe::selection
