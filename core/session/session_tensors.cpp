#include "core/session/session_tensors.h"

#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/base/finite.h"
#include "core/base/held_bytes.h"
#include "core/session/session_cache.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::session {
namespace {

using trace::Stored;

const char* name_of(Stored what) {
  switch (what) {
    case Stored::Q: return "query";
    case Stored::K: return "key";
    case Stored::V: return "value";
  }
  return "";
}

Error not_finite_error(Stored what, int layer, std::int64_t head, std::int32_t position) {
  return input_error(
      fmt::format("layer {}, {} head {}, position {} cannot be used", layer,
                  what == Stored::Q ? "query" : "KV", head, position),
      fmt::format("the stored {} holds a NaN or an infinity", name_of(what)),
      "capture again (--dtype f32 if half precision overflowed), or choose other layers or chunks");
}

// Throws for the first non-finite row of [begin, end) in any head.
void check_finite(const LayerArray& array, Stored what, int layer, std::int32_t begin,
                  std::int32_t end) {
  for (std::size_t head = 0; head < array.not_finite.size(); ++head) {
    const auto& positions = array.not_finite[head];
    const auto first = std::lower_bound(positions.begin(), positions.end(), begin);
    if (first != positions.end() && *first < end)
      throw not_finite_error(what, layer, static_cast<std::int64_t>(head), *first);
  }
}

// Charged before it is allocated, and for as long as any tensor shares its values.
at::Tensor charged_tensor(const MemoryAccountPtr& memory, at::IntArrayRef shape) {
  std::uint64_t bytes = sizeof(float);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  auto charge = std::make_shared<MemoryCharge>(memory, MemoryPart::Tensors, bytes);
  const at::Tensor values = at::empty(shape, at::kFloat);
  return at::from_blob(
      values.mutable_data_ptr(), shape, [values, charge](void*) {}, at::kFloat);
}

bool in_use(const std::shared_ptr<const LayerArray>& array) {
  return array.use_count() > 1 || array->values.use_count() > 1 ||
         array->values.storage().use_count() > 1;
}

// Query rows of a chunk: from the cached layer, unless that would crowd out the keys or is not stored as a whole.
at::Tensor load_queries(const TraceSession& session, int layer, const trace::ChunkInfo& chunk) {
  const trace::TraceInfo& info = session.info();
  const auto layer_bytes = static_cast<std::uint64_t>(info.num_tokens) * info.model.num_q_heads *
                           info.model.head_dim * sizeof(float);
  if (info.query_offsets.empty() && layer_bytes <= session.memory()->limit() / 4) {
    const auto array = session.cache().get(layer, Stored::Q);
    check_finite(*array, Stored::Q, layer, chunk.begin, chunk.end());
    return array->values.narrow(1, chunk.begin, chunk.length).contiguous();
  }
  const LayerArray rows = session.cache().read(layer, Stored::Q, chunk.begin, chunk.end());
  check_finite(rows, Stored::Q, layer, chunk.begin, chunk.end());
  return rows.values;
}

at::Tensor load_keys_or_values(const TraceSession& session, int layer, Stored what,
                               const trace::ChunkInfo& chunk) {
  const auto array = session.cache().get(layer, what);
  check_finite(*array, what, layer, 0, chunk.end());
  return array->values.narrow(1, 0, chunk.end());
}

}  // namespace

int num_heads(const trace::ModelInfo& model, Stored what) {
  return what == Stored::Q ? model.num_q_heads : model.num_kv_heads;
}

TraceSession::Cache::Cache(const trace::TraceReader& trace_reader, MemoryAccountPtr account)
    : reader(trace_reader), memory(std::move(account)) {
  memory->add(*this);
}

TraceSession::Cache::~Cache() { memory->remove(*this); }

LayerArray TraceSession::Cache::read(int layer, Stored what, std::int32_t begin,
                                     std::int32_t end) const {
  const trace::ModelInfo& model = reader.info().model;
  const int heads = num_heads(model, what);
  LayerArray array;
  array.values = charged_tensor(memory, {heads, end - begin, model.head_dim});
  array.not_finite.resize(static_cast<std::size_t>(heads));
  for (int head = 0; head < heads; ++head) {
    float* rows = array.values.mutable_data_ptr<float>() + head * array.values.stride(0);
    reader.read_rows(what, layer, head, begin, end, rows);
    for (std::int32_t row = 0; row < end - begin; ++row)
      if (!all_finite({rows + static_cast<std::int64_t>(row) * model.head_dim,
                       static_cast<std::size_t>(model.head_dim)}))
        array.not_finite[head].push_back(begin + row);
  }
  return array;
}

std::shared_ptr<const LayerArray> TraceSession::Cache::get(int layer, Stored what) {
  const Key key{layer, what};
  if (auto hit = find(key)) return hit;
  const std::lock_guard loading(load_mutex_);
  // Another thread may have loaded it meanwhile.
  if (auto hit = find(key)) return hit;
  auto array = std::make_shared<const LayerArray>(read(layer, what, 0, reader.info().num_tokens));
  const std::lock_guard lock(mutex_);
  entries_[key] = {array, memory->now()};
  return array;
}

at::Tensor TraceSession::Cache::head(int layer, Stored what, int head, std::int32_t end) {
  if (const auto held = find({layer, what})) return held->values[head].narrow(0, 0, end);
  const at::Tensor rows = charged_tensor(memory, {end, reader.info().model.head_dim});
  reader.read_rows(what, layer, head, 0, end, rows.mutable_data_ptr<float>());
  return rows;
}

