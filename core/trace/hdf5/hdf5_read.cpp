// Checked reading: nothing is followed out of the file, nothing is allocated on a file's word.
#include "core/trace/hdf5/hdf5.h"

#include "core/trace/hdf5/global_heap.h"
#include "core/trace/hdf5/h5_read_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

namespace kvloupe::trace::h5 {
namespace {

// A storage chunk larger than this would be unpacked as a whole for one row.
constexpr std::uint64_t kMaxStorageChunkBytes = 256ull << 20;
// deflate packs at most 1032 : 1.
constexpr std::uint64_t kMaxUnpackRatio = 1100;

// A link that cannot be looked up is damage, not absence.
bool is_hard_link(hid_t at, const std::string& path) {
  const htri_t there = H5Lexists(at, path.c_str(), H5P_DEFAULT);
  checked_status(there, "look up " + path);
  if (there == 0) return false;
  H5L_info_t info;
  checked_status(H5Lget_info(at, path.c_str(), &info, H5P_DEFAULT), "look up " + path);
  return info.type == H5L_TYPE_HARD;
}

std::string attribute_name(hid_t object, const std::string& name) {
  return fmt::format("the attribute {} of {}", name, name_of(object));
}

std::optional<Handle> open_attribute(hid_t object, const std::string& name) {
  const htri_t there = H5Aexists(object, name.c_str());
  checked_status(there, "look up " + attribute_name(object, name));
  if (there == 0) return std::nullopt;
  return checked(H5Aopen(object, name.c_str(), H5P_DEFAULT),
                 "open " + attribute_name(object, name));
}

hssize_t number_of_values(hid_t attribute) {
  const Handle space = checked(H5Aget_space(attribute), "read an attribute's shape");
  return H5Sget_simple_extent_npoints(space.get());
}

bool is_integer(H5T_class_t type) { return type == H5T_INTEGER || type == H5T_ENUM; }

// One integer (h5py's booleans are enumerations of them).
void require_scalar(hid_t attribute, const std::string& what, bool right_class,
                    const char* expected) {
  if (!right_class || number_of_values(attribute) != 1) {
    throw Defect(fmt::format("{} is not {}", what, expected));
  }
}

// Copies the values out. HDF5 takes `stored_size` bytes for each, which a damaged file need not have.
void read_attribute(hid_t attribute, hid_t type, std::size_t stored_size, void* out,
                    const std::string& what) {
  const auto values = static_cast<std::uint64_t>(number_of_values(attribute));
  if (stored_size == 0 || H5Aget_storage_size(attribute) / stored_size < values) {
    throw Defect(what + " holds fewer bytes than its type says");
  }
  checked_status(H5Aread(attribute, type, out), "read " + what);
}

std::vector<std::string> read_variable_texts(hid_t attribute, std::size_t count,
                                             const std::string& what) {
  std::vector<std::uint8_t> raw(count * kRawReferenceBytes);
  read_attribute(attribute, raw_reference_type(), kRawReferenceBytes, raw.data(), what);
  return read_heap_texts(attribute, parse_references(raw), what);
}

std::vector<std::string> read_fixed_texts(hid_t attribute, hid_t file_type, std::size_t count,
                                          const std::string& what) {
  const std::size_t size = H5Tget_size(file_type);
  if (size == 0 || size > kMaxTextBytes || count > kMaxTextBytes / size) {
    throw Defect(what + " is longer than 1 MiB");
  }
  std::string raw(size * count, '\0');
  read_attribute(attribute, file_type, size, raw.data(), what);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = raw.substr(i * size, size);
    if (const auto end = text.find('\0'); end != std::string::npos) text.resize(end);
    if (H5Tget_strpad(file_type) == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
    texts.push_back(std::move(text));
  }
  return texts;
}

std::vector<std::string> read_texts(hid_t object, const std::string& name, hid_t attribute) {
  const std::string what = attribute_name(object, name);
  const Handle type = checked(H5Aget_type(attribute), "read " + what);
  if (H5Tget_class(type.get()) != H5T_STRING) throw Defect(what + " is not a text");
  const hssize_t count = number_of_values(attribute);
  if (count < 0 || count > 65536) throw Defect(what + " has too many values");
  const auto size = static_cast<std::size_t>(count);
  if (size == 0) return {};
  return H5Tis_variable_str(type.get()) > 0 ? read_variable_texts(attribute, size, what)
                                            : read_fixed_texts(attribute, type.get(), size, what);
}

std::string shape_text(const std::vector<hsize_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

// How many bytes of values the dataset's storage can hold at most.
std::uint64_t storage_limit(hid_t dataset, const std::string& path, std::uint64_t element_size) {
  const Handle plist = checked(H5Dget_create_plist(dataset), "read the layout of " + path);
  const H5D_layout_t layout = H5Pget_layout(plist.get());
  if (layout == H5D_VIRTUAL || H5Pget_external_count(plist.get()) > 0) {
    throw Defect(path + " keeps its values in other files");
  }
  const std::uint64_t stored = H5Dget_storage_size(dataset);
  if (layout != H5D_CHUNKED) return stored;
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(plist.get(), H5S_MAX_RANK, chunk);
  if (rank < 0) throw Defect("cannot read the storage chunks of " + path);
  std::uint64_t bytes = element_size;
  for (int axis = 0; axis < rank; ++axis) {
    if (chunk[axis] == 0 || bytes > kMaxStorageChunkBytes / chunk[axis]) {
      throw Defect(path + " has storage chunks larger than 256 MiB");
    }
    bytes *= chunk[axis];
  }
  return H5Pget_nfilters(plist.get()) > 0 ? stored * kMaxUnpackRatio : stored;
}

// What every HDF5 library unpacks by itself (FORMAT.md).
void require_known_filters(hid_t plist, const std::string& path) {
  for (int i = 0; i < H5Pget_nfilters(plist); ++i) {
    unsigned flags = 0;
    std::size_t num_values = 0;
    char name[64] = "";
    const H5Z_filter_t filter = H5Pget_filter2(plist, static_cast<unsigned>(i), &flags, &num_values,
                                               nullptr, sizeof(name), name, nullptr);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE &&
        filter != H5Z_FILTER_FLETCHER32)
      throw Defect(
          fmt::format("{} is compressed by {}, which traces do not use", path,
                      *name != '\0' ? std::string(name) : fmt::format("filter {}", filter)));
  }
}

// Plain storage is read past the chunk cache: only the rows asked for are touched. Packed storage
// needs room for some unpacked chunks.
Handle open_with_cache(hid_t at, const std::string& path) {
  const std::string action = "open " + path;
  const Handle access = checked(H5Pcreate(H5P_DATASET_ACCESS), action);
  H5Pset_chunk_cache(access.get(), 1, 0, 0);
  Handle dataset = checked(H5Dopen2(at, path.c_str(), access.get()), action);
  const Handle plist = checked(H5Dget_create_plist(dataset.get()), action);
  if (H5Pget_nfilters(plist.get()) <= 0) return dataset;
  require_known_filters(plist.get(), path);
  dataset.reset();
  H5Pset_chunk_cache(access.get(), 521, 4 << 20, 1);
  return checked(H5Dopen2(at, path.c_str(), access.get()), action);
}

// The extents of a storage chunk where values are packed.
std::vector<hsize_t> packed_chunk_of(hid_t dataset, const std::string& path) {
  const Handle plist = checked(H5Dget_create_plist(dataset), "read the layout of " + path);
  if (H5Pget_layout(plist.get()) != H5D_CHUNKED || H5Pget_nfilters(plist.get()) <= 0) return {};
  hsize_t chunk[H5S_MAX_RANK];
  const int rank = H5Pget_chunk(plist.get(), H5S_MAX_RANK, chunk);
  if (rank < 0) throw Defect("cannot read the storage chunks of " + path);
  return {chunk, chunk + rank};
}

}  // namespace

Handle open_file_for_reading(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) throw Defect("it is no regular file");
  const Handle access = checked(H5Pcreate(H5P_FILE_ACCESS), "prepare to open a file");
  read_apart(access);
  H5Pset_file_locking(access.get(), false, true);
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  Handle file = checked(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "open the file");
  const Handle made = checked(H5Fget_create_plist(file.get()), "read how the file was made");
  std::size_t address = 0, length = 0;
  checked_status(H5Pget_sizes(made.get(), &address, &length), "read how the file was made");
  if (address != 8 || length != 8)
    throw Defect(
        fmt::format("its addresses and lengths are of {} and {} bytes, not of 8", address, length));
  return file;
}

