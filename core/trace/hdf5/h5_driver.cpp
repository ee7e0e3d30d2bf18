// The callbacks that HDF5 asks of a driver, over a DiskFile.
#include "core/trace/hdf5/h5_driver.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

namespace kvloupe::trace::h5 {
namespace {

struct OpenFile {
  H5FD_t base;  // the library's own part, first
  DiskFile* disk;
  haddr_t eoa;  // where the space that the library has allocated ends
};

OpenFile& of(H5FD_t* file) { return *reinterpret_cast<OpenFile*>(file); }
const OpenFile& of(const H5FD_t* file) { return *reinterpret_cast<const OpenFile*>(file); }

H5FD_t* open_driver(const char*, unsigned, hid_t access, haddr_t) {
  DiskFile* const* disk = static_cast<DiskFile* const*>(H5Pget_driver_info(access));
  if (disk == nullptr) return nullptr;
  auto* file = new (std::nothrow) OpenFile{};
  if (file == nullptr) return nullptr;
  file->disk = *disk;
  return &file->base;
}

// The room beyond the end goes last of all: a superblock that still counts it in must not be left
// with a shorter file.
herr_t close_driver(H5FD_t* file) {
  if (of(file).eoa != 0) {
    of(file).disk->flush();
    of(file).disk->resize(of(file).eoa);
  }
  delete &of(file);
  return 0;
}

int compare(const H5FD_t* left, const H5FD_t* right) {
  if (of(left).disk == of(right).disk) return 0;
  return of(left).disk < of(right).disk ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA |
           H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_eoa(const H5FD_t* file, H5FD_mem_t) { return of(file).eoa; }

herr_t set_eoa(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  of(file).eoa = address;
  if (address > of(file).disk->size()) of(file).disk->resize(address);
  return 0;
}

haddr_t get_eof(const H5FD_t* file, H5FD_mem_t) { return of(file).disk->size(); }

herr_t read(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, void* out) {
  return of(file).disk->read(address, {static_cast<std::byte*>(out), size}) ? 0 : -1;
}

// The superblock says where the file ends, and readers accept nothing beyond: it is written before what
// refers to new structure. Of a version 1 tree ("TREE", the kind, the level; HDF5 File Format Specification,
// III.A) the parent goes before the node that gave a part of itself to a new one.
int rank_of(H5FD_mem_t type, std::span<const std::byte> bytes) {
  if (type == H5FD_MEM_SUPER) return std::numeric_limits<int>::max();
  const bool node =
      type == H5FD_MEM_BTREE && bytes.size() > 5 && std::memcmp(bytes.data(), "TREE", 4) == 0;
  return node ? 1 + std::to_integer<int>(bytes[5]) : 0;
}

herr_t write(H5FD_t* file, H5FD_mem_t type, hid_t, haddr_t address, std::size_t size,
             const void* data) {
  const std::span bytes(static_cast<const std::byte*>(data), size);
  if (type == H5FD_MEM_DRAW) {
    of(file).disk->write(address, bytes);
  } else {
    of(file).disk->write_at_flush(address, bytes, rank_of(type, bytes));
  }
  return 0;
}

herr_t flush(H5FD_t* file, hid_t, hbool_t) {
  of(file).disk->flush();
  return 0;
}

// The file has grown with the allocated space already.
herr_t truncate(H5FD_t*, hid_t, hbool_t) { return 0; }

H5FD_class_t make_driver() {
  H5FD_class_t driver = nameless_driver();
  driver.value = static_cast<H5FD_class_value_t>(H5_VFD_RESERVED + 75);
  driver.name = "kvloupe";
  driver.fapl_size =
      sizeof(DiskFile*);  // NOLINT(bugprone-sizeof-expression): the pointer is the property
  driver.open = open_driver;
  driver.close = close_driver;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_eoa;
  driver.set_eoa = set_eoa;
  driver.get_eof = get_eof;
  driver.read = read;
  driver.write = write;
  driver.flush = flush;
  driver.truncate = truncate;
  return driver;
}

}  // namespace

H5FD_class_t nameless_driver() {
  H5FD_class_t driver = {};
  driver.version = H5FD_CLASS_VERSION;
  driver.maxaddr = std::numeric_limits<std::int64_t>::max();
  driver.fc_degree = H5F_CLOSE_STRONG;
  const H5FD_mem_t pools[H5FD_MEM_NTYPES] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(pools), std::end(pools), driver.fl_map);
  return driver;
}

Handle access_to(DiskFile& file) {
  static const H5FD_class_t driver = make_driver();
  static const hid_t registered = H5FDregister(&driver);
  Handle access = checked(H5Pcreate(H5P_FILE_ACCESS), "prepare a file");
  DiskFile* const disk = &file;
  checked_status(H5Pset_driver(access.get(), registered, &disk), "prepare a file");
  H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG);
  return access;
}

Handle create_file(DiskFile& file, const Handle& access) {
  return checked(H5Fcreate(file.path().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()),
                 "create the file");
}

Handle open_file_for_writing(DiskFile& file, const Handle& access) {
  return checked(H5Fopen(file.path().c_str(), H5F_ACC_RDWR, access.get()), "open the file");
}

void close_written(Handle& file, DiskFile& disk) {
  checked_status(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "write the file");
  file.reset();
  disk.sync();
  if (disk.failure()) throw Defect(*disk.failure());
}

}  // namespace kvloupe::trace::h5
