#include "core/trace/foretold_storage.h"

#include "core/base/error.h"
#include "core/trace/run_storage.h"
#include "core/trace/trace_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::trace {
namespace {

h5::Handle create_matrix(hid_t at, const char* name, hid_t type, hsize_t rows, hsize_t columns,
                         const std::vector<std::string>& axes, const char* units,
                         const std::string& long_name) {
  h5::Handle dataset = create_dataset(at, name, type, {rows, columns},
                                      {std::clamp<hsize_t>(rows, 1, 256), columns}, false);
  h5::write_attribute(dataset.get(), "axes", axes);
  h5::write_attribute(dataset.get(), "units", units);
  h5::write_attribute(dataset.get(), "long_name", long_name);
  return dataset;
}

template <typename T>
void write_row(const h5::Handle& dataset, hid_t type, hsize_t row, const std::vector<T>& values) {
  h5::write_box(dataset.get(), type, {row, 0}, {1, values.size()}, values.data());
}

}  // namespace

void ForetoldStorage::TopDatasets::create(hid_t at, hsize_t chunks, const char* whose) {
  const std::vector<std::string> axes = {"chunk", "rank"};
  ids = create_matrix(at, "top_ids", H5T_STD_I32LE, chunks, kTopTokens, axes, "1",
                      fmt::format("most probable next tokens after each chunk, {}", whose));
  log_probs = create_matrix(at, "top_log_probs", H5T_IEEE_F32LE, chunks, kTopTokens, axes, "nat",
                            fmt::format("their log-probabilities, {}", whose));
}

void ForetoldStorage::TopDatasets::write(hsize_t chunk, const TopTokens& top) const {
  KVLOUPE_CHECK(top.ids.size() == kTopTokens && top.log_probs.size() == kTopTokens);
  write_row(ids, H5T_NATIVE_INT32, chunk, top.ids);
  write_row(log_probs, H5T_NATIVE_FLOAT, chunk, top.log_probs);
}

ForetoldStorage::ForetoldStorage(hid_t file, const TraceHeader& header)
    : num_layers_(header.layers.size()) {
  const auto chunks = static_cast<hsize_t>(header.max_chunks);
  const auto tokens = static_cast<hsize_t>(header.max_tokens);
  if (header.store_top) {
    const h5::Handle group = h5::open_group(file, "/chunks");
    top_.create(group.get(), chunks, "by the model as it ran");
  }
  if (!header.store_drift) return;
  const h5::Handle group = h5::create_group(file, "/drift");
  const hid_t at = group.get();
  h5::write_attribute(at, "reference", "dense");
  nll_ = create_vector(at, "nll", H5T_IEEE_F32LE, tokens, "token", "nat",
                       "-log P of each token by the dense model");
  kl_ = create_vector(at, "kl", H5T_IEEE_F32LE, tokens, "token", "nat",
                      "KL(dense || closed loop) of the token after each");
  agrees_ = create_vector(at, "agrees", H5T_STD_U8LE, tokens, "token", "1",
                          "whether both find the same next token most probable");
  const std::vector<std::string> axes = {"chunk", "layer"};
  q_ = create_matrix(at, "q", H5T_IEEE_F32LE, chunks, num_layers_, axes, "1",
                     "relative distance of the queries from the dense model's");
  k_ = create_matrix(at, "k", H5T_IEEE_F32LE, chunks, num_layers_, axes, "1",
                     "relative distance of the keys from the dense model's");
  if (header.store_top) dense_top_.create(at, chunks, "by the dense model");
  const auto grows = [&](const char* name, hid_t type, const char* long_name) {
    h5::Handle dataset = create_dataset(at, name, type, {0}, {256}, true);
    h5::write_attribute(dataset.get(), "long_name", long_name);
    return dataset;
  };
  answer_ = grows("generated", H5T_STD_I32LE, "what the dense model samples when left alone");
  answer_text_ = grows("generated_text", H5T_STD_U8LE, "raw bytes of its tokens");
  answer_offsets_ =
      grows("generated_text_offsets", H5T_STD_U64LE, "where each token's bytes begin");
}

void ForetoldStorage::write_top(int chunk_idx, const TopTokens& top) {
  KVLOUPE_CHECK(top_.ids);
  top_.write(static_cast<hsize_t>(chunk_idx), top);
  top_now_ = true;
}

void ForetoldStorage::write_drift(int chunk_idx, const ChunkInfo& chunk, const DriftChunk& drift) {
  const auto count = static_cast<hsize_t>(chunk.length), begin = static_cast<hsize_t>(chunk.begin);
  KVLOUPE_CHECK(kl_ && drift.kl.size() == count && drift.dense_nll.size() == count &&
                drift.agrees.size() == count && drift.q.size() == num_layers_ &&
                drift.k.size() == num_layers_);
  h5::write_box(nll_.get(), H5T_NATIVE_FLOAT, {begin}, {count}, drift.dense_nll.data());
  h5::write_box(kl_.get(), H5T_NATIVE_FLOAT, {begin}, {count}, drift.kl.data());
  h5::write_box(agrees_.get(), H5T_NATIVE_UINT8, {begin}, {count}, drift.agrees.data());
  const auto row = static_cast<hsize_t>(chunk_idx);
  write_row(q_, H5T_NATIVE_FLOAT, row, drift.q);
  write_row(k_, H5T_NATIVE_FLOAT, row, drift.k);
  if (dense_top_.ids) dense_top_.write(row, drift.dense_top);
  drift_now_ = true;
}

void ForetoldStorage::write_dense_answer(std::span<const std::int32_t> ids,
                                         std::span<const std::string> texts) {
  KVLOUPE_CHECK(answer_ && ids.size() == texts.size());
  std::string bytes;
  std::vector<std::uint64_t> offsets = {0};
  for (const std::string& text : texts) {
    bytes += text;
    offsets.push_back(bytes.size());
  }
  const auto write = [](const h5::Handle& dataset, hid_t type, hsize_t count, const void* data) {
    h5::checked_status(H5Dset_extent(dataset.get(), &count), "extend the dense answer");
    if (count > 0) h5::write_box(dataset.get(), type, {0}, {count}, data);
  };
  write(answer_, H5T_NATIVE_INT32, ids.size(), ids.data());
  write(answer_text_, H5T_NATIVE_UINT8, bytes.size(), bytes.data());
  write(answer_offsets_, H5T_NATIVE_UINT64, offsets.size(), offsets.data());
}

bool ForetoldStorage::end_chunk() {
  const bool whole =
      top_now_ == static_cast<bool>(top_.ids) && drift_now_ == static_cast<bool>(kl_);
  top_now_ = drift_now_ = false;
  return whole;
}

}  // namespace kvloupe::trace