std::shared_ptr<const LayerArray> TraceSession::Cache::find(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  found->second.used = memory->now();
  return found->second.array;
}

TraceSession::Cache::Entries::const_iterator TraceSession::Cache::oldest() const {
  auto oldest = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it)
    if ((oldest == entries_.end() || it->second.used < oldest->second.used) &&
        !in_use(it->second.array))
      oldest = it;
  return oldest;
}

std::optional<std::uint64_t> TraceSession::Cache::oldest_use() const {
  const std::lock_guard lock(mutex_);
  const auto found = oldest();
  if (found == entries_.end()) return std::nullopt;
  return found->second.used;
}

std::shared_ptr<const void> TraceSession::Cache::give_up_oldest() {
  const std::lock_guard lock(mutex_);
  const auto found = oldest();
  if (found == entries_.end()) return nullptr;
  return entries_.extract(found).mapped().array;
}

trace::LayerBasis TraceSession::Cache::basis(trace::BasisKind kind, int layer,
                                             const std::function<trace::LayerBasis()>& fit) {
  const std::pair key{kind, layer};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = bases_.find(key); found != bases_.end()) return found->second.basis;
  }
  trace::LayerBasis fitted = fit();
  MemoryCharge charge(memory, MemoryPart::Tensors,
                      held_bytes(fitted.vectors) + held_bytes(fitted.values));
  const std::lock_guard lock(mutex_);
  return bases_.try_emplace(key, Basis{std::move(fitted), std::move(charge)}).first->second.basis;
}

TraceSession::Cache& TraceSession::cache() const {
  std::call_once(cache_made_, [this] { cache_ = std::make_shared<Cache>(reader_, memory_); });
  return *cache_;
}

at::Tensor layer_k(const TraceSession& session, int layer) {
  return session.cache().get(layer, Stored::K)->values;
}
at::Tensor layer_v(const TraceSession& session, int layer) {
  return session.cache().get(layer, Stored::V)->values;
}
at::Tensor head_k(const TraceSession& session, int layer, int kv_head, std::int32_t end) {
  return session.cache().head(layer, Stored::K, kv_head, end);
}

bool ends_prefill(const trace::TraceInfo& info, const trace::ChunkInfo& chunk) {
  if (chunk.phase != trace::Phase::Prefill) return false;
  const auto next = std::ranges::find(info.chunks, chunk.end(), &trace::ChunkInfo::begin);
  if (next != info.chunks.end()) return next->phase == trace::Phase::Decode;
  const bool is_last = !info.chunks.empty() && info.chunks.back().end() == chunk.end();
  return is_last && (info.complete || !info.generated.empty());
}

selection::Cell load_cell(const TraceSession& session, int layer, int chunk_idx,
                          const trace::ChunkInfo& chunk) {
  selection::Cell cell;
  cell.layer = layer;
  cell.chunk = chunk_idx;
  cell.past_len = chunk.begin;
  cell.chunk_len = chunk.length;
  cell.phase = chunk.phase;
  cell.ends_prefill = ends_prefill(session.info(), chunk);
  cell.softmax = session.info().model.softmax_of(layer);
  cell.q = load_queries(session, layer, chunk);
  cell.k = load_keys_or_values(session, layer, Stored::K, chunk);
  cell.v = load_keys_or_values(session, layer, Stored::V, chunk);
  return cell;
}

selection::Cell CellLoader::load(int layer, int chunk_idx, const trace::ChunkInfo& chunk) {
  selection::Cell cell = load_cell(session_, layer, chunk_idx, chunk);
  if (device_.is_cpu()) return cell;
  if (layer != layer_) {
    k_ = layer_k(session_, layer).to(type_).to(device_);
    v_ = layer_v(session_, layer).to(type_).to(device_);
    layer_ = layer;
  }
  cell.q = cell.q.to(type_).to(device_);
  cell.k = k_.narrow(1, 0, cell.kv_len());
  cell.v = v_.narrow(1, 0, cell.kv_len());
  return cell;
}

void add_probe(const TraceSession& session, selection::Cell& cell) {
  const trace::TraceInfo& info = session.info();
  if (session.chunk_size())
    throw input_error("the method's probe queries are not known on other chunks",
                      "the trace holds them for its own chunks only",
                      "leave out --chunk-size, or capture with it");
  const auto probe = cell.phase == trace::Phase::Prefill
                         ? session.reader().read_probe(cell.layer, cell.chunk)
                         : std::optional<std::vector<float>>(std::in_place);
  const std::vector<float> novelty = session.reader().read<float>(trace::Field::Nll);
  if (!probe || static_cast<std::int64_t>(novelty.size()) < cell.kv_len())
    throw input_error(fmt::format("layer {}, chunk {} has no probe", cell.layer, cell.chunk),
                      "its probe queries or the novelty of its tokens were not recorded",
                      "capture again with --store qkv,lse,probe");
  if (!probe->empty())
    cell.probe_q = at::tensor(*probe, at::kFloat)
                       .view({info.model.num_q_heads, info.probe_len, info.model.head_dim})
                       .to(cell.q.options());
  cell.novelty = at::tensor(novelty, at::kFloat).narrow(0, 0, cell.kv_len());
}

at::Tensor cell_mass(const selection::Cell& cell) {
  return attention::chunk_mass(cell.q, cell.k, cell.softmax).key_mass;
}

}  // namespace kvloupe::session
