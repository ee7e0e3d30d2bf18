// The GGUF format: a header, key-value metadata, tensor descriptions, padding, tensor data.
#include "capture/model/gguf.h"

#include "core/base/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace kvloupe::capture {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF data are used in place");

// Metadata value types, numbered as in the format.
enum ValueType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

constexpr int kMaxArrayDepth = 4;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 1 << 20;

// Bytes of a scalar; 0 for strings, arrays and what the format does not know.
std::size_t scalar_bytes(std::uint32_t type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool:
      return 1;
    case kUint16:
    case kInt16:
      return 2;
    case kUint32:
    case kInt32:
    case kFloat32:
      return 4;
    case kUint64:
    case kInt64:
    case kFloat64:
      return 8;
    default:
      return 0;
  }
}

// A name from the file, fit for a message: control bytes and endless names never reach a terminal.
std::string shown(std::string_view name) {
  constexpr std::size_t kMaxShown = 80;
  std::string text;
  for (const char c : name.substr(0, kMaxShown)) {
    const auto byte = static_cast<unsigned char>(c);
    text += byte < 0x20 || byte >= 0x7f ? '?' : c;
  }
  return name.size() > kMaxShown ? text + "..." : text;
}

Error damaged(const std::filesystem::path& path, std::string why) {
  return input_error(fmt::format("cannot read the model file {}", path.string()), std::move(why),
                     "download the file again or choose another one");
}

Error unsupported(const std::filesystem::path& path, std::string why, std::string remedy) {
  return input_error(fmt::format("cannot use the model file {}", path.string()), std::move(why),
                     std::move(remedy));
}

std::optional<GgufType> known_type(std::uint32_t number) {
  switch (static_cast<GgufType>(number)) {
    case GgufType::F32:
    case GgufType::F16:
    case GgufType::Q4_0:
    case GgufType::Q4_1:
    case GgufType::Q8_0:
    case GgufType::BF16:
      return static_cast<GgufType>(number);
  }
  return std::nullopt;
}

}  // namespace

GgufBlock gguf_block(GgufType type) {
  switch (type) {
    case GgufType::F32:
      return {1, 4};
    case GgufType::F16:
    case GgufType::BF16:
      return {1, 2};
    case GgufType::Q4_0:
      return {32, 2 + 16};
    case GgufType::Q4_1:
      return {32, 2 + 2 + 16};
    case GgufType::Q8_0:
      return {32, 2 + 32};
  }
  return {};
}

std::string_view gguf_type_name(GgufType type) {
  switch (type) {
    case GgufType::F32:
      return "F32";
    case GgufType::F16:
      return "F16";
    case GgufType::BF16:
      return "BF16";
    case GgufType::Q4_0:
      return "Q4_0";
    case GgufType::Q4_1:
      return "Q4_1";
    case GgufType::Q8_0:
      return "Q8_0";
  }
  return "?";
}

// A position in the file that can only move inside it. `what` names what is being read.
class GgufFile::Cursor {
 public:
  Cursor(const GgufFile& file, std::size_t offset) : file_(&file), offset_(offset) {}

  std::string what;

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return file_->bytes_.size() - offset_; }

  void skip(std::uint64_t count) {
    if (count > remaining()) throw truncated(count);
    offset_ += count;
  }

  template <typename T>
  T read() {
    if (sizeof(T) > remaining()) throw truncated(sizeof(T));
    T value;
    std::memcpy(&value, file_->bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A view into the mapping.
  std::string_view read_string() {
    const auto length = read<std::uint64_t>();
    const auto begin = offset_;
    skip(length);
    return {reinterpret_cast<const char*>(file_->bytes_.data()) + begin, length};
  }

 private:
  Error truncated(std::uint64_t wanted) const {
    return damaged(file_->path_,
                   fmt::format("{} at byte {} claims {} bytes, but the file has {} left", what,
                               offset_, wanted, remaining()));
  }

  const GgufFile* file_;
  std::size_t offset_;
};

GgufFile::GgufFile(const std::filesystem::path& path) : path_(path) {
  map_file();
  try {
    parse();
  } catch (...) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
    throw;
  }
}

GgufFile::~GgufFile() { ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size()); }

void GgufFile::map_file() {
  const int descriptor = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    throw input_error(fmt::format("cannot open the model file {}", path_.string()),
                      std::strerror(errno), "check the path and the permissions");
  }
  struct stat status {};
  void* address = MAP_FAILED;
  const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (regular && status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE,
                     descriptor, 0);
  }
  const int error_number = errno;
  ::close(descriptor);
  if (!regular) throw damaged(path_, "it is not a regular file");
  if (status.st_size == 0) throw damaged(path_, "the file is empty");
  if (address == MAP_FAILED) throw damaged(path_, std::strerror(error_number));
  bytes_ = {static_cast<const std::byte*>(address), static_cast<std::size_t>(status.st_size)};
}

