// Deletes jobs, runs and prepared data of a home.
//
// Algorithm of Delete(item):
//   1. reserve the directories that only this item owns (base/directory_use.h);
//   2. read again what all jobs and runs own and use, and refuse when one uses such a directory;
//   3. check that the item has ended and hold the locks with which it would be started again;
//   4. move its row to the table of deletions (one transaction; prepared data has no row);
//   5. rename each directory to NAME.deleted;
//   6. release all locks, remove the renamed directories, and mark the deletion as finished.
// A process that is killed before step 4 has changed nothing; one that is killed later leaves an
// unfinished deletion, which FinishInterrupted() completes.
//
// A launch shares its dataset and its model until its run is stored, so it either comes before step
// 1 and is seen in step 2, or waits and then finds no dataset. Jobs share their outputs while they
// run, evaluations and served models their files: all make step 1 fail.
#ifndef BRAID_SERVER_RETENTION_HOME_DELETION_H_
#define BRAID_SERVER_RETENTION_HOME_DELETION_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/directory_use.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_deletions.h"
#include "pipeline/jobs/job_store.h"
#include "server/retention/disk_reserve.h"
#include "server/retention/home_items.h"
#include "server/retention/stored_item.h"

namespace braid {

// Not thread-safe. Requires: only one process at a time has one for the home (StorageService holds
// HOME/delete.lock).
class HomeDeletion {
 public:
  // Also frees the reserve beside the databases, so that a deletion succeeds on a full file system
  // (server/retention/disk_reserve.h).
  static absl::StatusOr<std::unique_ptr<HomeDeletion>> Open(
      const std::filesystem::path& home, const std::filesystem::path& state = {});

  // Returns all jobs, runs and prepared data, those that use others before them.
  absl::StatusOr<std::vector<StoredItem>> Items() {
    return items_.Read(HomeItems::Detail::kStates);
  }

  struct Options {
    std::string by;  // the principal that deletes
    // Check everything and delete nothing; the items in `gone` count as deleted.
    bool dry_run = false;
    std::set<std::string> gone = {};
  };
  // Deletes prepared data, or a job or run that has ended, and returns the bytes of disk space
  // freed. NOT_FOUND for an unknown id; FAILED_PRECONDITION, with the reason, when it has not
  // ended, is used or is in use.
  absl::StatusOr<int64_t> Delete(const std::string& id, const Options& options);

  // Removes checkpoints of a run that has ended. Keeps the newest good one, the one with the best
  // validation loss, those of checkpoint.keep_every_steps and, in an unfinished run with the policy
  // ROLLBACK, the newest regular one (IsRegular). Returns the bytes freed.
  // FAILED_PRECONDITION as in Delete, and when another item uses the run; DATA_LOSS when the
  // settings of the run, which say what to keep, are damaged.
  absl::StatusOr<int64_t> ReduceCheckpoints(const std::string& id, const Options& options);

  // Completes the deletions of killed processes. Returns the bytes freed by id.
  absl::StatusOr<std::map<std::string, int64_t>> FinishInterrupted();

 private:
  using Reservations = std::map<std::string, DirectoryUse>;

  HomeDeletion(std::filesystem::path home, std::unique_ptr<ReleasedReserve> reserve,
               std::unique_ptr<JobStore> jobs, std::unique_ptr<JobDeletions> job_deletions,
               std::unique_ptr<RunStore> runs);

  absl::StatusOr<Reservations> Reserve(const std::string& id, const Options& options);
  absl::Status ReserveOne(const std::string& id, const std::string& directory,
                          Reservations* reserved) const;
  absl::StatusOr<int64_t> DeleteJob(const std::string& id, const Options& options,
                                    Reservations reserved);
  absl::StatusOr<int64_t> DeleteRun(const std::string& id, const Options& options,
                                    Reservations reserved);
  absl::StatusOr<int64_t> DeletePrepared(const std::string& id, const Options& options,
                                         Reservations reserved);
  void FinishPrepared(std::map<std::string, int64_t>* freed) const;
  absl::StatusOr<int64_t> FinishJob(const JobDeletion& deletion);
  int64_t BytesOf(const Reservations& directories) const;
  absl::Status MoveAside(const std::string& directory) const;
  absl::StatusOr<int64_t> Purge(const std::string& directory) const;

  const std::filesystem::path home_;
  const std::unique_ptr<ReleasedReserve> reserve_;  // until the databases are closed
  const std::unique_ptr<JobStore> jobs_;
  const std::unique_ptr<JobDeletions> job_deletions_;
  const std::unique_ptr<RunStore> runs_;
  HomeItems items_;
};

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_HOME_DELETION_H_
