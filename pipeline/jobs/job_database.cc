#include "pipeline/jobs/job_database.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Transaction.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/database_error.h"
#include "base/database_journal.h"
#include "base/status_macros.h"
#include "pipeline/jobs/job_table.h"

namespace braid {
namespace {

constexpr int kBusyTimeoutMs = 30000;

// Refuses a database of a newer program, whose tables may have a different meaning.
absl::Status CheckJobSchema(SQLite::Database& database, const std::filesystem::path& path) {
  const int version = JobTable::SchemaVersion(database);
  if (version <= JobTable::kSchemaVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path.string(), ": schema version: got ", version, ", expected at most ",
                   JobTable::kSchemaVersion, "; use a newer braid or another --home"));
}

}  // namespace

std::filesystem::path JobDatabasePath(const std::filesystem::path& home) {
  return home / "jobs.sqlite";
}

absl::Status JobDatabaseError(const SQLite::Exception& error, const std::filesystem::path& path) {
  if (dynamic_cast<const DamagedRow*>(&error) != nullptr) {
    return absl::DataLossError(
        absl::StrCat(path.string(), ": ", error.what(),
                     "; submit the corpus again, which reuses its finished stages"));
  }
  return DatabaseError(path, error.getErrorCode(), error.what(),
                       "move the file away to start with an empty list of jobs");
}

absl::StatusOr<std::unique_ptr<SQLite::Database>> OpenJobDatabase(
    const std::filesystem::path& home) {
  RETURN_IF_ERROR(MakeDirectories(home));
  const std::filesystem::path path = JobDatabasePath(home);
  try {
    ASSIGN_OR_RETURN(const DatabaseJournal journal, ChooseJournal(home));
    auto database = std::make_unique<SQLite::Database>(
        path.string(), SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyTimeoutMs);
    SetJournal(path, journal, kBusyTimeoutMs, database.get());
    // Off by default in each connection; deleting a job relies on ON DELETE CASCADE.
    database->exec("PRAGMA foreign_keys=ON");
    RETURN_IF_ERROR(CheckJobSchema(*database, path));
    SQLite::Transaction transaction(*database, SQLite::TransactionBehavior::IMMEDIATE);
    JobTable::CreateTables(*database);
    transaction.commit();
    return database;
  } catch (const SQLite::Exception& error) {
    return JobDatabaseError(error, path);
  }
}

}  // namespace braid
