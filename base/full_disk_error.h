// The error of an SQLite database whose file system is full, in one wording.
#ifndef BRAID_BASE_FULL_DISK_ERROR_H_
#define BRAID_BASE_FULL_DISK_ERROR_H_

#include <filesystem>
#include <optional>

#include "absl/status/status.h"

namespace braid {

// Returns RESOURCE_EXHAUSTED, with what to do, if a call of SQLite on `database` failed with the
// primary result code `code` because the file system, or the quota of the user, is full. SQLite
// reports that as SQLITE_FULL in some places only: with SQLITE_IOERR and SQLITE_CANTOPEN, this
// function tries to reserve a few blocks beside the database. Returns nullopt for other errors.
std::optional<absl::Status> FullDiskError(const std::filesystem::path& database, int code);

}  // namespace braid

#endif  // BRAID_BASE_FULL_DISK_ERROR_H_
