#include "core/trace/hdf5/compound.h"

#include "core/trace/hdf5/global_heap.h"

#include <fmt/format.h>

namespace kvloupe::trace::h5 {
namespace {

// Longer ones are no names.
constexpr std::size_t kMaxFixedText = 65536;

// The member's own type.
Handle type_of_member(const Dataset& dataset, const char* member, H5T_class_t wanted,
                      const char* noun) {
  const Handle type = checked(H5Dget_type(dataset.id()), "read " + dataset.path());
  const int index = H5Tget_member_index(type.get(), member);
  if (index < 0 || H5Tget_member_class(type.get(), static_cast<unsigned>(index)) != wanted)
    throw Defect(fmt::format("{} has no {} called {}", dataset.path(), noun, member));
  return checked(H5Tget_member_type(type.get(), static_cast<unsigned>(index)),
                 "read " + dataset.path());
}

// A type of this member alone, `size` bytes in memory.
Handle alone(const Dataset& dataset, const char* member, hid_t type, std::size_t size) {
  Handle compound = checked(H5Tcreate(H5T_COMPOUND, size), "read " + dataset.path());
  checked_status(H5Tinsert(compound.get(), member, 0, type), "read " + dataset.path());
  return compound;
}

template <typename T>
std::vector<T> read_numbers(const Dataset& dataset, const char* member, std::uint64_t count,
                            H5T_class_t wanted, const char* noun) {
  type_of_member(dataset, member, wanted, noun);
  const Handle type = alone(dataset, member, native_type(T()), sizeof(T));
  LoadBudget::require(count * sizeof(T), dataset.path().c_str());
  std::vector<T> values(count);
  if (count > 0) dataset.read(type.get(), {0}, {count}, values.data());
  return values;
}

}  // namespace

std::vector<std::string> read_member_texts(const Dataset& dataset, const char* member,
                                           std::uint64_t count) {
  const Handle stored = type_of_member(dataset, member, H5T_STRING, "texts");
  const bool variable = H5Tis_variable_str(stored.get()) > 0;
  const std::size_t size = variable ? kRawReferenceBytes : H5Tget_size(stored.get());
  if (size == 0 || size > kMaxFixedText)
    throw Defect(fmt::format("{} has a {} of more than 64 KiB", dataset.path(), member));
  const Handle type = alone(dataset, member, variable ? raw_reference_type() : stored.get(), size);
  LoadBudget::require(size * count, dataset.path().c_str());
  std::vector<std::uint8_t> raw(size * count);
  if (count > 0) dataset.read(type.get(), {0}, {count}, raw.data());
  if (variable) return read_heap_texts(dataset.id(), parse_references(raw), dataset.path());
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text(raw.begin() + static_cast<std::ptrdiff_t>(i * size),
                           raw.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
    texts.push_back(text.substr(0, text.find('\0')));
  }
  return texts;
}

std::vector<std::int64_t> read_member_integers(const Dataset& dataset, const char* member,
                                               std::uint64_t count) {
  return read_numbers<std::int64_t>(dataset, member, count, H5T_INTEGER, "integers");
}

std::vector<double> read_member_floats(const Dataset& dataset, const char* member,
                                       std::uint64_t count) {
  return read_numbers<double>(dataset, member, count, H5T_FLOAT, "floats");
}

}  // namespace kvloupe::trace::h5
