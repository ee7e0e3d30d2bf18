#include "core/trace/hdf5/h5_read_driver.h"

#include "core/trace/hdf5/h5_driver.h"
#include "core/trace/hdf5/read_at.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>

namespace kvloupe::trace::h5 {
namespace {

struct OpenFile {
  H5FD_t base;  // the library's own part, first
  int descriptor;
  haddr_t eoa;          // where the space ends that the library knows of
  mutable haddr_t eof;  // where the file ended when the library last asked
};

OpenFile& of(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& of(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

// Where failure_reason() finds it.
void tell(const char* reason) {
  H5Epush2(H5E_DEFAULT, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_IO, H5E_READERROR,
           "error message = '%s'", reason);
}

bool learn_end(const OpenFile& file) {
  struct stat status = {};
  if (::fstat(file.descriptor, &status) != 0) return false;
  file.eof = static_cast<haddr_t>(status.st_size);
  return true;
}

H5FD_t* open_driver(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  const int descriptor = ::open(name, O_RDONLY | O_CLOEXEC);
  auto* file = descriptor < 0 ? nullptr : new (std::nothrow) OpenFile{};
  if (file != nullptr) {
    file->descriptor = descriptor;
    if (learn_end(*file)) return &file->base;
  }
  tell(std::strerror(errno));
  delete file;
  if (descriptor >= 0) ::close(descriptor);
  return nullptr;
}

herr_t close_driver(H5FD_t* file) {
  ::close(of(file).descriptor);
  delete &of(file);
  return 0;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return of(file).eoa; }

herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).eoa = address;
  return 0;
}

// global_heap.cpp reads past the library.
herr_t get_handle(H5FD_t* file, hid_t, void** handle) {
  *handle = &of(file).descriptor;
  return 0;
}

// Asked once more after the superblock was read: a file that is being written has grown by then, and
// says so there.
haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) {
  return learn_end(of(file)) ? of(file).eof : HADDR_UNDEF;
}

// What lies behind the end reads as zeros, as with the library's own driver; but what was there once
// and was cut off is not taken for zeros.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* out) {
  const std::span bytes(static_cast<std::byte*>(out), size);
  const auto got = read_at(of(file).descriptor, address, bytes);
  if (!got) {
    tell(std::strerror(errno));
    return -1;
  }
  if (*got < size && address + *got < of(file).eof) {
    tell("another program cut the file meanwhile");
    return -1;
  }
  std::ranges::fill(bytes.subspan(*got), std::byte{0});
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

// Without `cmp` every opening is a file of its own.
H5FD_class_t make_driver() {
  H5FD_class_t driver = nameless_driver();
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 76);
  driver.name = "kvloupe reading";
  driver.open = open_driver;
  driver.close = close_driver;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.get_handle = get_handle;
  driver.read = read;
  driver.write = write;
  return driver;
}

}  // namespace

void read_apart(const Handle& access) {
  static const H5FD_class_t driver = make_driver();
  static const hid_t registered = H5FDregister(&driver);
  checked_status(H5Pset_driver(access.get(), registered, nullptr), "prepare to open a file");
}

}  // namespace kvloupe::trace::h5
