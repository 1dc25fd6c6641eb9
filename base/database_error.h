// The errors of SQLite databases as statuses, in one wording.
#ifndef BRAID_BASE_DATABASE_ERROR_H_
#define BRAID_BASE_DATABASE_ERROR_H_

#include <filesystem>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Returns the status of a call of SQLite on `database` that failed with the primary result code
// `code` and `message`, with the path and what to do:
//   RESOURCE_EXHAUSTED when the file system, or the quota of the user, is full. SQLite reports that
//     as SQLITE_FULL in some places only: with SQLITE_IOERR and SQLITE_CANTOPEN, this function
//     tries to reserve a few blocks beside the database
//   DATA_LOSS when the file is damaged or is not a database; `remedy` is the advice for that
//   UNAVAILABLE while another process has locked the database
//   PERMISSION_DENIED where it cannot be opened or written
//   INTERNAL otherwise
absl::Status DatabaseError(const std::filesystem::path& database, int code,
                           std::string_view message, std::string_view remedy);

}  // namespace braid

#endif  // BRAID_BASE_DATABASE_ERROR_H_