GgufFile::Cursor GgufFile::cursor_at(std::size_t offset, std::string_view what) const {
  Cursor cursor(*this, offset);
  cursor.what = what;
  return cursor;
}

void GgufFile::parse() {
  Cursor cursor = cursor_at(0, "the header");
  if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0) {
    throw damaged(path_, "it does not begin with the letters GGUF");
  }
  cursor.skip(4);
  const auto version = cursor.read<std::uint32_t>();
  if (version != 2 && version != 3) {
    // A big-endian file shows its version in the upper byte.
    const bool big_endian = (version & 0xffffU) == 0 && version != 0;
    throw unsupported(path_,
                      big_endian ? std::string("it is a big-endian GGUF file")
                                 : fmt::format("its GGUF version is {}", version),
                      "convert it to a little-endian GGUF file of version 2 or 3");
  }
  const auto tensor_count = cursor.read<std::uint64_t>();
  const auto value_count = cursor.read<std::uint64_t>();
  // The shortest entries there can be: counts beyond these bounds are wrong without reading on.
  constexpr std::uint64_t kMinValueBytes = 8 + 4 + 1;
  constexpr std::uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;
  if (value_count > cursor.remaining() / kMinValueBytes) {
    throw damaged(path_, fmt::format("it claims {} metadata keys, more than fit", value_count));
  }
  if (tensor_count > cursor.remaining() / kMinTensorBytes) {
    throw damaged(path_, fmt::format("it claims {} tensors, more than fit", tensor_count));
  }
  parse_metadata(cursor, value_count);
  for (std::uint64_t i = 0; i < tensor_count; ++i) parse_tensor_entry(cursor, i);

  const auto alignment = integer("general.alignment").value_or(kDefaultAlignment);
  if (alignment <= 0 || static_cast<std::uint64_t>(alignment) > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    throw damaged(path_, fmt::format("general.alignment is {}, not a power of two up to {}",
                                     alignment, kMaxAlignment));
  }
  place_tensors(cursor.offset(), static_cast<std::uint64_t>(alignment));
}

void GgufFile::parse_metadata(Cursor& cursor, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    cursor.what = fmt::format("the name of metadata key {}", i);
    const std::string_view key = cursor.read_string();
    cursor.what = fmt::format("the metadata key {}", shown(key));
    const auto type = cursor.read<std::uint32_t>();
    const Value value{type, cursor.offset()};
    skip_value(cursor, type, 0);
    if (!values_.emplace(key, value).second) {
      throw damaged(path_, fmt::format("the metadata key {} appears twice", shown(key)));
    }
  }
}

void GgufFile::skip_value(Cursor& cursor, std::uint32_t type, int depth) const {
  if (const auto size = scalar_bytes(type); size != 0) {
    cursor.skip(size);
  } else if (type == kString) {
    cursor.read_string();
  } else if (type == kArray) {
    if (depth >= kMaxArrayDepth) {
      throw damaged(path_,
                    fmt::format("{} nests arrays deeper than {}", cursor.what, kMaxArrayDepth));
    }
    const auto element_type = cursor.read<std::uint32_t>();
    const auto count = cursor.read<std::uint64_t>();
    if (element_type > kFloat64) {
      throw damaged(path_, fmt::format("{} is a list of the unknown value type {}", cursor.what,
                                       element_type));
    }
    if (const auto element_bytes = scalar_bytes(element_type); element_bytes != 0) {
      if (count > cursor.remaining() / element_bytes) {
        throw damaged(path_,
                      fmt::format("{} claims {} elements, more than fit", cursor.what, count));
      }
      cursor.skip(count * element_bytes);
    } else {
      // Each element takes bytes, so that a wrong count ends at the end of the file.
      for (std::uint64_t i = 0; i < count; ++i) skip_value(cursor, element_type, depth + 1);
    }
  } else {
    throw damaged(path_, fmt::format("{} has the unknown value type {}", cursor.what, type));
  }
}

void GgufFile::parse_tensor_entry(Cursor& cursor, std::uint64_t index) {
  cursor.what = fmt::format("the name of tensor {}", index);
  GgufTensor tensor;
  tensor.name = cursor.read_string();
  const std::string name = fmt::format("the tensor {}", shown(tensor.name));
  cursor.what = name;

  const auto num_dims = cursor.read<std::uint32_t>();
  if (num_dims == 0 || num_dims > kMaxDims) {
    throw damaged(path_,
                  fmt::format("{} has {} dimensions, not 1 to {}", name, num_dims, kMaxDims));
  }
  tensor.num_elements = 1;
  tensor.shape.resize(num_dims);
  for (std::uint32_t d = 0; d < num_dims; ++d) {
    const auto size = cursor.read<std::uint64_t>();
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (size == 0 || size > kMax / static_cast<std::uint64_t>(tensor.num_elements)) {
      throw damaged(path_, fmt::format("{} has an impossible dimension {}", name, size));
    }
    tensor.shape[num_dims - 1 - d] = static_cast<std::int64_t>(size);
    tensor.num_elements *= static_cast<std::int64_t>(size);
  }
  const auto type_number = cursor.read<std::uint32_t>();
  const auto type = known_type(type_number);
  if (!type) {
    throw unsupported(path_, fmt::format("{} has the element type number {}", name, type_number),
                      "use a file in F32, F16, BF16, Q8_0, Q4_0 or Q4_1");
  }
  tensor.type = *type;
  tensor_offsets_.push_back(cursor.read<std::uint64_t>());
  if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
    throw damaged(path_, fmt::format("{} appears twice", name));
  }
  tensors_.push_back(std::move(tensor));
}

