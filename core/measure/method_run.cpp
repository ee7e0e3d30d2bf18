#include "core/measure/method_run.h"

#include "core/attention/paged_attention.h"
#include "core/device/device_work.h"
#include "core/replay/block_report.h"
#include "core/replay/replay.h"
#include "core/selection/attend.h"
#include "core/selection/blocks/page_tables.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/lanes/lanes.h"
#include "core/selection/lanes/reassigned_keys.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace kvloupe::measure {
namespace {

using selection::Cell;
using Rows = std::vector<std::vector<std::int32_t>>;

// The layers before `layer` whose set it reuses, the first one first.
std::vector<int> source_layers(const selection::MethodSpec& spec,
                               const selection::ModelShape& shape, int layer) {
  std::vector<int> sources;
  for (auto source = selection::source_layer(spec, shape, layer); source;
       source = selection::source_layer(spec, shape, *source))
    sources.insert(sources.begin(), *source);
  return sources;
}

// It scores by copies of K (key_copies.h), beside K or in its place.
bool copies_keys(const selection::MethodSpec& spec, const selection::ModelShape& shape) {
  const auto held = selection::metadata_of(spec, shape);
  return spec.traits().lanes || (held && held->lanes_per_key > 0);
}

// The method for a chunk of the trace. Throws Error{Input} where that cannot serve it.
replay::PreparedMethod prepared(const session::TraceSession& session,
                                const selection::MethodSpec& spec, const CellSource& cells,
                                int layer, const WorkContext& context) {
  replay::ReplayRequest request;
  request.spec = spec.resolved(session.shape());
  request.layers = {layer};
  request.chunks = {cells.trace_chunk()};
  if (const auto error = replay::why_unavailable(session, request, context)) throw *error;
  std::vector<int> layers = source_layers(request.spec, session.shape(), layer);
  layers.push_back(layer);
  return replay::prepare(session, request.spec, layers, cells.device(), context);
}

}  // namespace

std::vector<MethodRun::Piece> MethodRun::pieces_of(const Cell& cell,
                                                   const selection::RowLayout& layout) {
  if (layout.axis == trace::RowAxis::KvHead) {
    return {
        {0, cell.num_q_heads(), cell.k, cell.v, 0, static_cast<std::size_t>(cell.num_kv_heads())}};
  }
  std::vector<Piece> pieces;
  for (std::int64_t head = 0; head < cell.num_q_heads(); head += layout.q_heads_per_row) {
    const std::int64_t kv_head = head / cell.gqa_group_size();
    pieces.push_back({head, layout.q_heads_per_row, cell.k.narrow(0, kv_head, 1),
                      cell.v.narrow(0, kv_head, 1), pieces.size(), 1});
  }
  return pieces;
}

MethodRun::MethodRun(const session::TraceSession& session, const selection::MethodSpec& spec,
                     CellSource& cells, int layer, const WorkContext& context)
    : MethodRun(prepared(session, spec, cells, layer, context), session.info().model, cells,
                layer) {}

MethodRun::MethodRun(replay::PreparedMethod method, trace::ModelInfo model, CellSource& cells,
                     int layer)
    : method_(std::move(method)),
      model_(std::move(model)),
      layer_(layer),
      cell_(cells.load(layer, cells.chunk())),
      pieces_(pieces_of(cell_, method_.layout)) {
  cell_.copies = std::make_shared<selection::KeyCopies>();
  // What the timed cell's choice rests on is replayed before each select(): the chunks before it under
  // eviction; the last of them where pages or blocks are summarised, or keys copied, as they come in;
  // the layers that it reuses.
  int first = cells.chunk();
  if (method_.traits().evicts())
    first = 0;
  else if (method_.traits().page_size > 0 || copies_keys(method_.spec, method_.shape))
    first = std::max(cells.chunk() - 1, 0);
  for (int c = first; c < cells.chunk(); ++c) {
    earlier_.push_back(cells.load(layer, c));
    earlier_.back().copies = cell_.copies;
  }
  for (const int source : source_layers(method_.spec, method_.shape, layer))
    earlier_.push_back(cells.load(source, cells.chunk()));
}

