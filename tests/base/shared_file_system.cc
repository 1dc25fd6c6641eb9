// A library for LD_PRELOAD that makes the directory $BRAID_SHARED look like a file system that
// several hosts share. $BRAID_SHARED_FAULTS has any of these words:
//
//   type    statfs reports NFS
//   mmap    writable shared mappings fail with ENODEV
//   flock   flock fails with ENOLCK
//   fcntl   locks of fcntl fail with ENOLCK
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

bool HasFault(const char* word) {
  const char* const faults = std::getenv("BRAID_SHARED_FAULTS");
  return faults != nullptr && std::strstr(faults, word) != nullptr;
}

bool IsSharedPath(const char* path) {
  const char* const shared = std::getenv("BRAID_SHARED");
  return shared != nullptr && std::strncmp(path, shared, std::strlen(shared)) == 0;
}

bool IsShared(int descriptor) {
  char link[64];
  char path[PATH_MAX];
  std::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof(path) - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return IsSharedPath(path);
}

int Fail(int error_number) {
  errno = error_number;
  return -1;
}

bool RefusesLock(int descriptor, int command) {
  const bool locks = command == F_SETLK || command == F_SETLKW || command == F_GETLK ||
                     command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;
  return locks && HasFault("fcntl") && IsShared(descriptor);
}

bool RefusesMapping(int protection, int flags, int descriptor) {
  return descriptor >= 0 && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0 &&
         HasFault("mmap") && IsShared(descriptor);
}

// Returns the function that the library hides.
template <class Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using FcntlFunction = int(int, int, void*);
using MmapFunction = void*(void*, size_t, int, int, int, off_t);

}  // namespace

extern "C" {

int flock(int descriptor, int operation) noexcept {
  if (HasFault("flock") && IsShared(descriptor)) return Fail(ENOLCK);
  return Real<int(int, int)>("flock")(descriptor, operation);
}

int fcntl64(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (RefusesLock(descriptor, command)) return Fail(ENOLCK);
  return Real<FcntlFunction>("fcntl64")(descriptor, command, argument);
}

int fcntl(int descriptor, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (RefusesLock(descriptor, command)) return Fail(ENOLCK);
  return Real<FcntlFunction>("fcntl")(descriptor, command, argument);
}

void* mmap64(void* address, size_t length, int protection, int flags, int descriptor,
             off_t offset) noexcept {
  if (RefusesMapping(protection, flags, descriptor)) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  return Real<MmapFunction>("mmap64")(address, length, protection, flags, descriptor, offset);
}

void* mmap(void* address, size_t length, int protection, int flags, int descriptor,
           off_t offset) noexcept {
  if (RefusesMapping(protection, flags, descriptor)) {
    errno = ENODEV;
    return MAP_FAILED;
  }
  return Real<MmapFunction>("mmap")(address, length, protection, flags, descriptor, offset);
}

int statfs(const char* path, struct statfs* status) noexcept {
  const int result = Real<int(const char*, struct statfs*)>("statfs")(path, status);
  if (result == 0 && HasFault("type") && IsSharedPath(path)) status->f_type = 0x6969;
  return result;
}

int statfs64(const char* path, struct statfs64* status) noexcept {
  const int result = Real<int(const char*, struct statfs64*)>("statfs64")(path, status);
  if (result == 0 && HasFault("type") && IsSharedPath(path)) status->f_type = 0x6969;
  return result;
}

}  // extern "C"
