// A reader of R's XDR serialisation, for the few types that a database of text needs. Every length
// is checked against the bytes left before it is used.
#include "capture/tasks/r_data.h"

#include "core/base/error.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace kvloupe::capture {
namespace {

// SEXP types and pseudo types of the format.
constexpr std::uint32_t kSymbol = 1, kPairList = 2, kCharacters = 9, kLogical = 10, kInteger = 13,
                        kReal = 14, kStrings = 16, kList = 19, kGlobalEnv = 253, kNull = 254,
                        kReference = 255;
constexpr std::uint32_t kHasAttributes = 1u << 9, kHasTag = 1u << 10;
// Bit of the levels field (flags >> 12) of a CHARSXP.
constexpr std::uint32_t kLatin1 = 1u << 2;
constexpr int kMaxDepth = 64;
// Far above any novel; stops a hostile stream from filling memory.
constexpr std::size_t kMaxInflated = std::size_t{256} << 20;

[[noreturn]] void fail(const std::string& origin, const std::string& why) {
  throw input_error(fmt::format("cannot read the text corpus {}", origin), why,
                    "delete the data folder of the dependency cache and run ./kvloupe.sh again");
}

// zlib or gzip, told apart by the header.
std::string inflate_all(std::string_view data, const std::string& origin) {
  z_stream stream{};
  if (inflateInit2(&stream, MAX_WBITS + 32) != Z_OK) fail(origin, "zlib could not be started");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  std::string result;
  char piece[1 << 16];
  int status = Z_OK;
  while (status == Z_OK && result.size() <= kMaxInflated) {
    stream.next_out = reinterpret_cast<Bytef*>(piece);
    stream.avail_out = sizeof piece;
    status = inflate(&stream, Z_NO_FLUSH);
    result.append(piece, sizeof piece - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) fail(origin, "its compressed data are damaged or too large");
  return result;
}

std::string utf8_from_latin1(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      result += c;
    } else {
      result += static_cast<char>(0xC0 | (byte >> 6));
      result += static_cast<char>(0x80 | (byte & 0x3F));
    }
  }
  return result;
}

// One R value; only the member that belongs to its type is filled.
struct Value {
  std::vector<std::string> strings;
  std::vector<double> numbers;
  std::vector<Value> items;  // list
  std::vector<std::string> names;
};

class Unserialiser {
 public:
  Unserialiser(std::string_view data, const std::string& origin) : data_(data), origin_(origin) {}

  Value read() {
    if (take(2) != "X\n") fail(origin_, "it is not R's binary XDR format");
    const std::uint32_t version = u32();
    u32(), u32();  // the R versions that wrote it and that may read it
    if (version == 3) {
      take(u32());  // the native encoding; strings carry their own
    } else if (version != 2) {
      fail(origin_, fmt::format("it has serialisation version {}; 2 and 3 are known", version));
    }
    return item(0);
  }

 private:
  std::string_view take(std::size_t count) {
    if (count > data_.size() - at_) fail(origin_, "it ends too early");
    const std::string_view bytes = data_.substr(at_, count);
    at_ += count;
    return bytes;
  }

  std::uint32_t u32() {
    std::uint32_t value = 0;
    for (const char c : take(4)) value = value << 8 | static_cast<unsigned char>(c);
    return value;
  }

  double f64() {
    std::uint64_t bits = u32();
    bits = bits << 32 | u32();
    double value;
    static_assert(sizeof value == sizeof bits);
    std::copy_n(reinterpret_cast<const char*>(&bits), sizeof bits, reinterpret_cast<char*>(&value));
    return value;
  }

  // A vector length, each element of which takes at least `min_bytes`.
  std::size_t length(std::size_t min_bytes) {
    const std::uint32_t count = u32();
    if (count > (data_.size() - at_) / min_bytes) fail(origin_, "a vector is longer than the data");
    return count;
  }

  std::string characters(std::uint32_t flags) {
    const std::uint32_t size = u32();
    if (size == 0xFFFFFFFFu) return {};  // NA
    std::string text(take(size));
    return (flags >> 12) & kLatin1 ? utf8_from_latin1(text) : text;
  }

