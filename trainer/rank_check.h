// What a rank finds where it was started: for `braid doctor`, which starts as many as a run
// would have, in the same way.
#ifndef BRAID_TRAINER_RANK_CHECK_H_
#define BRAID_TRAINER_RANK_CHECK_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runs/rank_findings.h"
#include "trainer/parallel/communicator.h"

namespace braid {

inline constexpr double kVisibilitySeconds = 10;

// The OpenMP runtimes among the files mapped by a process, each once; `maps` is
// the text of /proc/PID/maps.
std::vector<std::string> OpenMpRuntimes(const std::string& maps);

// Every rank calls it. Writes a file a rank into a new directory in `shared`, and removes
// them; an empty `shared` is not looked at. Unavailable when the files cannot be written.
absl::StatusOr<RankFindings> CheckRank(Communicator& ranks, const std::filesystem::path& shared);

}  // namespace braid

#endif  // BRAID_TRAINER_RANK_CHECK_H_