std::vector<TimedPart> MethodRun::parts(const WorkContext& context) {
  const auto ready = [this, &context] { prepare(context); };
  return {{"chain", [this] { chain(); }, ready},
          {"select", [this] { select(); }, ready},
          {"gather", [this] { gather(); }, [this] { selected(); }},
          {"attend", [this] { attend(); }}};
}

std::optional<LatencyReport::Counts> MethodRun::counts(const device::DeviceInfo& device,
                                                       const WorkContext& context) {
  if (device.kind == device::DeviceKind::Cpu) return std::nullopt;
  prepare(context);
  const auto of_chain = device::count_device_work(device, [&] { chain(); });
  prepare(context);
  const auto of_select = device::count_device_work(device, [&] { select(); });
  selected();
  const auto of_gather = device::count_device_work(device, [&] { gather(); });
  const auto of_attend = device::count_device_work(device, [&] { attend(); });
  if (!of_chain || !of_select || !of_gather || !of_attend) return std::nullopt;
  return LatencyReport::Counts{*of_chain, *of_select, *of_gather, *of_attend};
}

void MethodRun::prepare(const WorkContext& context) {
  selector_ = method_.selector();
  cell_.copies->forget_from(cell_.past_len);
  for (const Cell& cell : earlier_) {
    context.cancel.throw_if_cancelled();
    selector_->select(cell);
    selector_->evict(cell);
  }
}

void MethodRun::select() {
  selected_ = selector_->select_there(cell_);
  selector_->evict(cell_);
}

const selection::CellSelection& MethodRun::selected() {
  selection::bring_rows(selected_);
  return selected_;
}

void MethodRun::chain() {
  select();
  selection::attend_selected(method_.spec, model_, cell_, method_.layout, selected_);
}

void MethodRun::gather() {
  gathered_.clear();
  tables_.reset();
  mask_ = at::Tensor();
  if (!selected().chooses_keys()) return;  // dense attention reads the cache as it lies
  if (selected_.reads_masks) {
    mask_ = selection::mask_of(selection::masks_of(selected_));
    return;
  }
  if (selected_.lanes) {
    gathered_.push_back(attention::gather_lanes(selected_.lanes->keys, cell_.v, cell_.chunk_len,
                                                selection::kept_positions(selected_)));
    return;
  }
  tables_ = selection::page_tables(method_.spec, method_.layout, cell_, selected_);
  if (tables_) return;
  const Rows rows = selection::kept_positions(selected_);
  const bool open = method_.spec.scope() == selection::BudgetScope::Past;
  const auto visibility =
      open ? attention::ChunkVisibility::OpenChunk : attention::ChunkVisibility::SelfOnly;
  for (const Piece& piece : pieces_) {
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(piece.first_row);
    const Rows own(first, first + static_cast<std::ptrdiff_t>(piece.num_rows));
    const at::Tensor k =
        selection::attended_keys(method_.spec, model_, layer_, piece.k, cell_.past_len, own);
    gathered_.push_back(attention::gather_keys(k, piece.v, cell_.chunk_len, own, visibility));
  }
}

at::Tensor MethodRun::attend_lanes() const {
  const selection::LaneScores& lanes = *selected_.lanes;
  if (gathered_.empty()) return selection::attend_lanes(cell_, lanes);
  return attention::attend_gathered(lanes.queries, gathered_.front(), cell_.softmax);
}

