// The report of one rank about its environment, and its encoding for `braid doctor`.
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
  // Number of processors that the rank may use, and that the host has.
  int allowed_cores = 0;
  int host_cores = 0;
  // Number of threads that OpenMP and BLAS would start.
  int threads = 0;
  std::string blas_core = {};  // "" when the BLAS is not OpenBLAS
  // The core that would use all vector units of the processor; "" when blas_core does.
  std::string better_blas_core = {};
  // Paths of the OpenMP runtimes in the process; more than one is an error.
  std::vector<std::string> openmp_runtimes = {};
  // This host's clock minus that of rank 0, in seconds; accurate to the duration of a message.
  double clock_offset_seconds = 0;
  // Seconds until the files of all ranks were visible in the shared directory; negative when some
  // were not within kVisibilitySeconds.
  double visible_after_seconds = 0;
  // File times of the shared directory minus this host's clock, in seconds.
  double file_clock_offset_seconds = 0;
};

// Returns one line of JSON with the names of the fields.
std::string ToJsonLine(const RankFindings& findings);
// Parses such a line; InvalidArgument when it is not one.
absl::StatusOr<RankFindings> ParseRankFindings(const std::string& line);

}  // namespace braid

#endif  // BRAID_RUNS_RANK_FINDINGS_H_
