// A small layer over the HDF5 C interface: handles that close themselves, one lock, checked reads.
// Included by .cpp files of this folder only.
#pragma once

#include "core/trace/hdf5/defect.h"
#include "core/trace/hdf5/load_budget.h"

#include <hdf5.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::trace::h5 {

// Held around every use of the library. It also silences the library's own error printing and
// forbids it to load filter plug-ins that a file asks for.
class Lock {
 public:
  Lock();

 private:
  std::lock_guard<std::recursive_mutex> guard_;
};

// How values are moved. HDF5 1.14.5 ruins the heap when it cannot have the memory that it converts
// values in, so it is given ours, which can fail with a std::bad_alloc.
hid_t transfer();

class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) : id_(id) {}
  ~Handle() { reset(); }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, H5I_INVALID_HID);
    }
    return *this;
  }

  hid_t get() const { return id_; }
  explicit operator bool() const { return id_ >= 0; }
  void reset();

 private:
  hid_t id_ = H5I_INVALID_HID;
};

// The library's account of the last failure: the system's message where there is one.
std::string failure_reason();
// Wraps an identifier or throws Defect "cannot <action>: <reason>".
Handle checked(hid_t id, const std::string& action);
void checked_status(herr_t status, const std::string& action);

// How a value of the type lies in memory.
inline hid_t native_type(std::uint8_t) { return H5T_NATIVE_UINT8; }
inline hid_t native_type(std::uint16_t) { return H5T_NATIVE_UINT16; }
inline hid_t native_type(std::int32_t) { return H5T_NATIVE_INT32; }
inline hid_t native_type(std::int64_t) { return H5T_NATIVE_INT64; }
inline hid_t native_type(std::uint64_t) { return H5T_NATIVE_UINT64; }
inline hid_t native_type(float) { return H5T_NATIVE_FLOAT; }
inline hid_t native_type(double) { return H5T_NATIVE_DOUBLE; }
// IEEE 754 binary16, little endian; HDF5 1.10 has no name for it.
hid_t half_type();
hid_t string_type();  // variable-length UTF-8

// --- reading
// ---------------------------------------------------------------------------------------

// Opens without file locks, so that a capture that still writes can be looked at. A Defect for all
// but regular files: a FIFO would wait for ever.
Handle open_file_for_reading(const std::string& path);
// Its path in the file.
std::string name_of(hid_t object);
// `path` may have several components; each must be a hard link, so nothing outside the file is ever
// reached.
bool has_object(hid_t at, const std::string& path);
Handle open_group(hid_t at, const std::string& path);
// Names that are decimal numbers without leading zeros, ascending; other names are passed over.
std::vector<int> numbered_members(hid_t group);

// Absent attributes give nullopt, those of a wrong type or shape a Defect.
std::optional<std::string> string_attribute(hid_t object, const std::string& name);
std::optional<std::vector<std::string>> strings_attribute(hid_t object, const std::string& name);
std::optional<std::int64_t> int_attribute(hid_t object, const std::string& name);
std::optional<double> double_attribute(hid_t object, const std::string& name);
// A vector of any length up to 65,536, or a scalar as a vector of one.
std::optional<std::vector<float>> floats_attribute(hid_t object, const std::string& name);

enum class ValueClass { Integer, Float, Compound };

// A dataset whose class and rank are what the caller expects and whose values lie in this file.
class Dataset {
 public:
  Dataset() = default;
  // Throws Defect when absent, of another class or rank, virtual or external.
  static Dataset open(hid_t at, const std::string& path, ValueClass value_class, int rank);

  const std::string& path() const { return path_; }
  const std::vector<hsize_t>& dims() const { return dims_; }
  hid_t id() const { return id_.get(); }
  explicit operator bool() const { return static_cast<bool>(id_); }
  // A Defect unless the file can really hold `bytes` of this dataset: called before anything of
  // that size is allocated, for a dataset may claim any extent.
  void require_stored(std::uint64_t bytes) const;
  std::size_t stored_size() const { return stored_size_; }  // of one value, in the file
  // Reads a box into `out`; the box must lie inside the extent. The LoadBudget pays.
  void read(hid_t memory_type, const std::vector<hsize_t>& start, const std::vector<hsize_t>& count,
            void* out) const;

  // Elements [begin, begin+count) of a vector.
  template <typename T>
  std::vector<T> read_range(std::uint64_t begin, std::uint64_t count) const {
    require_inside(begin, count);
    return read_box<T>({begin}, {count});
  }
  // The box, which must lie inside the extent, in row-major order.
  template <typename T>
  std::vector<T> read_box(const std::vector<hsize_t>& start,
                          const std::vector<hsize_t>& count) const {
    const std::uint64_t size = product_of(count);
    require_stored(saturating_product(size, stored_size_));
    LoadBudget::require(saturating_product(size, sizeof(T)), path_.c_str());
    std::vector<T> values(size);
    if (size > 0) read(native_type(T()), start, count, values.data());
    return values;
  }

 private:
  void require_inside(std::uint64_t begin, std::uint64_t count) const;
  static std::uint64_t saturating_product(std::uint64_t a, std::uint64_t b) {
    return b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b
               ? std::numeric_limits<std::uint64_t>::max()
               : a * b;
  }
  static std::uint64_t product_of(const std::vector<hsize_t>& factors) {
    std::uint64_t product = 1;
    for (const hsize_t factor : factors) product = saturating_product(product, factor);
    return product;
  }
  void pay(hid_t memory_type, const std::vector<hsize_t>& start,
           const std::vector<hsize_t>& count) const;

  Handle id_;
  std::string path_;
  std::vector<hsize_t> dims_;
  std::uint64_t stored_size_ = 0;      // bytes of one element in the file
  std::vector<hsize_t> packed_chunk_;  // the extents of a storage chunk; empty without filters
  // Bytes of values that the storage can expand to. Found when first asked for: it walks the index.
  mutable std::optional<std::uint64_t> storage_limit_;
};

// --- writing
// ---------------------------------------------------------------------------------------

void write_attribute(hid_t object, const std::string& name, const std::string& value);
void write_attribute(hid_t object, const std::string& name, std::int64_t value);
void write_attribute(hid_t object, const std::string& name, double value);
void write_attribute(hid_t object, const std::string& name, const std::vector<std::string>& values);
void write_attribute(hid_t object, const std::string& name, const std::vector<float>& values);
inline void write_attribute(hid_t object, const std::string& name, const char* value) {
  write_attribute(object, name, std::string(value));
}
inline void write_attribute(hid_t object, const std::string& name, int value) {
  write_attribute(object, name, static_cast<std::int64_t>(value));
}
Handle create_group(hid_t at, const std::string& path);
void read_box(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& start,
              const std::vector<hsize_t>& count, void* out);
void write_box(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& start,
               const std::vector<hsize_t>& count, const void* data);

}  // namespace kvloupe::trace::h5