  std::string string_item() {
    const std::uint32_t flags = u32();
    if ((flags & 0xFF) != kCharacters) fail(origin_, "a character vector holds something else");
    return characters(flags);
  }

  std::string symbol(std::uint32_t flags) {
    const std::uint32_t type = flags & 0xFF;
    if (type == kSymbol) {
      symbols_.push_back(string_item());
      return symbols_.back();
    }
    if (type != kReference) fail(origin_, "a name was expected");
    const std::uint32_t index = flags >> 8 ? flags >> 8 : u32();
    if (index == 0 || index > symbols_.size()) fail(origin_, "a name refers to nothing");
    return symbols_[index - 1];
  }

  // Attributes stand behind the value as a pair list; only "names" matters here.
  void attributes(Value& value, int depth) {
    for (;;) {
      const std::uint32_t flags = u32();
      if ((flags & 0xFF) == kNull) return;
      if ((flags & 0xFF) != kPairList) fail(origin_, "attributes are not a list");
      const std::string tag = flags & kHasTag ? symbol(u32()) : std::string();
      Value attribute = item(depth + 1);
      if (tag == "names") value.names = std::move(attribute.strings);
    }
  }

  Value item(int depth) {
    if (depth > kMaxDepth) fail(origin_, "it is nested too deeply");
    const std::uint32_t flags = u32();
    Value value;
    switch (flags & 0xFF) {
      case kNull:
      case kGlobalEnv: return value;
      case kLogical:
      case kInteger:
        for (std::size_t left = length(4); left > 0; --left) {
          value.numbers.push_back(static_cast<std::int32_t>(u32()));
        }
        break;
      case kReal:
        for (std::size_t left = length(8); left > 0; --left) value.numbers.push_back(f64());
        break;
      case kStrings:
        for (std::size_t left = length(8); left > 0; --left) value.strings.push_back(string_item());
        break;
      case kList:
        for (std::size_t left = length(4); left > 0; --left) value.items.push_back(item(depth + 1));
        break;
      default: fail(origin_, fmt::format("it holds an R value of type {}", flags & 0xFF));
    }
    if (flags & kHasAttributes) attributes(value, depth);
    return value;
  }

  std::string_view data_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::vector<std::string> symbols_;
};

// The list element of that name.
const Value& member(const Value& list, const std::string& name, const std::string& origin) {
  const auto found = std::find(list.names.begin(), list.names.end(), name);
  const auto at = static_cast<std::size_t>(found - list.names.begin());
  if (at >= list.items.size()) fail(origin, "its index has no '" + name + "'");
  return list.items[at];
}

std::string_view slice_of(const Value& where, std::string_view database,
                          const std::string& origin) {
  if (where.numbers.size() != 2) fail(origin, "an index entry is not an offset and a length");
  const double offset = where.numbers[0], length = where.numbers[1];
  const auto size = static_cast<double>(database.size());
  if (!(offset >= 0 && length >= 4 && offset + length <= size)) {
    fail(origin, "an index entry lies outside the database");
  }
  // The first 4 bytes give the inflated size, which zlib's own end marker makes needless.
  return database.substr(static_cast<std::size_t>(offset) + 4,
                         static_cast<std::size_t>(length) - 4);
}

}  // namespace

std::map<std::string, std::vector<std::string>> read_r_database(std::string_view index,
                                                                std::string_view database,
                                                                const std::string& origin) {
  const std::string inflated_index = inflate_all(index, origin);
  const Value root = Unserialiser(inflated_index, origin).read();
  const Value& compressed = member(root, "compressed", origin);
  if (compressed.numbers.size() != 1 || compressed.numbers[0] != 1) {
    fail(origin, "it is not compressed by zlib");
  }
  const Value& variables = member(root, "variables", origin);
  if (variables.names.size() != variables.items.size())
    fail(origin, "its index has unnamed entries");

  std::map<std::string, std::vector<std::string>> result;
  for (std::size_t i = 0; i < variables.items.size(); ++i) {
    const std::string data = inflate_all(slice_of(variables.items[i], database, origin), origin);
    Value value = Unserialiser(data, origin).read();
    if (!value.strings.empty()) result.emplace(variables.names[i], std::move(value.strings));
  }
  return result;
}

}  // namespace kvloupe::capture
