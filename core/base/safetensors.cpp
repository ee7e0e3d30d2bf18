#include "core/base/safetensors.h"

#include "core/base/error.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

namespace kvloupe {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

// The format's own limit.
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr const char* kMetadata = "__metadata__";

// What is wrong with a header.
struct Defect {
  std::string what;
};

// Bytes of one value; nothing for a type that the format does not know.
std::optional<std::uint64_t> size_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> sizes = {
      {"F64", 8}, {"I64", 8},  {"U64", 8}, {"F32", 4},  {"I32", 4},     {"U32", 4},
      {"F16", 2}, {"I16", 2},  {"U16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"I8", 1},
      {"U8", 1},  {"BOOL", 1}, {"C64", 8}, {"E8M0", 1}, {"F8_E5M2", 1}};
  const auto found = sizes.find(dtype);
  if (found == sizes.end()) return std::nullopt;
  return found->second;
}

float float_of_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

float float_of_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint64_t unsigned_of(const json& value) {
  if (!value.is_number_unsigned()) throw Defect{"an offset or extent is no whole number"};
  return value.get<std::uint64_t>();
}

// One tensor of the header; throws Defect.
SafetensorsFile::Entry entry_of(const json& value, std::uint64_t data_bytes) {
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
      !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
      !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
    throw Defect{"it lacks dtype, shape or data_offsets"};
  SafetensorsFile::Entry entry;
  entry.dtype = value["dtype"].get<std::string>();
  const auto size = size_of(entry.dtype);
  if (!size) throw Defect{fmt::format("its type {} is unknown", entry.dtype)};
  entry.begin = unsigned_of(value["data_offsets"][0]);
  entry.end = unsigned_of(value["data_offsets"][1]);
  if (entry.begin > entry.end || entry.end > data_bytes)
    throw Defect{"its bytes are not all in the file"};
  std::uint64_t bytes = *size;
  for (const json& extent : value["shape"]) {
    const std::uint64_t count = unsigned_of(extent);
    // No more than the file has: the product cannot overflow.
    if (count > data_bytes || (count > 0 && bytes > data_bytes / count))
      throw Defect{"its shape is larger than the file"};
    bytes *= count;
    entry.shape.push_back(static_cast<std::int64_t>(count));
  }
  if (bytes != entry.end - entry.begin)
    throw Defect{fmt::format("its shape takes {} bytes where the file has {}", bytes,
                             entry.end - entry.begin)};
  return entry;
}

// JSON of the header; a name given twice is refused, as the format asks.
json parse_once(const std::string& text) {
  std::set<std::string> names;
  bool twice = false;
  json header = json::parse(
      text,
      [&](int depth, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::key && depth == 1)
          twice = !names.insert(parsed.get<std::string>()).second || twice;
        return true;
      },
      false);
  if (header.is_discarded() || !header.is_object()) throw Defect{"its header is not a JSON object"};
  if (twice) throw Defect{"its header names a tensor twice"};
  return header;
}

}  // namespace

std::int64_t SafetensorsFile::Entry::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

SafetensorsFile::SafetensorsFile(fs::path path, std::string remedy)
    : path_(std::move(path)), remedy_(std::move(remedy)) {
  std::error_code code;
  if (!fs::is_regular_file(path_, code))
    refuse(fs::exists(path_, code) ? "it is no file" : "there is no such file");
  const std::uint64_t size = fs::file_size(path_, code);
  std::ifstream stream(path_, std::ios::binary);
  if (code || !stream) refuse("it cannot be opened");
  std::uint64_t header_bytes = 0;
  if (size < sizeof(header_bytes) ||
      !stream.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes)))
    refuse("it is too short for a safetensors file");
  if (header_bytes > kMaxHeaderBytes || header_bytes > size - sizeof(header_bytes))
    refuse("it is not a safetensors file: its header would be longer than the file");
  std::string text(header_bytes, '\0');
  if (!stream.read(text.data(), static_cast<std::streamsize>(text.size())))
    refuse("its header cannot be read");
  data_begin_ = sizeof(header_bytes) + header_bytes;
  try {
    parse_header(text, size - data_begin_);
  } catch (const Defect& defect) {
    refuse(defect.what);
  }
}

void SafetensorsFile::parse_header(const std::string& text, std::uint64_t data_bytes) {
  const json header = parse_once(text);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      if (!value.is_object()) throw Defect{"its metadata is not a JSON object"};
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string()) throw Defect{fmt::format("its metadata {} is no text", key)};
        metadata_[key] = entry.get<std::string>();
      }
      continue;
    }
    try {
      entries_[name] = entry_of(value, data_bytes);
    } catch (const Defect& defect) {
      throw Defect{fmt::format("tensor {}: {}", name, defect.what)};
    }
  }
}

void SafetensorsFile::refuse(const std::string& why) const {
  throw input_error("cannot read " + path_.string(), why, remedy_);
}

std::vector<float> SafetensorsFile::read(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) refuse("it has no tensor " + name);
  const Entry& entry = found->second;
  if (entry.dtype != "F32" && entry.dtype != "F16" && entry.dtype != "BF16")
    refuse(
        fmt::format("tensor {} has type {}, where F32, F16 or BF16 is needed", name, entry.dtype));
  std::vector<float> values(static_cast<std::size_t>(entry.count()));
  std::ifstream stream(path_, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(data_begin_ + entry.begin));
  const auto bytes = static_cast<std::streamsize>(entry.end - entry.begin);
  if (entry.dtype == "F32") {
    stream.read(reinterpret_cast<char*>(values.data()), bytes);
  } else {
    std::vector<std::uint16_t> halves(values.size());
    stream.read(reinterpret_cast<char*>(halves.data()), bytes);
    const auto convert = entry.dtype == "F16" ? float_of_half : float_of_bfloat;
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = convert(halves[i]);
  }
  if (!stream) refuse(fmt::format("tensor {} cannot be read", name));
  return values;
}

void write_safetensors(const fs::path& path, const std::map<std::string, NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::uint64_t end = offset + tensor.values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins aligned
  const std::uint64_t header_bytes = text.size();
  std::string bytes(reinterpret_cast<const char*>(&header_bytes), sizeof(header_bytes));
  bytes.reserve(sizeof(header_bytes) + text.size() + offset);
  bytes += text;
  for (const auto& [name, tensor] : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.values.data()),
                 tensor.values.size() * sizeof(float));
  write_whole_file(path, bytes);
}

}  // namespace kvloupe