std::string name_of(hid_t object) {
  char name[256] = "";
  H5Iget_name(object, name, sizeof(name));
  return name;
}

bool has_object(hid_t at, const std::string& path) {
  for (std::size_t end = path.find('/', 1); end != std::string::npos;
       end = path.find('/', end + 1)) {
    if (!is_hard_link(at, path.substr(0, end))) return false;
  }
  return is_hard_link(at, path);
}

Handle open_group(hid_t at, const std::string& path) {
  if (!has_object(at, path)) throw Defect(fmt::format("the group {} is missing", path));
  return checked(H5Gopen2(at, path.c_str(), H5P_DEFAULT), "open the group " + path);
}

std::vector<int> numbered_members(hid_t group) {
  std::vector<int> numbers;
  const auto visit = [](hid_t, const char* name, const H5L_info_t* info, void* out) -> herr_t {
    const std::string_view text = name;
    int number = -1;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool decimal = code == std::errc() && end == text.data() + text.size() && number >= 0 &&
                         (text.size() == 1 || text.front() != '0');
    if (decimal && info->type == H5L_TYPE_HARD)
      static_cast<std::vector<int>*>(out)->push_back(number);
    return 0;
  };
  checked_status(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, visit, &numbers),
                 "list the members of " + name_of(group));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<std::string> string_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const auto texts = read_texts(object, name, attribute->get());
  if (texts.size() != 1) throw Defect(attribute_name(object, name) + " is not one text");
  return texts.front();
}

