#include "pipeline/jobs/job_deletions.h"

#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <SQLiteCpp/Transaction.h>

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "pipeline/jobs/job_database.h"
#include "pipeline/jobs/job_id.h"
#include "pipeline/jobs/job_state.h"
#include "proto/state_name.h"

namespace braid {
namespace {

constexpr int kDeletionTimeoutMs = 10000;
// This table is not part of a schema version, because programs that do not know it can use the same
// database. `removed`: the directories are completely removed.
constexpr char kDeletedJobs[] =
    "CREATE TABLE IF NOT EXISTS deleted_jobs("
    "id INTEGER PRIMARY KEY, request_id TEXT NOT NULL, created REAL NOT NULL,"
    "principal TEXT NOT NULL, deleted REAL NOT NULL, deleted_by TEXT NOT NULL,"
    "directories TEXT NOT NULL, removed INTEGER NOT NULL DEFAULT 0)";

// Runs `body` and converts exceptions of SQLite into a status.
template <class Body>
auto Guarded(const std::filesystem::path& path, Body body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return JobDatabaseError(error, path);
  }
}

}  // namespace

JobDeletions::JobDeletions(std::filesystem::path path, std::unique_ptr<SQLite::Database> database)
    : path_(std::move(path)), database_(std::move(database)) {}

JobDeletions::~JobDeletions() = default;

absl::StatusOr<std::unique_ptr<JobDeletions>> JobDeletions::Open(
    const std::filesystem::path& home) {
  const std::filesystem::path path = JobDatabasePath(home);
  return Guarded(path, [&]() -> absl::StatusOr<std::unique_ptr<JobDeletions>> {
    auto database = std::make_unique<SQLite::Database>(path.string(), SQLite::OPEN_READWRITE,
                                                       kDeletionTimeoutMs);
    // These are settings of a connection; the journal that JobStore has chosen is in the file.
    database->exec("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON");
    database->exec(kDeletedJobs);
    return std::unique_ptr<JobDeletions>(new JobDeletions(path, std::move(database)));
  });
}

absl::Status JobDeletions::Delete(const JobDeletion& deletion, const std::string& by, double now) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(deletion.id));
  return Guarded(path_, [&]() -> absl::Status {
    SQLite::Transaction transaction(*database_, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement job(*database_, "SELECT state FROM jobs WHERE id = ?");
    job.bind(1, number);
    if (!job.executeStep()) return UnknownJob(deletion.id);
    const auto state = static_cast<v1::JobState>(job.getColumn(0).getInt());
    job.reset();
    if (!IsFinal(state)) {
      return absl::FailedPreconditionError(absl::StrCat(
          deletion.id, " is ", StateName(state), "; cancel it first: braid cancel ", deletion.id));
    }
    SQLite::Statement insert(*database_,
                             "INSERT INTO deleted_jobs(id, request_id, created, principal,"
                             " deleted, deleted_by, directories) SELECT id, request_id, created,"
                             " principal, ?, ?, ? FROM jobs WHERE id = ?");
    insert.bind(1, now);
    insert.bind(2, by);
    insert.bind(3, absl::StrJoin(deletion.directories, "\n"));
    insert.bind(4, number);
    insert.exec();
    SQLite::Statement remove(*database_, "DELETE FROM jobs WHERE id = ?");
    remove.bind(1, number);
    remove.exec();  // and its events and kept directories, by ON DELETE CASCADE
    transaction.commit();
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<JobDeletion>> JobDeletions::Unfinished() {
  return Guarded(path_, [&]() -> absl::StatusOr<std::vector<JobDeletion>> {
    SQLite::Statement query(*database_,
                            "SELECT id, directories FROM deleted_jobs WHERE removed = 0"
                            " ORDER BY id");
    std::vector<JobDeletion> deletions;
    while (query.executeStep()) {
      deletions.push_back(
          {.id = JobId(query.getColumn(0).getInt64()),
           .directories = absl::StrSplit(query.getColumn(1).getString(), '\n', absl::SkipEmpty())});
    }
    return deletions;
  });
}

absl::Status JobDeletions::Finish(const std::string& id) {
  ASSIGN_OR_RETURN(const int64_t number, JobNumber(id));
  return Guarded(path_, [&]() -> absl::Status {
    SQLite::Statement update(*database_, "UPDATE deleted_jobs SET removed = 1 WHERE id = ?");
    update.bind(1, number);
    update.exec();
    return absl::OkStatus();
  });
}

}  // namespace braid
