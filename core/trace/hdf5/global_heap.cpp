// The global heap of the HDF5 file format, version 1 ("III.E. Disk Format: Level 1E").
#include "core/trace/hdf5/global_heap.h"

#include "core/trace/hdf5/read_at.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <span>

namespace kvloupe::trace::h5 {
namespace {

constexpr std::size_t kHeaderBytes = 16;  // of a collection and of an object in it
constexpr std::uint64_t kMaxCollectionBytes = 64 << 20;

std::uint64_t little_endian(const std::uint8_t* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count - 1; i >= 0; --i) value = value << 8 | bytes[i];
  return value;
}

// The conversion "reference as stored -> opaque bytes" leaves the bytes alone.
herr_t keep_bytes(hid_t source, hid_t target, H5T_cdata_t* data, size_t, size_t, size_t, void*,
                  void*, hid_t) {
  if (data->command != H5T_CONV_INIT) return 0;
  data->need_bkg = H5T_BKG_NO;
  const bool equal = H5Tget_size(source) == kRawReferenceBytes &&
                     H5Tget_size(target) == kRawReferenceBytes && H5Tis_variable_str(source) > 0;
  return equal ? 0 : -1;
}

// The open file below the library, for reads past it.
class RawFile {
 public:
  explicit RawFile(hid_t object) {
    const Handle file = checked(H5Iget_file_id(object), "find the file of a text");
    void* descriptor = nullptr;
    checked_status(H5Fget_vfd_handle(file.get(), H5P_DEFAULT, &descriptor), "read a text");
    descriptor_ = *static_cast<int*>(descriptor);
    const Handle plist = checked(H5Fget_create_plist(file.get()), "read a text");
    std::size_t address_bytes = 0;
    std::size_t length_bytes = 0;
    hsize_t user_block = 0;
    H5Pget_sizes(plist.get(), &address_bytes, &length_bytes);
    H5Pget_userblock(plist.get(), &user_block);
    if (address_bytes != 8 || length_bytes != 8) {
      throw Defect("its addresses are not of 8 bytes");
    }
    base_ = user_block;
    struct stat status;
    if (::fstat(descriptor_, &status) != 0 || static_cast<hsize_t>(status.st_size) < base_) {
      throw Defect("its size is unknown");
    }
    size_ = static_cast<std::uint64_t>(status.st_size) - base_;
  }

  // False when the file has no such bytes.
  bool read(std::uint64_t address, std::uint64_t count, std::uint8_t* out) const {
    if (address > size_ || count > size_ - address) return false;
    return read_at(descriptor_, base_ + address, std::as_writable_bytes(std::span(out, count))) ==
           count;
  }

 private:
  int descriptor_ = -1;
  std::uint64_t base_ = 0;
  std::uint64_t size_ = 0;
};

// A collection and where its objects' values stand in it, by their number.
struct Collection {
  std::vector<std::uint8_t> bytes;
  struct Value {
    std::uint64_t at = 0, size = 0;
  };
  std::vector<Value> values;  // at 0: no such object
};

// The bytes of the collection at `address`, empty when there is none.
std::vector<std::uint8_t> read_bytes(const RawFile& file, std::uint64_t address) {
  std::uint8_t header[kHeaderBytes];
  if (!file.read(address, kHeaderBytes, header)) return {};
  if (std::memcmp(header, "GCOL", 4) != 0 || header[4] != 1) return {};
  const std::uint64_t size = little_endian(header + 8, 8);
  if (size < kHeaderBytes || size > kMaxCollectionBytes) return {};
  LoadBudget::spend(size, "a collection of texts");
  std::vector<std::uint8_t> collection(size);
  if (!file.read(address, size, collection.data())) return {};
  return collection;
}

Collection read_collection(const RawFile& file, std::uint64_t address) {
  Collection collection{read_bytes(file, address), {}};
  const auto& bytes = collection.bytes;
  std::uint64_t at = kHeaderBytes;
  while (bytes.size() >= kHeaderBytes && at <= bytes.size() - kHeaderBytes) {
    const std::uint64_t index = little_endian(bytes.data() + at, 2);
    const std::uint64_t size = little_endian(bytes.data() + at + 8, 8);
    at += kHeaderBytes;
    if (index == 0 || size > bytes.size() - at) break;
    if (index >= collection.values.size()) collection.values.resize(index + 1);
    auto& value = collection.values[index];
    if (value.at == 0) value = {at, size};
    at += (size + 7) / 8 * 8;
  }
  return collection;
}

// The text of one object, or nothing where the collection has no such object.
std::optional<std::string> find_text(const Collection& collection, const HeapReference& reference) {
  if (reference.index >= collection.values.size()) return std::nullopt;
  const auto& value = collection.values[reference.index];
  if (value.at == 0 || reference.length > value.size) return std::nullopt;
  LoadBudget::spend(reference.length, "a text");
  const auto* begin = reinterpret_cast<const char*>(collection.bytes.data() + value.at);
  std::string text(begin, reference.length);
  return text.substr(0, text.find('\0'));
}

}  // namespace

hid_t raw_reference_type() {
  static const hid_t type = [] {
    const hid_t made = H5Tcreate(H5T_OPAQUE, kRawReferenceBytes);
    H5Tregister(H5T_PERS_SOFT, "raw text reference", string_type(), made, keep_bytes);
    return made;
  }();
  return type;
}

std::vector<HeapReference> parse_references(const std::vector<std::uint8_t>& raw) {
  std::vector<HeapReference> references;
  for (std::size_t at = 0; at + kRawReferenceBytes <= raw.size(); at += kRawReferenceBytes) {
    references.push_back({static_cast<std::uint32_t>(little_endian(raw.data() + at, 4)),
                          little_endian(raw.data() + at + 4, 8),
                          static_cast<std::uint32_t>(little_endian(raw.data() + at + 12, 4))});
  }
  return references;
}

std::vector<std::string> read_heap_texts(hid_t object, const std::vector<HeapReference>& references,
                                         const std::string& what) {
  const RawFile file(object);
  std::vector<std::string> texts(references.size());
  // By collection, so that each is read once, in whatever order they are referred to.
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < references.size(); ++i) {
    if (references[i].length > kMaxTextBytes) throw Defect(what + " is longer than 1 MiB");
    if (references[i].length > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return references[a].address < references[b].address;
  });
  std::optional<std::uint64_t> loaded_address;
  Collection collection;
  for (const std::size_t i : order) {
    if (loaded_address != references[i].address) {
      collection = read_collection(file, references[i].address);
      loaded_address = references[i].address;
    }
    auto text = find_text(collection, references[i]);
    if (!text) throw Defect(fmt::format("{} has a text that is not in the file", what));
    texts[i] = std::move(*text);
  }
  return texts;
}

}  // namespace kvloupe::trace::h5