std::optional<std::vector<std::string>> strings_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  return read_texts(object, name, attribute->get());
}

std::optional<std::int64_t> int_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const std::string what = attribute_name(object, name);
  const Handle type = checked(H5Aget_type(attribute->get()), "read " + what);
  require_scalar(attribute->get(), what, is_integer(H5Tget_class(type.get())), "one integer");
  std::int64_t value = 0;
  read_attribute(attribute->get(), H5T_NATIVE_INT64, H5Tget_size(type.get()), &value, what);
  return value;
}

std::optional<double> double_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const std::string what = attribute_name(object, name);
  const Handle type = checked(H5Aget_type(attribute->get()), "read " + what);
  const H5T_class_t type_class = H5Tget_class(type.get());
  require_scalar(attribute->get(), what, type_class == H5T_FLOAT || type_class == H5T_INTEGER,
                 "one number");
  double value = 0;
  read_attribute(attribute->get(), H5T_NATIVE_DOUBLE, H5Tget_size(type.get()), &value, what);
  return value;
}

std::optional<std::vector<float>> floats_attribute(hid_t object, const std::string& name) {
  const auto attribute = open_attribute(object, name);
  if (!attribute) return std::nullopt;
  const std::string what = attribute_name(object, name);
  const Handle type = checked(H5Aget_type(attribute->get()), "read " + what);
  const H5T_class_t type_class = H5Tget_class(type.get());
  if (type_class != H5T_FLOAT && type_class != H5T_INTEGER) {
    throw Defect(what + " holds no numbers");
  }
  const hssize_t count = number_of_values(attribute->get());
  if (count < 0 || count > 65536) throw Defect(what + " has too many values");
  std::vector<float> values(static_cast<std::size_t>(count));
  if (!values.empty()) {
    read_attribute(attribute->get(), H5T_NATIVE_FLOAT, H5Tget_size(type.get()), values.data(),
                   what);
  }
  return values;
}

