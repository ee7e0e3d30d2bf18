// Handles, the lock, failure texts and writing helpers.
#include "core/trace/hdf5/hdf5.h"

#include <algorithm>
#include <memory>
#include <string_view>

namespace kvloupe::trace::h5 {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

herr_t keep_description(unsigned, const H5E_error2_t* error, void* result) {
  auto& text = *static_cast<std::string*>(result);
  const std::string_view description = error->desc ? error->desc : "";
  // The lowest layer quotes the system: "... error message = 'No space left on device', ...".
  constexpr std::string_view kMarker = "error message = '";
  if (const auto begin = description.find(kMarker); begin != std::string_view::npos) {
    const auto rest = description.substr(begin + kMarker.size());
    text = std::string(rest.substr(0, rest.find('\'')));
    return 1;
  }
  if (text.empty() && !description.empty()) text = std::string(description);
  return 0;
}

Handle scalar_space() { return checked(H5Screate(H5S_SCALAR), "describe a value"); }

void write_value(hid_t object, const std::string& name, hid_t type, const Handle& space,
                 const void* value) {
  const std::string action = "write the attribute " + name;
  Handle attribute;
  if (H5Aexists(object, name.c_str()) > 0) {
    attribute = checked(H5Aopen(object, name.c_str(), H5P_DEFAULT), action);
  } else {
    attribute = checked(
        H5Acreate2(object, name.c_str(), type, space.get(), H5P_DEFAULT, H5P_DEFAULT), action);
  }
  checked_status(H5Awrite(attribute.get(), type, value), action);
}

}  // namespace

Lock::Lock() : guard_(library_mutex()) {
  // The setting is per thread in a thread-safe library, hence each time.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  static const bool plugins_off = [] {
    H5PLset_loading_state(0);
    return true;
  }();
  static_cast<void>(plugins_off);
}

void Handle::reset() {
  if (id_ >= 0) H5Idec_ref(id_);
  id_ = H5I_INVALID_HID;
}

std::string failure_reason() {
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_description, &text);
  H5Eclear2(H5E_DEFAULT);
  return text.empty() ? "HDF5 gives no reason" : text;
}

Handle checked(hid_t id, const std::string& action) {
  if (id < 0) throw Defect("cannot " + action + ": " + failure_reason());
  return Handle(id);
}

void checked_status(herr_t status, const std::string& action) {
  if (status < 0) throw Defect("cannot " + action + ": " + failure_reason());
}

hid_t half_type() {
  static const hid_t type = [] {
    const hid_t made = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(made, 15, 10, 5, 0, 10);
    H5Tset_size(made, 2);
    H5Tset_ebias(made, 15);
    return made;
  }();
  return type;
}

hid_t string_type() {
  static const hid_t type = [] {
    const hid_t made = H5Tcopy(H5T_C_S1);
    H5Tset_size(made, H5T_VARIABLE);
    H5Tset_cset(made, H5T_CSET_UTF8);
    return made;
  }();
  return type;
}

void write_attribute(hid_t object, const std::string& name, const std::string& value) {
  const char* text = value.c_str();
  write_value(object, name, string_type(), scalar_space(), &text);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value) {
  write_value(object, name, H5T_NATIVE_INT64, scalar_space(), &value);
}

void write_attribute(hid_t object, const std::string& name, double value) {
  write_value(object, name, H5T_NATIVE_DOUBLE, scalar_space(), &value);
}

void write_attribute(hid_t object, const std::string& name,
                     const std::vector<std::string>& values) {
  std::vector<const char*> texts;
  for (const auto& value : values) texts.push_back(value.c_str());
  // An attribute's shape cannot change.
  if (H5Aexists(object, name.c_str()) > 0) H5Adelete(object, name.c_str());
  const hsize_t count = texts.size();
  const Handle space = checked(H5Screate_simple(1, &count, nullptr), "describe " + name);
  write_value(object, name, string_type(), space, texts.data());
}

void write_attribute(hid_t object, const std::string& name, const std::vector<float>& values) {
  const hsize_t count = values.size();
  const Handle space = checked(H5Screate_simple(1, &count, nullptr), "describe " + name);
  write_value(object, name, H5T_IEEE_F32LE, space, values.data());
}

hid_t transfer() {
  constexpr std::size_t kBytes = 1 << 20;
  static std::vector<std::byte> converted(kBytes), background(kBytes);
  // Never closed: the library ends before what is static here.
  static const Handle* const list = [] {
    auto made =
        std::make_unique<Handle>(checked(H5Pcreate(H5P_DATASET_XFER), "prepare to move values"));
    checked_status(H5Pset_buffer(made->get(), kBytes, converted.data(), background.data()),
                   "prepare to move values");
    return made.release();
  }();
  return list->get();
}

Handle create_group(hid_t at, const std::string& path) {
  return checked(H5Gcreate2(at, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                 "create the group " + path);
}

void read_box(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& start,
              const std::vector<hsize_t>& count, void* out) {
  const std::string action = "read " + name_of(dataset);
  const Handle file_space = checked(H5Dget_space(dataset), action);
  checked_status(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr,
                                     count.data(), nullptr),
                 action);
  const Handle memory_space =
      checked(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), action);
  checked_status(
      H5Dread(dataset, memory_type, memory_space.get(), file_space.get(), transfer(), out), action);
}

void write_box(hid_t dataset, hid_t memory_type, const std::vector<hsize_t>& start,
               const std::vector<hsize_t>& count, const void* data) {
  if (std::find(count.begin(), count.end(), 0u) != count.end()) return;
  const Handle file_space = checked(H5Dget_space(dataset), "write values");
  checked_status(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_SET, start.data(), nullptr,
                                     count.data(), nullptr),
                 "write values");
  const Handle memory_space = checked(
      H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), "write values");
  checked_status(
      H5Dwrite(dataset, memory_type, memory_space.get(), file_space.get(), transfer(), data),
      "write values");
}

}  // namespace kvloupe::trace::h5
