// After "III. Disk Format: Level 1" of the HDF5 file format, version 1 and 2.
#include "tests/trace/hdf5_structure.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace kvloupe::trace::testing {
namespace {

constexpr std::size_t kRootEntry = 56;  // of the superblock; the header's address stands 8 behind
constexpr std::size_t kSymbolEntryBytes = 40;
constexpr std::size_t kHeaderPrefixBytes = 16;
constexpr std::size_t kMessagePrefixBytes = 8;
constexpr unsigned kAttributeMessage = 0x0c;
constexpr unsigned kContinuationMessage = 0x10;

std::uint64_t number_at(const std::string& file, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>(file.at(at + i));
  }
  return value;
}

void set_number(std::string& file, std::size_t at, std::size_t width, std::uint64_t value) {
  for (std::size_t i = 0; i < width && at + i < file.size(); ++i, value >>= 8) {
    file[at + i] = static_cast<char>(value);
  }
}

std::vector<std::size_t> find_all(const std::string& file, std::string_view signature) {
  std::vector<std::size_t> found;
  for (auto at = file.find(signature); at != std::string::npos; at = file.find(signature, at + 1)) {
    found.push_back(at);
  }
  return found;
}

// The messages of one block of an object header; blocks that continue it are entered.
void find_messages(const std::string& file, std::size_t at, std::size_t end, Structure& found) {
  found.object_headers.push_back({at, end - at});
  while (at + kMessagePrefixBytes <= end) {
    const std::uint64_t type = number_at(file, at, 2);
    const std::uint64_t size = number_at(file, at + 2, 2);
    const std::size_t body = at + kMessagePrefixBytes;
    if (type == kAttributeMessage) found.attributes.push_back({body, size});
    if (type == kContinuationMessage) {
      const std::uint64_t next = number_at(file, body, 8);
      const bool entered = std::any_of(found.object_headers.begin(), found.object_headers.end(),
                                       [&](const Place& block) { return block.at == next; });
      if (!entered) find_messages(file, next, next + number_at(file, body + 8, 8), found);
    }
    at = body + size;
  }
}

void find_header(const std::string& file, std::size_t at, Structure& found) {
  found.object_headers.push_back({at, kHeaderPrefixBytes});
  const std::size_t messages = at + kHeaderPrefixBytes;
  find_messages(file, messages, messages + number_at(file, at + 8, 4), found);
}

template <typename T>
const T& any_of(const std::vector<T>& items, std::mt19937_64& random) {
  return items[random() % items.size()];
}

std::uint64_t odd_value(std::uint64_t present, std::size_t file_bytes, std::mt19937_64& random) {
  const std::array<std::uint64_t, 9> values = {0,
                                               1,
                                               std::numeric_limits<std::uint64_t>::max(),
                                               0x7fff7fff7fff7fffull,
                                               present + 1,
                                               present - 1,
                                               file_bytes - random() % 64,
                                               random() % file_bytes,
                                               random()};
  return values[random() % values.size()];
}

}  // namespace

Structure find_structure(const std::string& file) {
  Structure found;
  find_header(file, number_at(file, kRootEntry + 8, 8), found);
  for (const std::size_t at : find_all(file, "SNOD")) {
    const std::uint64_t count = number_at(file, at + 6, 2);
    found.symbol_nodes.push_back({at, 8 + count * kSymbolEntryBytes});
    for (std::uint64_t i = 0; i < count; ++i) {
      find_header(file, number_at(file, at + 8 + i * kSymbolEntryBytes + 8, 8), found);
    }
  }
  for (const std::size_t at : find_all(file, "TREE")) {
    const std::uint64_t entries = number_at(file, at + 6, 2);
    auto& trees = number_at(file, at + 4, 1) == 0 ? found.group_trees : found.chunk_indices;
    trees.push_back({at, 24 + 24 * (entries + 1)});
  }
  for (const std::size_t at : find_all(file, "HEAP")) found.local_heaps.push_back({at, 64});
  for (const std::size_t at : find_all(file, "GCOL")) found.global_heaps.push_back({at, 256});
  return found;
}

Damage damage_structure(const std::string& sound, const Structure& structure,
                        std::mt19937_64& random) {
  std::vector<std::pair<const char*, const std::vector<Place>*>> kinds = {
      {"object header", &structure.object_headers}, {"attribute", &structure.attributes},
      {"group tree", &structure.group_trees},       {"chunk index", &structure.chunk_indices},
      {"symbol node", &structure.symbol_nodes},     {"local heap", &structure.local_heaps},
      {"global heap", &structure.global_heaps}};
  std::erase_if(kinds, [](const auto& kind) { return kind.second->empty(); });
  const auto& [name, places] = any_of(kinds, random);
  Damage damage{sound, name};
  for (std::uint64_t fields = 1 + random() % 3; fields > 0; --fields) {
    const Place& place = any_of(*places, random);
    const std::size_t width = std::size_t{1} << random() % 4;
    // Fields stand at even places; the front of a structure holds its sizes.
    const std::size_t reach =
        random() % 2 == 0 ? std::min<std::size_t>(place.bytes, 24) : place.bytes;
    const std::size_t at = place.at + random() % std::max<std::size_t>(reach, 1) / width * width;
    if (at + width > sound.size()) continue;
    const std::uint64_t value = odd_value(number_at(sound, at, width), sound.size(), random);
    set_number(damage.bytes, at, width, value);
    damage.what += ", " + std::to_string(width) + " bytes at " + std::to_string(at) + " = " +
                   std::to_string(value);
  }
  return damage;
}

Damage damage_at_random(const std::string& sound, std::mt19937_64& random) {
  if (random() % 5 == 0) {
    const std::size_t size = random() % sound.size();
    return {sound.substr(0, size), "cut to " + std::to_string(size) + " bytes"};
  }
  Damage damage{sound, "random"};
  for (std::uint64_t flips = 1 + random() % 8; flips > 0; --flips) {
    // Half of the flips hit the front, where most of the structure is.
    const std::size_t at =
        random() % (flips % 2 == 0 ? std::min<std::size_t>(sound.size(), 8192) : sound.size());
    const auto value = static_cast<unsigned char>(random());
    damage.bytes[at] = static_cast<char>(value);
    damage.what += ", byte " + std::to_string(at) + " = " + std::to_string(value);
  }
  return damage;
}

}  // namespace kvloupe::trace::testing
