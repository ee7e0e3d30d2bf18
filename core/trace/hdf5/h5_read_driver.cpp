#include "core/trace/hdf5/h5_read_driver.h"

#include <H5FDdevelop.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

namespace kvloupe::trace::h5 {
namespace {

struct OpenFile {
  H5FD_t base;  // the library's own part, first
  int descriptor;
  haddr_t eoa, eof;
};

OpenFile& of(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& of(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_driver(const char* name, unsigned flags, hid_t, haddr_t) {
  if ((flags & H5F_ACC_RDWR) != 0) return nullptr;
  const int descriptor = ::open(name, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat status = {};
  auto* file = ::fstat(descriptor, &status) == 0 ? new (std::nothrow) OpenFile{} : nullptr;
  if (file == nullptr) {
    ::close(descriptor);
    return nullptr;
  }
  file->descriptor = descriptor;
  file->eof = static_cast<haddr_t>(status.st_size);
  return &file->base;
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

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return of(file).eof; }

// What lies behind the end reads as zeros, as with the library's own driver.
herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* out) {
  auto* bytes = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = ::pread(of(file).descriptor, bytes, size, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) {
      std::memset(bytes, 0, size);
      return 0;
    }
    bytes += got;
    address += static_cast<haddr_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return 0;
}

herr_t write(H5FD_t*, H5FD_mem_t, hid_t, haddr_t, std::size_t, const void*) { return -1; }

// Without `cmp` every opening is a file of its own.
H5FD_class_t make_driver() {
  H5FD_class_t driver = {};
  driver.version = H5FD_CLASS_VERSION;
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 76);
  driver.name = "kvloupe reading";
  driver.maxaddr = std::numeric_limits<std::int64_t>::max();
  driver.fc_degree = H5F_CLOSE_STRONG;
  driver.open = open_driver;
  driver.close = close_driver;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.get_handle = get_handle;
  driver.read = read;
  driver.write = write;
  const H5FD_mem_t pools[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(pools), std::end(pools), driver.fl_map);
  return driver;
}

}  // namespace

void read_apart(const Handle& access) {
  static const H5FD_class_t driver = make_driver();
  static const hid_t registered = H5FDregister(&driver);
  checked_status(H5Pset_driver(access.get(), registered, nullptr), "prepare to open a file");
}

}  // namespace kvloupe::trace::h5
