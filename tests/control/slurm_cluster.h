// A Slurm cluster on this machine, with its own munged, slurmctld and slurmd in a scratch
// directory, for tests of runs that Slurm starts.
#ifndef BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_
#define BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_

#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/control/host_network.h"

namespace braid {

class SlurmCluster {
 public:
  // One node with two CPUs, or several with one each: "node-1" ... in network namespaces. Sets
  // SLURM_CONF of this process. FailedPrecondition, with the reason, where Slurm is not installed
  // or the process is not root; the test is skipped then.
  static absl::StatusOr<std::unique_ptr<SlurmCluster>> Start(int num_nodes = 1);
  // Cancels all jobs, then ends the daemons by their ids. They die with this process at the latest.
  ~SlurmCluster();

  // Returns a line "ID STATE" of `squeue --states=all` for each job of that name, or for all jobs.
  static std::vector<std::string> Jobs(const std::string& name = "");
  const std::filesystem::path& root() const { return root_; }

  // Kills every process of a node and tells slurmctld, as a health check would; starts its slurmd
  // again. Nodes count from 1. Requires several nodes.
  void FailNode(int node);
  absl::Status RestartNode(int node);

 private:
  SlurmCluster() = default;
  absl::Status StartDaemons();
  std::string NodeName(int node) const;
  absl::Status StartNode(int node);
  absl::Status Fork(const std::string& name, std::vector<std::string> arguments);
  absl::Status WaitUntilIdle();
  std::string LogTails() const;

  std::filesystem::path root_;
  int num_nodes_ = 1;
  std::unique_ptr<HostNetwork> network_;  // null with one node
  std::vector<pid_t> daemons_;
};

}  // namespace braid

#endif  // BRAID_TESTS_CONTROL_SLURM_CLUSTER_H_
