// Reads and writes calibrated bases. A file is used only after its shapes, its values and the
// orthonormality of its directions were checked: the lane methods' identity S^ = <P mask(P^T q), k>
// holds for orthonormal P alone.
#include "core/trace/basis_file.h"

#include "core/base/error.h"
#include "core/base/version.h"
#include "core/base/whole_file.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/hdf5/h5_driver.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"
#include "core/trace/runs/run_storage.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBasisFormat = "kvloupe-basis";
// Above any model; the check of orthonormality takes head_dim^3 operations a head.
constexpr std::int64_t kMaxBasisHeadDim = 1024;
constexpr std::int64_t kMaxBasisHeads = 65536;
constexpr std::int64_t kMaxBasisLayers = 4096;
constexpr std::uint64_t kMaxShingles = 1ull << 28;
// Of the largest entry of P^T P - I: fp32 directions are within 1e-6.
constexpr double kMaxDeviation = 1e-4;

constexpr const char* kRemedy = "make it again by kvloupe calibrate";

std::string required_text(hid_t file, const char* name) {
  const auto text = h5::string_attribute(file, name);
  if (!text) throw h5::Defect(fmt::format("the attribute {} is missing", name));
  return *text;
}

std::int64_t required_number(hid_t file, const char* name, std::int64_t least, std::int64_t most) {
  const auto value = h5::int_attribute(file, name);
  if (!value) throw h5::Defect(fmt::format("the attribute {} is missing", name));
  if (*value < least || *value > most) {
    throw h5::Defect(fmt::format("{} is {}, outside {} to {}", name, *value, least, most));
  }
  return *value;
}

BasisKind required_kind(hid_t file) {
  const std::string text = required_text(file, "kind");
  for (const BasisKind kind : {BasisKind::Loki, BasisKind::Aqua}) {
    if (text == name_of(kind)) return kind;
  }
  throw h5::Defect(fmt::format("kind is \"{}\", neither loki nor aqua", text));
}

template <typename T>
std::vector<T> read_whole(hid_t file, const std::string& path, const std::vector<hsize_t>& shape) {
  const auto dataset =
      h5::Dataset::open(file, path, h5::ValueClass::Float, static_cast<int>(shape.size()));
  if (dataset.dims() != shape) {
    throw h5::Defect(fmt::format("{} has shape [{}] where [{}] is needed", path,
                                 fmt::join(dataset.dims(), ", "), fmt::join(shape, ", ")));
  }
  return dataset.read_box<T>(std::vector<hsize_t>(shape.size(), 0), shape);
}

// The largest entry of |P^T P - I| of one head.
double deviation_from_orthonormal(const float* vectors, std::int64_t dim) {
  std::vector<double> gram(static_cast<std::size_t>(dim * dim), 0.0);
  for (std::int64_t channel = 0; channel < dim; ++channel) {
    const float* row = vectors + channel * dim;
    for (std::int64_t i = 0; i < dim; ++i) {
      const double left = row[i];
      for (std::int64_t j = 0; j < dim; ++j) gram[i * dim + j] += left * row[j];
    }
  }
  double largest = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    for (std::int64_t j = 0; j < dim; ++j)
      largest = std::max(largest, std::abs(gram[i * dim + j] - (i == j ? 1.0 : 0.0)));
  }
  return largest;
}

void check_directions(const Basis& basis, int layer, const LayerBasis& data,
                      const std::vector<float>& vectors) {
  const std::int64_t dim = basis.head_dim;
  const auto finite = [](double value) { return std::isfinite(value); };
  if (!std::all_of(vectors.begin(), vectors.end(), finite) ||
      !std::all_of(data.values.begin(), data.values.end(), finite)) {
    throw h5::Defect(fmt::format("layer {} holds a NaN or an infinity", layer));
  }
  for (int head = 0; head < basis.num_kv_heads; ++head) {
    const double found = deviation_from_orthonormal(vectors.data() + head * dim * dim, dim);
    if (found > kMaxDeviation) {
      throw h5::Defect(
          fmt::format("the directions of layer {}, KV head {} are not orthonormal: P^T P differs "
                      "from the identity by {:.2g}",
                      layer, head, found));
    }
  }
}

