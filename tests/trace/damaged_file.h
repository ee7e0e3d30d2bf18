// Editing a sound trace with HDF5 behind the writer's back, and what readers and validate say of it.
#pragma once

#include "core/base/error.h"
#include "core/trace/hdf5/hdf5.h"
#include "tests/trace/hdf5_edits.h"
#include "tests/trace/trace_fixture.h"

#include <gtest/gtest.h>

#include <functional>

namespace kvloupe::trace::testing {

namespace fs = std::filesystem;
using Edit = std::function<void(hid_t)>;

// Edits copies of one sound file.
class DamagedFileTest : public ::testing::Test {
 protected:
  explicit DamagedFileTest(const ReferenceTrace& reference) { write_trace(sound_, reference); }

  fs::path edited(const Edit& edit) const {
    const fs::path path = folder_ / "edited.h5";
    fs::copy_file(sound_, path, fs::copy_options::overwrite_existing);
    const h5::Lock lock;
    const h5::Handle file =
        h5::checked(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), "open for editing");
    edit(file.get());
    return path;
  }
  // Opening throws a sentence that has `word` in it.
  void expect_refused(const char* word, const Edit& edit) const {
    const fs::path path = edited(edit);
    try {
      const TraceReader reader(path);
      ADD_FAILURE() << "opened in spite of: " << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
    EXPECT_FALSE(validate_trace(path).empty());
  }
  // The file opens, everything can be asked for, and validate names `word`.
  void expect_defect(const char* word, const Edit& edit) const {
    const fs::path path = edited(edit);
    EXPECT_NO_THROW(TraceReader{path}) << word;
    read_everything(path);
    std::string all;
    for (const auto& defect : validate_trace(path)) all += defect + "\n";
    EXPECT_NE(all.find(word), std::string::npos) << word << " is not in: " << all;
  }

  const TemporaryFolder folder_;
  const fs::path sound_ = folder_ / "sound.h5";
};

inline void set_attribute(hid_t file, const char* object, const char* name, const auto& value) {
  H5Adelete_by_name(file, object, name, H5P_DEFAULT);
  const h5::Handle at = h5::checked(H5Oopen(file, object, H5P_DEFAULT), "open");
  h5::write_attribute(at.get(), name, value);
}

template <typename T>
void set_value(hid_t file, const char* path, const std::vector<hsize_t>& index, T value) {
  const h5::Handle dataset = h5::checked(H5Dopen2(file, path, H5P_DEFAULT), "open");
  h5::write_box(dataset.get(), h5::native_type(T()), index, std::vector<hsize_t>(index.size(), 1),
                &value);
}

}  // namespace kvloupe::trace::testing
