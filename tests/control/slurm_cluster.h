// A Slurm cluster of one node on this machine, with its own munged, slurmctld and slurmd in a
// scratch directory, for tests of runs that Slurm starts.
#ifndef BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_
#define BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

class SlurmCluster {
 public:
  // With two CPUs. Sets SLURM_CONF of this process. FailedPrecondition, with the reason, where
  // Slurm is not installed or the process is not root; the test is skipped then.
  static absl::StatusOr<std::unique_ptr<SlurmCluster>> Start();
  // Cancels all jobs, then ends the daemons by their ids. They die with this process at the latest.
  ~SlurmCluster();

  // Returns a line "ID STATE" of `squeue --states=all` for each job of that name, or for all jobs.
  static std::vector<std::string> Jobs(const std::string& name = "");
  const std::filesystem::path& root() const { return root_; }

 private:
  SlurmCluster() = default;
  absl::Status StartDaemons();
  absl::Status Fork(const std::string& name, std::vector<std::string> arguments);
  absl::Status WaitUntilIdle();
  std::string LogTails() const;

  std::filesystem::path root_;
  std::vector<pid_t> daemons_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_
