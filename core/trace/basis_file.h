// Calibrated bases: for every layer and KV head an orthonormal set of directions of its keys (and
// queries), with where it came from. The file layout is in FORMAT.md, section 11.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace kvloupe::trace {

enum class BasisKind {
  Loki,  // centred PCA of the keys
  Aqua,  // uncentred: the group's queries and the keys together
};
const char* name_of(BasisKind kind);  // "loki", "aqua"

struct LayerBasis {
  // [num_kv_heads, head_dim, head_dim] row-major; column i is direction i, by falling value. A
  // row vector x has the lanes x * P.
  std::vector<float> vectors;
  std::vector<double> values;  // [num_kv_heads, head_dim] second moments along the directions
  // The same of the cached values V, about zero, in the shape of `vectors`. Empty: not fitted (loki, and
  // files before schema 1.1).
  std::vector<float> value_vectors;
};

struct Basis {
  BasisKind kind = BasisKind::Loki;
  std::string model_name;
  std::string model_hash;  // ModelInfo::file_hash
  int num_kv_heads = 0;
  int head_dim = 0;
  std::map<int, LayerBasis> layers;

  std::string source;           // what text: "persuasion", a file's name, "this trace"
  std::string source_hash;      // SHA-256 of the text used; of a trace its tokens
  std::int64_t num_tokens = 0;  // that it was fitted on
  // Hashes of all runs of kShingleTokens tokens of the text, ascending: what tells whether a trace
  // holds text that the basis was fitted on.
  std::vector<std::uint64_t> shingles;
};

inline constexpr int kShingleTokens = 24;
std::vector<std::uint64_t> shingles_of(const std::vector<std::int32_t>& token_ids);
// Whether any run of kShingleTokens of these tokens is in the text of the basis.
bool shares_text(const Basis& basis, const std::vector<std::int32_t>& token_ids);

// Throws Error{Input} for a file that is missing, damaged or of a newer major version.
Basis read_basis(const std::filesystem::path& path);
// Writes beside and renames: never leaves half a file under the final name.
void write_basis(const std::filesystem::path& path, const Basis& basis);

}  // namespace kvloupe::trace