void load_layers(hid_t file, Basis& basis) {
  const auto heads = static_cast<hsize_t>(basis.num_kv_heads);
  const auto dim = static_cast<hsize_t>(basis.head_dim);
  const h5::Handle group = h5::open_group(file, "/layers");
  for (const int layer : h5::numbered_members(group.get())) {
    if (layer >= kMaxBasisLayers) throw h5::Defect(fmt::format("layer {} is too many", layer));
    const std::string at = fmt::format("/layers/{}/", layer);
    LayerBasis data;
    data.vectors = read_whole<float>(file, at + "vectors", {heads, dim, dim});
    data.values = read_whole<double>(file, at + "values", {heads, dim});
    check_directions(basis, layer, data, data.vectors);
    if (h5::has_object(file, at + "value_vectors")) {
      data.value_vectors = read_whole<float>(file, at + "value_vectors", {heads, dim, dim});
      check_directions(basis, layer, data, data.value_vectors);
    }
    basis.layers.emplace(layer, std::move(data));
  }
  if (basis.layers.empty()) throw h5::Defect("it holds no layer");
}

std::vector<std::uint64_t> load_shingles(hid_t file) {
  if (!h5::has_object(file, "/shingles")) return {};
  const auto dataset = h5::Dataset::open(file, "/shingles", h5::ValueClass::Integer, 1);
  if (dataset.dims().front() > kMaxShingles) throw h5::Defect("/shingles has too many entries");
  auto shingles = dataset.read_range<std::uint64_t>(0, dataset.dims().front());
  if (!std::is_sorted(shingles.begin(), shingles.end())) {
    throw h5::Defect("/shingles does not ascend");
  }
  return shingles;
}

Basis load_basis_file(hid_t file, const std::string& path) {
  if (h5::string_attribute(file, "format") != kBasisFormat) {
    throw h5::Defect(fmt::format("it does not carry the mark format=\"{}\"", kBasisFormat));
  }
  require_format(file, path, kBasisFormat, "a basis");
  Basis basis;
  basis.kind = required_kind(file);
  basis.model_name = required_text(file, "model_name");
  basis.model_hash = required_text(file, "model_hash");
  basis.num_kv_heads = static_cast<int>(required_number(file, "num_kv_heads", 1, kMaxBasisHeads));
  basis.head_dim = static_cast<int>(required_number(file, "head_dim", 1, kMaxBasisHeadDim));
  basis.source = required_text(file, "source");
  basis.source_hash = required_text(file, "source_hash");
  basis.num_tokens = required_number(file, "num_tokens", 1, std::int64_t{1} << 53);
  load_layers(file, basis);
  basis.shingles = load_shingles(file);
  return basis;
}

void write_dataset(hid_t file, const std::string& path, hid_t file_type, hid_t memory_type,
                   const std::vector<hsize_t>& shape, const void* values,
                   const std::vector<std::string>& axes) {
  std::vector<hsize_t> piece = shape;
  for (hsize_t& extent : piece) extent = std::clamp<hsize_t>(extent, 1, 4096);
  const h5::Handle dataset = create_dataset(file, path, file_type, shape, piece, false);
  h5::write_box(dataset.get(), memory_type, std::vector<hsize_t>(shape.size(), 0), shape, values);
  h5::write_attribute(dataset.get(), "axes", axes);
}

