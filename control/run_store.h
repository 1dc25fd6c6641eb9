// The list of runs and their owners: HOME/runs.sqlite. The state of a run is read from its run
// directory, so losing the database loses no run.
//
// Several programs may open the same store; all methods are thread-safe.
#ifndef BRAID_CONTROL_RUN_STORE_H_
#define BRAID_CONTROL_RUN_STORE_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct RunRecord {
  std::string id;  // "run-000001"
  // HOME/runs/<id>, also after HOME was moved.
  std::filesystem::path run_dir;
  // Unix seconds.
  double created = 0;
  // The principal that launched the run.
  std::string principal = {};
  // Number of times that the run was launched or resumed by a user.
  int64_t launches = 0;
  // The run is not settled.
  bool active = true;
  // The stored record is not as it was written; `principal` and `created` are empty then. Only
  // lists contain such records, since the directory of the run may be intact.
  bool damaged = false;
};

// The principal that launches a run and its limits on active runs and ranks; 0: no limit.
struct RunOwner {
  std::string principal = "local";
  int64_t ranks = 1;  // ranks of the run to create
  int64_t max_runs = 0;
  int64_t max_ranks = 0;
};

class RunStore {
 public:
  // Opens the store and creates HOME and the database when missing. The database is in `state`, or
  // in HOME if that is empty, with the journal that its file system needs
  // (base/database_journal.h). FailedPrecondition for the database of a newer program; also, as
  // from all methods, the errors of base/database_error.h.
  static absl::StatusOr<std::unique_ptr<RunStore>> Open(const std::filesystem::path& home,
                                                        const std::filesystem::path& state = {});
  ~RunStore();

  // Adds a run with a new id and the directory HOME/runs/<id>, which is not created; durable on
  // return. The same `request_id` of the same principal with the same `spec` bytes returns the run
  // of the first call; with other bytes, or when that run was deleted, it is AlreadyExists, and
  // DataLoss when its record is damaged. An empty `request_id` always adds a run.
  // ResourceExhausted when the owner has reached its limit of active runs or ranks.
  absl::StatusOr<RunRecord> Create(const std::string& request_id, const std::string& spec,
                                   double now, const RunOwner& owner = {});
  // Returns the run that Create would return to a principal that repeats a request, with its errors
  // for that; nullopt for a new request.
  absl::StatusOr<std::optional<RunRecord>> Find(const std::string& request_id,
                                                const std::string& spec,
                                                const std::string& principal) const;

  // Returns the active runs, oldest first. A run is active from its creation until it is settled,
  // and again from a relaunch.
  absl::StatusOr<std::vector<RunRecord>> Active() const;
  // Marks a run that has ended as active, before it is started again. The owner's limits apply.
  absl::StatusOr<RunRecord> Relaunch(const std::string& id, const RunOwner& limits = {});
  // Marks a run as ended. No effect when it was relaunched since `record` was read.
  absl::Status Settle(const RunRecord& record);

  // Removes a run from the list and records its deletion by the principal `by`; its id and its
  // request id are never used again. NotFound when it is gone, FailedPrecondition when it was
  // relaunched since `record` was read.
  absl::Status Delete(const RunRecord& record, const std::string& by, double now);
  // Returns the ids of deleted runs whose directory may still exist.
  absl::StatusOr<std::vector<std::string>> UnfinishedDeletions() const;
  // Records that the directory of a deleted run is gone.
  absl::Status FinishDeletion(const std::string& id);

  // Returns the `spec` bytes that a run was created with. Errors are those of Get.
  absl::StatusOr<std::string> SpecOf(const std::string& id) const;

  // Returns the record of a run. NotFound with the id and a hint; DataLoss for a damaged record.
  absl::StatusOr<RunRecord> Get(const std::string& id) const;
  // Returns at most `limit` runs, newest first, older than the run `before` unless that is empty.
  // That run may have been deleted; NotFound for a string that is not the id of a run.
  absl::StatusOr<std::vector<RunRecord>> List(
      const std::string& before = "", int64_t limit = std::numeric_limits<int64_t>::max()) const;

 private:
  class Impl;
  explicit RunStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_STORE_H_
