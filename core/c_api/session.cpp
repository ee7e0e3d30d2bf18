#include "core/c_api/session.h"

#include "core/base/error.h"
#include "core/c_api/arrays.h"
#include "core/selection/lanes/basis.h"
#include "core/selection/lanes/key_copies.h"
#include "core/selection/remembers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include <omp.h>

namespace kvloupe::c_api {
namespace {

constexpr std::int32_t kMost = 1 << 20;  // of layers, heads and lanes: a number above is a mistake
constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

Error no_model(std::string why, std::string remedy) {
  return usage_error("the model cannot be used", std::move(why), std::move(remedy));
}

trace::LayerType layer_type_of(std::int32_t type, int layer) {
  switch (type) {
    case KVLOUPE_LAYER_FULL: return trace::LayerType::Full;
    case KVLOUPE_LAYER_SLIDING: return trace::LayerType::Sliding;
    case KVLOUPE_LAYER_NOPE: return trace::LayerType::Nope;
    default: break;
  }
  throw no_model(fmt::format("the type of layer {} is {}", layer, type),
                 "give KVLOUPE_LAYER_FULL, KVLOUPE_LAYER_SLIDING or KVLOUPE_LAYER_NOPE");
}

trace::ModelInfo info_of(const kvloupe_model& model) {
  for (const auto& [name, value] :
       {std::pair("layers", model.num_layers), std::pair("query heads", model.num_q_heads),
        std::pair("KV heads", model.num_kv_heads), std::pair("numbers a head", model.head_dim)})
    if (value < 1 || value > kMost)
      throw no_model(fmt::format("it has {} {}", value, name),
                     fmt::format("give a number from 1 to {}", kMost));
  if (model.num_q_heads % model.num_kv_heads != 0)
    throw no_model(fmt::format("{} query heads do not share {} KV heads evenly", model.num_q_heads,
                               model.num_kv_heads),
                   "give the numbers of its configuration");
  if (!std::isfinite(model.rope_theta) || model.rope_theta < 0)
    throw no_model(fmt::format("its rope_theta is {}", model.rope_theta),
                   "give the base of its rotary embedding, or 0 where it is not known");
  trace::ModelInfo info;
  info.num_layers = model.num_layers;
  info.num_q_heads = model.num_q_heads;
  info.num_kv_heads = model.num_kv_heads;
  info.head_dim = model.head_dim;
  info.rope_theta = model.rope_theta;
  info.rope_pairing =
      model.rope_interleaved != 0 ? trace::RopePairing::Interleaved : trace::RopePairing::HalfSplit;
  if (model.layer_types != nullptr)
    for (int layer = 0; layer < model.num_layers; ++layer)
      info.layer_types.push_back(layer_type_of(model.layer_types[layer], layer));
  if (model.model_hash != nullptr) info.file_hash = model.model_hash;
  return info;
}

std::vector<SoftmaxForm> softmax_of(const kvloupe_model& model) {
  if (!std::isfinite(model.softmax_scale) || model.softmax_scale < 0)
    throw no_model(fmt::format("its softmax scale is {}", model.softmax_scale),
                   "give a positive number, or 0 for 1/sqrt(head_dim)");
  if (!std::isfinite(model.softcap) || model.softcap < 0)
    throw no_model(fmt::format("its softcap is {}", model.softcap),
                   "give a positive number, or 0 for none");
  SoftmaxForm plain(model.softmax_scale > 0 ? model.softmax_scale
                                            : 1.0 / std::sqrt(static_cast<double>(model.head_dim)));
  plain.softcap = model.softcap;
  std::vector<SoftmaxForm> forms(static_cast<std::size_t>(model.num_layers), plain);
  for (int layer = 0; layer < model.num_layers; ++layer) {
    SoftmaxForm& form = forms[static_cast<std::size_t>(layer)];
    if (model.windows != nullptr) form.window = model.windows[layer];
    if (form.window < 0)
      throw no_model(fmt::format("the window of layer {} is {}", layer, form.window),
                     "give how many keys a query sees, or 0 for all");
    if (model.sink_logits == nullptr) continue;
    const float* sinks = model.sink_logits + static_cast<std::int64_t>(layer) * model.num_q_heads;
    form.sink_logits.assign(sinks, sinks + model.num_q_heads);
    if (!std::all_of(form.sink_logits.begin(), form.sink_logits.end(),
                     [](float logit) { return std::isfinite(logit); }))
      throw no_model(fmt::format("a sink logit of layer {} is not finite", layer),
                     "give the model's own, or none");
  }
  return forms;
}

// A basis fitted on a whole text cannot be had before the text has been seen.
selection::BasisPtr basis_of(const selection::MethodSpec& spec, trace::ModelInfo info) {
  const auto& wanted = spec.traits().basis;
  if (!wanted) return nullptr;
  const std::string what = fmt::format("{} has no basis", spec.id());
  if (wanted->is_self())
    throw input_error(
        what, "basis=self is fitted on a whole text, and the selector sees a chunk at a time",
        "give basis=PATH, a file that kvloupe calibrate made for the model");
  if (wanted->is_auto()) {
    if (info.file_hash.empty())
      throw input_error(
          what, "basis=auto is looked up by the hash of the model's file, which was not given",
          "give the model's hash, or basis=PATH, a file that kvloupe calibrate made for it");
    std::error_code code;
    if (!std::filesystem::exists(selection::auto_basis_path(wanted->kind, info.file_hash), code))
      throw input_error(
          what, "none was calibrated on this computer for the model of that hash",
          fmt::format("make it by kvloupe calibrate {} --model FILE, or give basis=PATH",
                      trace::name_of(wanted->kind)));
  } else if (info.file_hash.empty()) {
    // Nothing says which model it is: the caller answers for the basis.
    info.file_hash = trace::read_basis(wanted->where).model_hash;
  }
  return selection::load_basis(spec, info);
}

// Of the calling thread, 0: all cores. Torch gives each its number when it first asks; after that OpenMP's own counts, thread by
// thread.
void use_threads(int threads) {
  static thread_local const int all = at::get_num_threads();
  ::omp_set_num_threads(threads > 0 ? threads : all);
}

// The memory stays for the next ones.
void clear(Rows& rows) {
  rows.positions.clear();
  rows.offsets.clear();
}

// The room is taken first, so that a failure leaves no half of it.
void assign(Rows& rows, const auto& all, const auto& positions_of) {
  clear(rows);
  std::size_t count = 0;
  for (const auto& row : all) count += std::invoke(positions_of, row).size();
  rows.positions.reserve(count);
  rows.offsets.reserve(all.size() + 1);
  rows.offsets.push_back(0);
  for (const auto& row : all) {
    const std::vector<std::int32_t>& positions = std::invoke(positions_of, row);
    rows.positions.insert(rows.positions.end(), positions.begin(), positions.end());
    rows.offsets.push_back(std::ssize(rows.positions));
  }
}

}  // namespace

Session::Session(std::string_view spec, const kvloupe_model& model, int threads)
    : threads_(threads) {
  trace::ModelInfo info = info_of(model);
  shape_ = selection::shape_of(info);
  softmax_ = softmax_of(model);
  use_threads(threads);
  spec_ = selection::MethodSpec::parse(spec).resolved(shape_);
  canonical_ = spec_.canonical();
  layout_ = selection::row_layout(spec_, shape_);
  basis_ = basis_of(spec_, std::move(info));
  // Sliced lanes of values are rotated; lane methods that evict gather what is kept with its values.
  const auto& pruned = spec_.traits().lanes;
  reads_values_ = pruned && (pruned->slices_values || spec_.traits().evicts());
  start();
}

Session::Session(const Session& other)
    : threads_(other.threads_),
      shape_(other.shape_),
      softmax_(other.softmax_),
      spec_(other.spec_),
      canonical_(other.canonical_),
      layout_(other.layout_),
      basis_(other.basis_),
      reads_values_(other.reads_values_),
      order_(other.order_),
      dense_reason_(other.dense_reason_),
      rows_(other.rows_),
      blocks_(other.blocks_) {
  if (other.broken_)
    throw usage_error("the selector cannot be copied", "a chunk before failed half way",
                      "reset it");
  use_threads(threads_);
  const auto* memory = dynamic_cast<const selection::Remembers*>(other.selector_.get());
  KVLOUPE_CHECK(memory != nullptr || !(spec_.traits().evicts() || spec_.info().crosses_layers));
  selector_ = memory != nullptr ? memory->copy() : selection::make_selector(spec_, shape_, basis_);
}

void Session::start() {
  selector_ = selection::make_selector(spec_, shape_, basis_);
  broken_ = false;
  dense_reason_.reset();
  clear(rows_);
  blocks_.reset();
  copies_.clear();
}

void Session::reset(std::int64_t past, std::int64_t chunk) {
  if (past < 0 || past > kMostTokens || chunk < 0 || chunk > kMostTokens)
    throw usage_error(
        fmt::format("the selector cannot begin at position {}, chunk {}", past, chunk),
        "both count from 0 and fit 31 bits", "give other numbers");
  if (past > 0 && spec_.traits().evicts())
    throw usage_error(fmt::format("{} cannot begin at position {}", spec_.id(), past),
                      "what is alive there follows from every chunk before",
                      "reset it to position 0 and give it all chunks");
  start();
  order_ = ChunkOrder(past, chunk);
}

void Session::check_layer(int layer) const {
  if (layer < 0 || layer >= shape_.num_layers)
    throw usage_error(fmt::format("there is no layer {}", layer),
                      fmt::format("the model has {}, numbered from 0", shape_.num_layers),
                      "give one of them");
}

void Session::check_sources(int layer) const {
  const auto source = selection::source_layer(spec_, shape_, layer);
  if (source && order_.lacks(*source, layer))
    throw usage_error(
        fmt::format("{} cannot select in layer {}", spec_.id(), layer),
        fmt::format("it reuses the set of layer {}, which has not taken this chunk", *source),
        "give the chunk to that layer first");
  if (basis_ && basis_->layers.count(layer) == 0)
    throw input_error(fmt::format("{} cannot select in layer {}", spec_.id(), layer),
                      "its basis does not hold that layer",
                      "make the basis again by kvloupe calibrate, or leave the layer out");
}

void Session::select(const kvloupe_chunk& chunk) {
  check_layer(chunk.layer);
  if (broken_)
    throw usage_error("the selector cannot go on", "a chunk before failed half way", "reset it");
  if (chunk.phase != KVLOUPE_PREFILL && chunk.phase != KVLOUPE_DECODE)
    throw usage_error(fmt::format("{} is no phase", chunk.phase),
                      "a chunk is of the prompt or decoded",
                      "give KVLOUPE_PREFILL or KVLOUPE_DECODE");
  const std::int64_t length = length_of(chunk.q, "q");
  if (chunk.past < 0 || chunk.past > kMostTokens - length)
    throw usage_error(fmt::format("{} keys cannot come before a chunk of {}", chunk.past, length),
                      "positions count from 0 and fit 31 bits", "give another number");
  const auto phase = chunk.phase == KVLOUPE_DECODE ? trace::Phase::Decode : trace::Phase::Prefill;
  const ChunkOrder::Chunk here{chunk.past, length, phase};
  order_.check(chunk.layer, here);
  check_sources(chunk.layer);
  const selection::Cell cell = cell_of(chunk, length);

  broken_ = true;
  selection::CellSelection selection;
  try {
    selection = selector_->select(cell);
  } catch (const Error&) {
    // Refused. Where nothing is remembered from chunk to chunk, nothing was changed.
    broken_ = spec_.traits().evicts() || spec_.info().crosses_layers;
    throw;
  }
  clear(rows_);
  selector_->evict(cell);
  order_.note(chunk.layer, here);
  dense_reason_ = selection.dense_reason;
  blocks_ = std::move(selection.blocks);
  assign(rows_, selection.rows, &trace::SelectedRow::positions);
  if (spec_.info().crosses_layers) selector_->forget_before(oldest_asked_for());
  broken_ = false;
}

// The first chunk of which some layer that reuses a set has not asked yet.
int Session::oldest_asked_for() const {
  std::int64_t oldest = kMostTokens;
  for (int layer = 0; layer < shape_.num_layers; ++layer)
    if (selection::source_layer(spec_, shape_, layer))
      oldest = std::min(oldest, order_.next_chunk(layer));
  return static_cast<int>(oldest);
}

selection::Cell Session::cell_of(const kvloupe_chunk& chunk, std::int64_t length) {
  selection::Cell cell;
  cell.layer = chunk.layer;
  cell.chunk = static_cast<int>(std::min(order_.next_chunk(chunk.layer), kMostTokens));
  cell.past_len = chunk.past;
  cell.chunk_len = length;
  cell.phase = chunk.phase == KVLOUPE_DECODE ? trace::Phase::Decode : trace::Phase::Prefill;
  cell.ends_prefill = chunk.ends_prefill != 0 && cell.phase == trace::Phase::Prefill;
  cell.softmax = softmax_[static_cast<std::size_t>(chunk.layer)];
  const std::int64_t kv_len = cell.kv_len(), heads = shape_.num_kv_heads, lanes = shape_.head_dim;
  cell.q = tensor_of(chunk.q, {"q", "[q_heads, m, head_dim]", shape_.num_q_heads, length, lanes}, 0,
                     true);
  check_finite(cell.q, "q", chunk.layer, 0, length, chunk.past);
  // What came before was looked at with its own chunk.
  const std::int64_t begin = order_.begins(chunk.layer) ? 0 : chunk.past;
  cell.k = tensor_of(chunk.k, {"k", "[kv_heads, past + m, head_dim]", heads, kv_len, lanes});
  check_finite(cell.k, "k", chunk.layer, begin, kv_len, 0);
  if (chunk.v.data == nullptr && reads_values_)
    throw usage_error(fmt::format("{} cannot select", spec_.id()),
                      "it reads values, and v was not given",
                      "give v, [kv_heads, past + m, head_dim]");
  if (chunk.v.data != nullptr) {
    // Values that the method does not read are looked at, as the program does, and no further.
    const std::int64_t from = reads_values_ ? 0 : begin;
    const at::Tensor v =
        tensor_of(chunk.v, {"v", "[kv_heads, past + m, head_dim]", heads, kv_len, lanes}, from);
    check_finite(v, "v", chunk.layer, begin - from, kv_len - from, from);
    if (reads_values_) cell.v = v;
  }
  if (spec_.traits().needs_probe) add_probe(chunk, cell);
  cell.copies = copies_of(chunk.layer);
  return cell;
}

const std::shared_ptr<selection::KeyCopies>& Session::copies_of(int layer) {
  auto& copies = copies_[layer];
  if (!copies) copies = std::make_shared<selection::KeyCopies>();
  return copies;
}

void Session::add_probe(const kvloupe_chunk& chunk, selection::Cell& cell) const {
  const std::string what = fmt::format("{} cannot select", spec_.id());
  if (chunk.novelty == nullptr)
    throw usage_error(what, "it needs -log P of each token, which q, k and v do not say",
                      "give novelty, [past + m] numbers");
  const float* begin = chunk.novelty + (order_.begins(chunk.layer) ? 0 : chunk.past);
  if (std::any_of(begin, chunk.novelty + cell.kv_len(),
                  [](float value) { return std::isnan(value); }))
    throw input_error("novelty cannot be used", "it holds a NaN",
                      "give -log P of each token, infinity for the first");
  cell.novelty = at::from_blob(const_cast<float*>(chunk.novelty), {cell.kv_len()}, at::kFloat);
  if (cell.phase == trace::Phase::Decode) return;
  if (chunk.probe_q.data == nullptr)
    throw usage_error(
        what,
        "it needs the queries of a probe text that the model reads after each chunk of "
        "the prompt",
        "give probe_q, [q_heads, n, head_dim]");
  const std::int64_t count = length_of(chunk.probe_q, "probe_q");
  cell.probe_q = tensor_of(
      chunk.probe_q,
      {"probe_q", "[q_heads, n, head_dim]", shape_.num_q_heads, count, shape_.head_dim}, 0, true);
  check_finite(cell.probe_q, "probe_q", chunk.layer, 0, count, cell.kv_len());
}

void Session::show_alive(int layer) {
  check_layer(layer);
  if (!spec_.traits().evicts())
    throw usage_error(fmt::format("{} keeps no set alive", spec_.id()),
                      "it chooses anew for each chunk", "ask for the rows of a chunk");
  if (broken_)
    throw usage_error("the selector cannot go on", "a chunk before failed half way", "reset it");
  if (order_.begins(layer))
    throw usage_error(fmt::format("nothing is alive in layer {}", layer), "it has taken no chunk",
                      "give it one first");
  assign(rows_, selector_->alive(layer), std::identity());
}

std::int64_t Session::num_rows() const {
  switch (layout_.axis) {
    case trace::RowAxis::KvHead: return shape_.num_kv_heads;
    case trace::RowAxis::QHead: return shape_.num_q_heads;
    case trace::RowAxis::Subgroup: return shape_.num_q_heads / layout_.q_heads_per_row;
  }
  return shape_.num_kv_heads;
}

void Session::check_selected(const char* what) const {
  if (rows_.offsets.empty())
    throw usage_error(fmt::format("there are no {}", what), "no chunk was selected for",
                      "select for a chunk first");
}

const Rows& Session::rows() const {
  check_selected("rows");
  return rows_;
}

std::span<const std::int32_t> Session::row(std::int64_t index) const {
  const auto& [positions, offsets] = rows();
  if (index < 0 || index >= num_rows())
    throw usage_error(fmt::format("there is no row {}", index),
                      fmt::format("there are {}, numbered from 0", num_rows()), "give one of them");
  const auto row = static_cast<std::size_t>(index);
  const std::int64_t begin = offsets[row];
  return std::span(positions).subspan(static_cast<std::size_t>(begin),
                                      static_cast<std::size_t>(offsets[row + 1] - begin));
}

const trace::BlockMasks* Session::blocks() const {
  if (spec_.traits().granularity != trace::Granularity::Block)
    throw usage_error(fmt::format("{} has no blocks", spec_.id()),
                      "its query blocks keep no blocks of keys each for itself",
                      "ask for the rows of a chunk");
  check_selected("blocks");
  return blocks_ ? &*blocks_ : nullptr;
}

const char* Session::dense_reason() const {
  return dense_reason_ ? trace::name_of(*dense_reason_) : nullptr;
}

}  // namespace kvloupe::c_api
