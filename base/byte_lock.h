// Locks on byte ranges of files, for FileLock and DirectoryUse (open file description locks, see
// fcntl(2)), with a substitute for file systems that have none.
#ifndef BRAID_BASE_BYTE_LOCK_H_
#define BRAID_BASE_BYTE_LOCK_H_

#include <fcntl.h>
#include <sys/types.h>

#include <filesystem>
#include <string_view>

namespace braid {

// Returns an offset in a file for a name: its FNV-1a hash without the bits that would make the
// offset negative or too large.
off_t ByteOfName(std::string_view name);

// Returns whether this error of a lock means that the file system has no such locks.
bool LacksLocks(int error_number);

// Locks a range of `file`, which *descriptor has open, with F_RDLCK or F_WRLCK as `range.l_type`.
// If this fails as on a file system without locks and $BRAID_STATE names a directory (the option
// --state), locks instead one byte of $BRAID_STATE/locks, chosen by the path of the file and the
// start of the range, and replaces *descriptor by one of that file: such a lock excludes only
// threads and processes of this host that have the same $BRAID_STATE. The lock is released when
// *descriptor is closed. Returns 0, or the error: EAGAIN or EACCES if `waits` is false and the
// range is locked.
int LockBytes(const std::filesystem::path& file, struct flock range, bool waits, int* descriptor);

}  // namespace braid

#endif  // BRAID_BASE_BYTE_LOCK_H_
