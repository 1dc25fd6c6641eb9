// Deletes jobs from HOME/jobs.sqlite and records which directories of the store they leave behind.
//
// The row of a job and the record of its deletion change in one transaction. A process that is
// killed afterwards leaves a record from which the next deletion removes the directories.
#ifndef BRAID_PIPELINE_JOBS_JOB_DELETIONS_H_
#define BRAID_PIPELINE_JOBS_JOB_DELETIONS_H_

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace SQLite {
class Database;
}

namespace braid {

struct JobDeletion {
  std::string id;
  // The directories that no other job had when this one was deleted.
  std::set<std::string> directories;
};

// Not thread-safe. Uses its own connection, so that other programs and threads see its changes as
// those of another process. Errors of the database are those of JobDatabaseError.
class JobDeletions {
 public:
  // Requires: JobStore::Open(home) has created the database.
  static absl::StatusOr<std::unique_ptr<JobDeletions>> Open(const std::filesystem::path& home);
  ~JobDeletions();

  // Deletes a job that has ended, with its events, and records that `by` did so. NOT_FOUND when it
  // is gone, FAILED_PRECONDITION when it is queued or running.
  absl::Status Delete(const JobDeletion& deletion, const std::string& by, double now);
  // Returns the deletions whose directories may still exist.
  absl::StatusOr<std::vector<JobDeletion>> Unfinished();
  // Records that the directories of a deletion are gone.
  absl::Status Finish(const std::string& id);

 private:
  JobDeletions(std::filesystem::path path, std::unique_ptr<SQLite::Database> database);

  const std::filesystem::path path_;
  const std::unique_ptr<SQLite::Database> database_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_JOBS_JOB_DELETIONS_H_
