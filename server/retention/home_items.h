// Reads the jobs, the runs and the prepared data of a home, with what they own and use.
#ifndef BRAID_SERVER_RETENTION_HOME_ITEMS_H_
#define BRAID_SERVER_RETENTION_HOME_ITEMS_H_

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "control/run_store.h"
#include "pipeline/jobs/job_store.h"
#include "server/retention/stored_item.h"

namespace braid {

// The end of the name of a directory that is being deleted.
inline constexpr char kDeletedSuffix[] = ".deleted";
// The directory of a home that holds the datasets and models which `braid finetune` prepares.
inline constexpr char kPreparedDirectory[] = "supervised";

// Not thread-safe. Requires: the stores outlive it.
class HomeItems {
 public:
  HomeItems(std::filesystem::path home, JobStore* jobs, RunStore* runs);

  enum class Detail {
    kUses,   // only id, owns and uses
    kStates  // everything; reads several files of each run
  };
  // Returns all jobs, runs and directories of prepared data, sorted for deletion. A run uses the
  // dataset and the model of its spec, as requested and as resolved; a job every path of its spec
  // within the home. A run directory that is not in the list of runs is an item that has not ended.
  // Errors: those of the stores; as SystemError if HOME/runs cannot be listed.
  absl::StatusOr<std::vector<StoredItem>> Read(Detail detail);

 private:
  std::vector<StoredItem> Prepared() const;
  StoredItem OfJob(const v1::Job& job) const;
  StoredItem OfRun(const RunRecord& record, Detail detail);
  std::set<std::string> InHome(const std::set<std::string>& paths) const;
  std::set<std::string> UsesOfRun(const std::string& id, const std::filesystem::path& directory,
                                  bool* unknown);

  const std::filesystem::path home_;
  JobStore* const jobs_;
  RunStore* const runs_;
  // The directories that a run uses, by the id of the run. They never change.
  std::map<std::string, std::set<std::string>> uses_of_runs_;
};

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_HOME_ITEMS_H_