at::Tensor MethodRun::attend() {
  if (selected_.lanes) return attend_lanes();
  const at::Tensor& q = cell_.q;
  if (!selected_.chooses_keys())
    return attention::dense_chunk_attention(q, cell_.k, cell_.v, cell_.softmax, false).output;
  if (mask_.defined())
    return attention::block_sparse_chunk_attention(q, cell_.k, cell_.v, cell_.softmax,
                                                   selected_.blocks->grid.block_size, mask_);
  if (tables_)
    return attention::paged_chunk_attention(q, cell_.k, cell_.v, cell_.softmax, *tables_);
  std::vector<at::Tensor> outputs;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    outputs.push_back(
        attention::attend_gathered(q.narrow(0, piece.first_q_head, piece.q_heads), gathered_[i],
                                   cell_.softmax.of_heads(piece.first_q_head, piece.q_heads)));
  }
  return outputs.size() == 1 ? outputs.front() : at::cat(outputs);
}

KvReads MethodRun::reads() const {
  if (mask_.defined()) return KvReads::Masks;
  return tables_ ? KvReads::Tables : KvReads::Copies;
}

double MethodRun::pairs_of_masks(std::int64_t row) const {
  const auto own = static_cast<double>(cell_.chunk_len);
  const double causal = own * (static_cast<double>(cell_.past_len) + (own + 1) / 2);
  return causal * replay::native_shares(*selected_.blocks, static_cast<int>(row), 1).causal;
}

Work MethodRun::attention_work() {
  selected();
  const auto dim = static_cast<double>(cell_.q.size(2));
  const auto own = static_cast<double>(cell_.chunk_len);
  // Rows of the chunk that see a key: from the key's own on, as far as a window reaches.
  const auto rows_that_see = [&](std::int64_t position) {
    const std::int64_t window = cell_.softmax.window;
    const std::int64_t end =
        window > 0 ? std::min(cell_.kv_len(), position + window) : cell_.kv_len();
    return static_cast<double>(end - std::max(position, cell_.past_len));
  };
  double own_pairs = 0;
  for (std::int64_t t = cell_.past_len; t < cell_.kv_len(); ++t) own_pairs += rows_that_see(t);
  const auto& lanes = method_.traits().lanes;
  // Each query multiplies the lanes of the key that it keeps, and what is stored of the value; of a
  // key the lanes are read that are stored.
  const bool sliced_values = lanes && lanes->slices_values;
  const double stored_of_value = sliced_values ? 1 - lanes->sliced : 1;
  const double product = dim * ((lanes ? lanes->kept * (1 - lanes->sliced) : 1) + stored_of_value);
  const double stored = lanes && lanes->leading ? lanes->kept : lanes ? 1 - lanes->sliced : 1;
  // Lanes of keys are kept in fp32, whatever the type of the cache.
  const double key_bytes = lanes ? sizeof(float) : static_cast<double>(cell_.k.element_size());
  const double value_bytes = static_cast<double>(cell_.v.element_size());
  const double value_bytes_read = sliced_values ? sizeof(float) : value_bytes;
  Work work;
  work.bytes = 2 * value_bytes * dim * own * static_cast<double>(cell_.num_q_heads());
  for (std::int64_t head = 0; head < cell_.num_kv_heads(); ++head) {
    const auto rows_per_head =
        static_cast<std::int64_t>(selected_.rows.size()) / cell_.num_kv_heads();
    std::vector<bool> read(static_cast<std::size_t>(cell_.past_len));
    for (std::int64_t i = head * rows_per_head; i < (head + 1) * rows_per_head; ++i) {
      double pairs = own_pairs;
      for (const std::int32_t position : selected_.rows[static_cast<std::size_t>(i)].positions) {
        if (position >= cell_.past_len) break;
        read[static_cast<std::size_t>(position)] = true;
        pairs += rows_that_see(position);
      }
      if (selected_.reads_masks) pairs = pairs_of_masks(i);
      work.flops += 2 * product * pairs * static_cast<double>(method_.layout.q_heads_per_row);
    }
    const auto keys = static_cast<double>(std::count(read.begin(), read.end(), true)) + own;
    work.bytes += dim * (stored * key_bytes + stored_of_value * value_bytes_read) * keys;
  }
  return work;
}

}  // namespace kvloupe::measure