void write_contents(hid_t file, const Basis& basis) {
  h5::write_attribute(file, "format", std::string(kBasisFormat));
  h5::write_attribute(file, "schema_version", "1.1");
  h5::write_attribute(file, "producer", "kvloupe " + version());
  h5::write_attribute(file, "created",
                      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))));
  h5::write_attribute(file, "kind", name_of(basis.kind));
  h5::write_attribute(file, "model_name", basis.model_name);
  h5::write_attribute(file, "model_hash", basis.model_hash);
  h5::write_attribute(file, "num_kv_heads", basis.num_kv_heads);
  h5::write_attribute(file, "head_dim", basis.head_dim);
  h5::write_attribute(file, "source", basis.source);
  h5::write_attribute(file, "source_hash", basis.source_hash);
  h5::write_attribute(file, "num_tokens", basis.num_tokens);
  const auto heads = static_cast<hsize_t>(basis.num_kv_heads);
  const auto dim = static_cast<hsize_t>(basis.head_dim);
  h5::create_group(file, "/layers");
  for (const auto& [layer, data] : basis.layers) {
    const std::string at = fmt::format("/layers/{}", layer);
    h5::create_group(file, at);
    write_dataset(file, at + "/vectors", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {heads, dim, dim},
                  data.vectors.data(), {"kv_head", "channel", "lane"});
    write_dataset(file, at + "/values", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {heads, dim},
                  data.values.data(), {"kv_head", "lane"});
    if (!data.value_vectors.empty())
      write_dataset(file, at + "/value_vectors", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT,
                    {heads, dim, dim}, data.value_vectors.data(), {"kv_head", "channel", "lane"});
  }
  if (!basis.shingles.empty()) {
    write_dataset(file, "/shingles", H5T_STD_U64LE, H5T_NATIVE_UINT64, {basis.shingles.size()},
                  basis.shingles.data(), {"shingle"});
  }
}

}  // namespace

const char* name_of(BasisKind kind) { return kind == BasisKind::Loki ? "loki" : "aqua"; }

std::vector<std::uint64_t> shingles_of(const std::vector<std::int32_t>& token_ids) {
  std::vector<std::uint64_t> shingles;
  for (std::size_t begin = 0; begin + kShingleTokens <= token_ids.size(); ++begin) {
    std::uint64_t hash = 0;
    for (std::size_t i = begin; i < begin + kShingleTokens; ++i) {
      // The mixing step of SplitMix64: FORMAT.md, section 11, fixes it.
      hash = (hash ^ static_cast<std::uint32_t>(token_ids[i])) + 0x9E3779B97F4A7C15ull;
      hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9ull;
      hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBull;
      hash ^= hash >> 31;
    }
    shingles.push_back(hash);
  }
  std::sort(shingles.begin(), shingles.end());
  shingles.erase(std::unique(shingles.begin(), shingles.end()), shingles.end());
  return shingles;
}

bool shares_text(const Basis& basis, const std::vector<std::int32_t>& token_ids) {
  const std::vector<std::uint64_t> shingles = shingles_of(token_ids);
  return std::any_of(shingles.begin(), shingles.end(), [&](std::uint64_t shingle) {
    return std::binary_search(basis.shingles.begin(), basis.shingles.end(), shingle);
  });
}

Basis read_basis(const fs::path& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    throw input_error("cannot read the basis " + path.string(),
                      code && code != std::errc::no_such_file_or_directory ? code.message()
                      : fs::exists(path, code)                             ? "it is no file"
                                               : "there is no such file",
                      "name a file that kvloupe calibrate made");
  }
  const h5::Lock lock;
  const LoadBudget budget(fs::file_size(path, code));
  try {
    const h5::Handle file = h5::open_file_for_reading(path.string());
    return load_basis_file(file.get(), path.string());
  } catch (const h5::Defect& defect) {
    throw input_error("cannot read the basis " + path.string(), defect.what(), kRemedy);
  }
}

void write_basis(const fs::path& path, const Basis& basis) {
  const h5::Lock lock;
  h5::written("write the basis " + path.string(), [&] {
    TemporaryFile temporary(path);
    DiskFile disk = DiskFile::create(temporary.path());
    h5::Handle file = h5::create_file(disk, h5::access_to(disk));
    write_contents(file.get(), basis);
    h5::close_written(file, disk);
    temporary.commit();
  });
}

}  // namespace kvloupe::trace