Dataset Dataset::open(hid_t at, const std::string& path, ValueClass value_class, int rank) {
  Dataset dataset;
  dataset.path_ = path;
  if (!has_object(at, path)) throw Defect(fmt::format("the dataset {} is missing", path));
  dataset.id_ = open_with_cache(at, path);
  const Handle type = checked(H5Dget_type(dataset.id()), "read the type of " + path);
  const H5T_class_t type_class = H5Tget_class(type.get());
  const bool fits = (value_class == ValueClass::Integer && is_integer(type_class)) ||
                    (value_class == ValueClass::Float && type_class == H5T_FLOAT) ||
                    (value_class == ValueClass::Compound && type_class == H5T_COMPOUND);
  if (!fits) {
    constexpr const char* kNames[] = {"integers", "floating-point numbers", "records"};
    throw Defect(fmt::format("{} does not hold {}", path, kNames[static_cast<int>(value_class)]));
  }
  const Handle space = checked(H5Dget_space(dataset.id()), "read the shape of " + path);
  const int found_rank = H5Sget_simple_extent_ndims(space.get());
  if (found_rank != rank || H5Sget_simple_extent_type(space.get()) != H5S_SIMPLE) {
    throw Defect(fmt::format("{} has {} dimensions instead of {}", path, found_rank, rank));
  }
  dataset.dims_.resize(rank);
  H5Sget_simple_extent_dims(space.get(), dataset.dims_.data(), nullptr);
  dataset.stored_size_ = H5Tget_size(type.get());
  if (dataset.stored_size_ == 0) throw Defect(path + " has elements of no size");
  dataset.packed_chunk_ = packed_chunk_of(dataset.id(), path);
  return dataset;
}

void Dataset::require_stored(std::uint64_t bytes) const {
  if (!storage_limit_) storage_limit_ = storage_limit(id(), path_, stored_size_);
  if (bytes > *storage_limit_) {
    throw Defect(fmt::format("{} with shape {} holds only {} bytes where {} are needed", path_,
                             shape_text(dims_), *storage_limit_, bytes));
  }
}

void Dataset::require_inside(std::uint64_t begin, std::uint64_t count) const {
  if (begin > dims_.front() || count > dims_.front() - begin) {
    throw Defect(fmt::format("{} has {} entries where {} are needed", path_, dims_.front(),
                             saturating_product(1, begin) + count));
  }
}

// Values cost what they take in memory. A packed storage chunk is unpacked as a whole, again for
// each read, and must be affordable each time.
void Dataset::pay(hid_t memory_type, const std::vector<hsize_t>& start,
                  const std::vector<hsize_t>& count) const {
  const std::uint64_t size = std::max<std::uint64_t>(stored_size_, H5Tget_size(memory_type));
  if (product_of(count) == 0) return;
  std::uint64_t unpacked = stored_size_;
  for (std::size_t axis = 0; axis < std::min(packed_chunk_.size(), count.size()); ++axis) {
    const hsize_t extent = std::max<hsize_t>(packed_chunk_[axis], 1);
    const hsize_t chunks = (start[axis] + count[axis] - 1) / extent - start[axis] / extent + 1;
    unpacked = saturating_product(unpacked, saturating_product(chunks, extent));
  }
  if (!packed_chunk_.empty()) LoadBudget::require(unpacked, path_.c_str());
  LoadBudget::spend(saturating_product(product_of(count), size), path_.c_str());
}

void Dataset::read(hid_t memory_type, const std::vector<hsize_t>& start,
                   const std::vector<hsize_t>& count, void* out) const {
  pay(memory_type, start, count);
  h5::read_box(id(), memory_type, start, count, out);
}

}  // namespace kvloupe::trace::h5
