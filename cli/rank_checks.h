// Checks of the ranks of a cluster, started in the way a run starts them.
#ifndef BRAID_CLI_RANK_CHECKS_H_
#define BRAID_CLI_RANK_CHECKS_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "cli/finding.h"
#include "control/launch/launcher.h"
#include "runs/rank_findings.h"

namespace braid {

// Starts world_size ranks as a run of this spec would (only `launch`, world_size and
// threads_per_rank matter) and collects their reports. Unavailable with the output of mpirun when
// not all ranks start.
absl::StatusOr<std::vector<RankFindings>> CollectRankFindings(const LauncherPrograms& programs,
                                                              const v1::RunSpec& spec,
                                                              const std::filesystem::path& shared);

// Grades the reports of all ranks: cores, binding and threads, BLAS kernels, OpenMP runtimes,
// clocks, and whether all ranks see the shared directory.
Findings JudgeRanks(const std::vector<RankFindings>& ranks, int threads_per_rank);

}  // namespace braid

#endif  // BRAID_CLI_RANK_CHECKS_H_
