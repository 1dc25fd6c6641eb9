// What ranks find when they are started as a run starts them.
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

// Starts world_size ranks where and how a run of this spec would have them (only `launch`,
// world_size and threads_per_rank are looked at) and collects what they tell. Unavailable with
// mpirun's own words when they do not all start.
absl::StatusOr<std::vector<RankFindings>> AskRanks(const LauncherPrograms& programs,
                                                   const v1::RunSpec& spec,
                                                   const std::filesystem::path& shared);

// Pure: what is good or bad about it. Cores, binding and threads, BLAS kernels, OpenMP
// runtimes, clocks, and whether all see the shared directory.
Findings JudgeRanks(const std::vector<RankFindings>& ranks, int threads_per_rank);

}  // namespace braid

#endif  // BRAID_CLI_RANK_CHECKS_H_