void GgufFile::place_tensors(std::size_t data_begin, std::uint64_t alignment) {
  const std::uint64_t begin = (data_begin + alignment - 1) / alignment * alignment;
  const std::uint64_t available = bytes_.size() > begin ? bytes_.size() - begin : 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    GgufTensor& tensor = tensors_[i];
    const std::string name = fmt::format("the tensor {}", shown(tensor.name));
    const GgufBlock block = gguf_block(tensor.type);
    if (tensor.shape.back() % block.elements != 0) {
      throw damaged(path_, fmt::format("{} has rows of {} elements, not a multiple of {}", name,
                                       tensor.shape.back(), block.elements));
    }
    const auto blocks = static_cast<std::uint64_t>(tensor.num_elements / block.elements);
    const std::uint64_t offset = tensor_offsets_[i];
    if (offset % alignment != 0) {
      throw damaged(path_,
                    fmt::format("{} begins at {}, not a multiple of {}", name, offset, alignment));
    }
    // Divided, not multiplied: neither side can overflow.
    if (offset > available ||
        blocks > (available - offset) / static_cast<std::uint64_t>(block.bytes)) {
      throw damaged(path_, fmt::format("{} reaches beyond the end of the file", name));
    }
    tensor.data = bytes_.subspan(begin + offset, blocks * static_cast<std::uint64_t>(block.bytes));
  }
}

const GgufFile::Value* GgufFile::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

bool GgufFile::has(std::string_view key) const { return find(key) != nullptr; }

std::int64_t GgufFile::read_integer(Cursor& cursor, std::uint32_t type,
                                    std::string_view key) const {
  switch (type) {
    case kUint8:
      return cursor.read<std::uint8_t>();
    case kInt8:
      return cursor.read<std::int8_t>();
    case kUint16:
      return cursor.read<std::uint16_t>();
    case kInt16:
      return cursor.read<std::int16_t>();
    case kUint32:
      return cursor.read<std::uint32_t>();
    case kInt32:
      return cursor.read<std::int32_t>();
    case kBool:
      return cursor.read<std::uint8_t>() != 0 ? 1 : 0;
    case kInt64:
      return cursor.read<std::int64_t>();
    case kUint64: {
      const auto value = cursor.read<std::uint64_t>();
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        throw damaged(path_,
                      fmt::format("the metadata key {} is {}, beyond any use", shown(key), value));
      }
      return static_cast<std::int64_t>(value);
    }
    default:
      throw damaged(path_, fmt::format("the metadata key {} is not an integer", shown(key)));
  }
}

std::optional<std::int64_t> GgufFile::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  return read_integer(cursor, value->type, key);
}

std::optional<double> GgufFile::real(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type == kFloat32) return cursor.read<float>();
  if (value->type == kFloat64) return cursor.read<double>();
  throw damaged(path_,
                fmt::format("the metadata key {} is not a floating-point number", shown(key)));
}

std::optional<std::string> GgufFile::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->type != kString) {
    throw damaged(path_, fmt::format("the metadata key {} is not a string", shown(key)));
  }
  return std::string(cursor_at(value->offset, key).read_string());
}

std::optional<std::vector<std::string>> GgufFile::texts(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type != kArray || cursor.read<std::uint32_t>() != kString) {
    throw damaged(path_, fmt::format("the metadata key {} is not a list of strings", shown(key)));
  }
  // parse() walked this array, so its count is one that the file holds.
  const auto count = cursor.read<std::uint64_t>();
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) texts.emplace_back(cursor.read_string());
  return texts;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  Cursor cursor = cursor_at(value->offset, key);
  if (value->type != kArray) {
    throw damaged(path_, fmt::format("the metadata key {} is not a list", shown(key)));
  }
  const auto element_type = cursor.read<std::uint32_t>();
  const auto count = cursor.read<std::uint64_t>();
  std::vector<std::int64_t> numbers;
  if (scalar_bytes(element_type) != 0) numbers.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    numbers.push_back(read_integer(cursor, element_type, key));
  }
  return numbers;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace kvloupe::capture
