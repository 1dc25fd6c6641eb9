// What a rank found where it was started, and how it tells `braid doctor`.
#ifndef BRAID_RUNS_RANK_FINDINGS_H_
#define BRAID_RUNS_RANK_FINDINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

struct RankFindings {
  int rank = 0;
  int world_size = 1;
  std::string host = {};
  // Processors that the rank may run on, of those that the host has.
  int allowed_cores = 0;
  int host_cores = 0;
  // What OpenMP and BLAS would start.
  int threads = 0;
  std::string blas_core = {};  // "" when the BLAS is not OpenBLAS
  // The core that would use all vector units of the processor; "" when blas_core does.
  std::string better_blas_core = {};
  // Paths of the OpenMP runtimes in the process; more than one is a fault.
  std::vector<std::string> openmp_runtimes = {};
  // This host's clock minus that of rank 0, seconds; the error is as long as a
  // message takes.
  double clock_offset_seconds = 0;
  // Seconds until the files of all ranks were seen in the shared directory; negative when
  // some were not within kVisibilitySeconds.
  double visible_after_seconds = 0;
  // The shared directory's file times minus this host's clock, seconds.
  double file_clock_offset_seconds = 0;
};

// One line of JSON with the fields' names.
std::string ToJsonLine(const RankFindings& findings);
// InvalidArgument when `line` is not one.
absl::StatusOr<RankFindings> ParseRankFindings(const std::string& line);

}  // namespace braid

#endif  // BRAID_RUNS_RANK_FINDINGS_H_
