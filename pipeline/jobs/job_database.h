// The SQLite database HOME/jobs.sqlite: opening it, and what its errors mean.
#ifndef BRAID_PIPELINE_JOBS_JOB_DATABASE_H_
#define BRAID_PIPELINE_JOBS_JOB_DATABASE_H_

#include <SQLiteCpp/Exception.h>

#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace SQLite {
class Database;
}

namespace braid {

std::filesystem::path JobDatabasePath(const std::filesystem::path& home);

// Opens or creates the database with the journal that its file system needs
// (base/database_journal.h) and the tables of job_table.h, upgraded if a previous version wrote
// them. FAILED_PRECONDITION for tables of a newer program; also the errors of JobDatabaseError.
absl::StatusOr<std::unique_ptr<SQLite::Database>> OpenJobDatabase(
    const std::filesystem::path& home);

// Converts an exception of SQLite (base/database_error.h), or a DamagedRow, which is DATA_LOSS,
// into a status with the path and what to do.
absl::Status JobDatabaseError(const SQLite::Exception& error, const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_DATABASE_H_
