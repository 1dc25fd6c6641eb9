#include "tests/base/file_calls.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace braid {
namespace {

std::function<int(const FileCall&)> g_watch;
bool g_skip_flushes = false;
thread_local bool t_watching = false;
thread_local std::function<void()> t_after_tear;

std::string PathOf(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t size = ::readlink(link, path, sizeof(path));
  return size < 0 ? "" : std::string(path, size);
}

// Sets errno and returns false if the call must fail.
template <class Path>
bool Allowed(const char* name, Path path) {
  if (!g_watch || t_watching) return true;
  t_watching = true;
  const int error = g_watch({name, path()});
  t_watching = false;
  errno = error;
  return error == 0;
}

bool Allowed(const char* name, int descriptor) {
  return Allowed(name, [&] { return PathOf(descriptor); });
}

bool Allowed(const char* name, const char* path) {
  return Allowed(name, [&] { return std::string(path); });
}

size_t Torn(size_t size) { return t_after_tear ? size / 2 : size; }

void EndTear() {
  if (t_after_tear) std::exchange(t_after_tear, nullptr)();
}

}  // namespace

void WatchFileCalls(std::function<int(const FileCall&)> watch) { g_watch = std::move(watch); }

void SkipFlushes() { g_skip_flushes = true; }

void TearNextWrite(std::function<void()> then) { t_after_tear = std::move(then); }

extern "C" {

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t offset) {
  if (!Allowed("pwrite", descriptor)) return -1;
  const ssize_t written = syscall(SYS_pwrite64, descriptor, data, Torn(size), offset);
  EndTear();
  return written;
}

// The name under which SQLite calls it.
ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t offset) {
  return pwrite(descriptor, data, size, offset);
}

ssize_t write(int descriptor, const void* data, size_t size) {
  if (descriptor > 2 && !Allowed("write", descriptor)) return -1;
  const ssize_t written = syscall(SYS_write, descriptor, data, Torn(size));
  EndTear();
  return written;
}

int posix_fallocate(int descriptor, off_t offset, off_t size) {
  if (!Allowed("posix_fallocate", descriptor)) return errno;
  return syscall(SYS_fallocate, descriptor, 0, offset, size) == 0 ? 0 : errno;
}

int ftruncate(int descriptor, off_t size) noexcept {
  return Allowed("ftruncate", descriptor)
             ? static_cast<int>(syscall(SYS_ftruncate, descriptor, size))
             : -1;
}

int fsync(int descriptor) {
  if (!Allowed("fsync", descriptor)) return -1;
  return g_skip_flushes ? 0 : static_cast<int>(syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  if (!Allowed("fdatasync", descriptor)) return -1;
  return g_skip_flushes ? 0 : static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int rename(const char* from, const char* to) noexcept {
  if (!Allowed("rename", to)) return -1;
  return static_cast<int>(syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int mkdir(const char* path, mode_t mode) noexcept {
  return Allowed("mkdir", path) ? static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode)) : -1;
}

int unlink(const char* path) noexcept {
  return Allowed("unlink", path) ? static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0)) : -1;
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  const auto full = [&] {
    return path[0] == '/' || directory == AT_FDCWD ? path : PathOf(directory) + "/" + path;
  };
  return Allowed("unlinkat", full) ? static_cast<int>(syscall(SYS_unlinkat, directory, path, flags))
                                   : -1;
}

}  // extern "C"

}  // namespace braid
