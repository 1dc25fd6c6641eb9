// Locks on byte ranges of files, for FileLock and DirectoryUse (open file description locks, see
// fcntl(2)), with substitutes for file systems that have none.
//
// With $BRAID_STATE (the option --state) every lock is two: first one byte of $BRAID_STATE/locks,
// then the range of the file itself, where its file system has locks. Whether it has may differ
// from call to call (a lock server that restarts): the first lock excludes the processes of this
// host in either case, and the second one those that have another $BRAID_STATE or none.
#ifndef BRAID_BASE_BYTE_LOCK_H_
#define BRAID_BASE_BYTE_LOCK_H_

#include <fcntl.h>
#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Returns an offset in a file for a name: its FNV-1a hash without the bits that would make the
// offset negative or too large.
off_t ByteOfName(std::string_view name);

// The open files that hold one lock. Closing them releases it.
class LockDescriptors {
 public:
  LockDescriptors() = default;
  explicit LockDescriptors(int file) : file_(file) {}
  LockDescriptors(LockDescriptors&& other) noexcept;
  LockDescriptors& operator=(LockDescriptors&& other) noexcept;
  ~LockDescriptors();

 private:
  friend absl::StatusOr<bool> LockBytes(const std::filesystem::path&, const struct flock&, bool,
                                        LockDescriptors*);
  friend absl::StatusOr<bool> LockWholeFile(const std::filesystem::path&, bool, LockDescriptors*);

  int file_ = -1;
  int substitute_ = -1;  // has $BRAID_STATE/locks open; -1 if that is not set
};

// Locks a range of `file`, which is open in `descriptors`, with F_RDLCK or F_WRLCK as
// `range.l_type`. The substitute byte is chosen by the device and inode of the file and the start
// of the range, so all names and mounts of the file have the same. Returns false if `waits` is
// false and the range is locked. Errors: SystemError with `file` or, if $BRAID_STATE cannot be
// used, with the path there.
absl::StatusOr<bool> LockBytes(const std::filesystem::path& file, const struct flock& range,
                               bool waits, LockDescriptors* descriptors);

// Does the same with an exclusive flock on the whole file, or LockBytes where flock does not work.
absl::StatusOr<bool> LockWholeFile(const std::filesystem::path& file, bool waits,
                                   LockDescriptors* descriptors);

}  // namespace braid

#endif  // BRAID_BASE_BYTE_LOCK_H_
