/* Preloaded into a program (LD_PRELOAD): makes its n-th call of one kind fail, from 1.
 *   KVLOUPE_FAULT=write:3   write, sync or rename; kill ends the program by SIGKILL at its n-th write
 *   KVLOUPE_FAULT_FOLDER    writes, syncs and renames count below this folder alone
 *   KVLOUPE_FAULT_FIRED     a file made when the call fails, so that the caller knows when to stop
 * A write ends with a full disk, a sync and a rename with an error of the device. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char* kind;
static long number;
static const char* folder;
static size_t folder_length;
static const char* fired;
static atomic_long seen;

/* Environment variables are read before main: what runs earlier is the loader's, and never fails. */
__attribute__((constructor)) static void configure(void) {
  const char* fault = getenv("KVLOUPE_FAULT");
  const char* colon = fault ? strchr(fault, ':') : NULL;
  if (!colon) return;
  folder = getenv("KVLOUPE_FAULT_FOLDER");
  folder_length = folder ? strlen(folder) : 0;
  fired = getenv("KVLOUPE_FAULT_FIRED");
  number = strtol(colon + 1, NULL, 10);
  kind = fault;
}

static int is_turn_of(const char* call) {
  if (!kind || strncmp(kind, call, strlen(call)) != 0 || kind[strlen(call)] != ':') return 0;
  if (atomic_fetch_add(&seen, 1) + 1 != number) return 0;
  if (fired) {
    const int mark = open(fired, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (mark >= 0) close(mark);
  }
  return 1;
}

/* Of names, relative ones count too: the program works in the folder. */
static int is_below(const char* path) {
  if (path[0] != '/') return folder != NULL;
  return folder && strncmp(path, folder, folder_length) == 0 && path[folder_length] == '/';
}

static int is_ours(int descriptor) {
  char link[64], path[PATH_MAX];
  struct stat status;
  if (!kind || !folder || fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return is_below(path);
}

static int refuses_write(int descriptor) {
  if (!is_ours(descriptor)) return 0;
  if (is_turn_of("kill")) raise(SIGKILL);
  return is_turn_of("write");
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define FAIL(code, value) return errno = (code), (value)

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(write)(descriptor, bytes, count);
}
ssize_t writev(int descriptor, const struct iovec* pieces, int count) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(writev)(descriptor, pieces, count);
}
ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(pwrite)(descriptor, bytes, count, offset);
}
ssize_t pwrite64(int descriptor, const void* bytes, size_t count, off64_t offset) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(pwrite64)(descriptor, bytes, count, offset);
}
int ftruncate(int descriptor, off_t length) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(ftruncate)(descriptor, length);
}
int ftruncate64(int descriptor, off64_t length) {
  if (refuses_write(descriptor)) FAIL(ENOSPC, -1);
  return REAL(ftruncate64)(descriptor, length);
}
int fsync(int descriptor) {
  if (is_ours(descriptor) && is_turn_of("sync")) FAIL(EIO, -1);
  return REAL(fsync)(descriptor);
}
int fdatasync(int descriptor) {
  if (is_ours(descriptor) && is_turn_of("sync")) FAIL(EIO, -1);
  return REAL(fdatasync)(descriptor);
}
int rename(const char* from, const char* to) {
  if (is_below(to) && is_turn_of("rename")) FAIL(EIO, -1);
  return REAL(rename)(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (is_below(to) && is_turn_of("rename")) FAIL(EIO, -1);
  return REAL(renameat2)(from_folder, from, to_folder, to, flags);
}
int link(const char* from, const char* to) {
  if (is_below(to) && is_turn_of("rename")) FAIL(EIO, -1);
  return REAL(link)(from, to);
}
