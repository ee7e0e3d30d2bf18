// Rows of q, k and v widened to fp32, and the hash that names a trace by its content.
#include "core/base/sha256.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <bit>
#include <functional>
#include <numeric>
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace kvloupe::trace {
namespace {

// IEEE binary16 to binary32; exact for every value, NaN payloads kept.
float widen(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float subnormal = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

void widen_all(const std::uint16_t* halves, std::size_t count, float* out) {
  std::size_t i = 0;
#if defined(__F16C__) && defined(__AVX__)
  for (; i + 8 <= count; i += 8) {
    const __m128i packed = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves + i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(packed));
  }
#endif
  for (; i < count; ++i) out[i] = widen(halves[i]);
}

void add_number(Sha256& hash, std::int64_t value) { hash.update(fmt::format("{}\n", value)); }

}  // namespace

void read_head_rows(const h5::Dataset& dataset, int head, std::int64_t begin, std::int64_t end,
                    std::int64_t num_rows, float* out) {
  const hsize_t dim = dataset.dims()[2];
  dataset.require_stored(dataset.dims()[0] * static_cast<hsize_t>(num_rows) * dim *
                         dataset.stored_size());
  if (begin == end) return;
  read_widened(dataset, {static_cast<hsize_t>(head), static_cast<hsize_t>(begin), 0},
               {1, static_cast<hsize_t>(end - begin), dim}, out);
}

void read_widened(const h5::Dataset& dataset, const std::vector<hsize_t>& start,
                  const std::vector<hsize_t>& count, float* out) {
  if (dataset.stored_size() == sizeof(float)) {
    dataset.read(H5T_NATIVE_FLOAT, start, count, out);
    return;
  }
  // HDF5's own conversion of halves is many times slower.
  std::vector<std::uint16_t> halves(
      std::accumulate(count.begin(), count.end(), std::size_t{1}, std::multiplies<>()));
  dataset.read(h5::half_type(), start, count, halves.data());
  widen_all(halves.data(), halves.size(), out);
}

std::string hash_of_trace(const LoadedTrace& trace) {
  const auto& info = trace.info;
  const auto& model = info.model;
  Sha256 hash;
  hash.update("kvloupe-trace-hash-1\n");
  for (const std::string& text : {std::string(to_text(info.mode)), std::string(to_text(info.dtype)),
                                  model.name, model.architecture, model.file_hash}) {
    hash.update(text + "\n");
  }
  for (const int number :
       {model.num_layers, model.num_q_heads, model.num_kv_heads, model.head_dim}) {
    add_number(hash, number);
  }
  for (const auto& chunk : info.chunks) {
    add_number(hash, chunk.begin);
    add_number(hash, chunk.length);
    add_number(hash, static_cast<int>(chunk.phase));
  }
  for (const std::int32_t id : load_token_ids(trace)) add_number(hash, id);
  for (const std::int64_t offset : info.query_offsets) add_number(hash, offset);
  std::vector<float> row(model.head_dim);
  for (const auto& [layer, sources] : trace.layers) {
    add_number(hash, layer);
    for (const auto* dataset : {&sources.q, &sources.k, &sources.v}) {
      const std::int64_t rows = dataset == &sources.q ? info.num_queries() : info.num_tokens;
      if (!*dataset || rows == 0) continue;
      // The last token's row depends on everything before it.
      read_head_rows(*dataset, 0, rows - 1, rows, rows, row.data());
      hash.update(row.data(), row.size() * sizeof(float));
    }
  }
  return hash.hex_digest();
}

}  // namespace kvloupe::trace
