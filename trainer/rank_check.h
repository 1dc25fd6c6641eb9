// Inspects the environment of a rank for `braid doctor`, which starts as many ranks as a run would
// have, in the same way.
#ifndef BRAID_TRAINER_RANK_CHECK_H_
#define BRAID_TRAINER_RANK_CHECK_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runs/rank_findings.h"
#include "trainer/parallel/communicator.h"

namespace braid {

// How long CheckRank waits for the files of other ranks to appear.
inline constexpr double kVisibilitySeconds = 10;

// Returns the OpenMP runtimes among the files mapped by a process, each once; `maps` is the text of
// /proc/PID/maps.
std::vector<std::string> OpenMpRuntimes(const std::string& maps);

// Reports this rank's environment. Collective. Writes one file per rank into a new directory in
// `shared` and removes them afterwards; an empty `shared` skips this test. Unavailable when the
// files cannot be written.
absl::StatusOr<RankFindings> CheckRank(Communicator& ranks, const std::filesystem::path& shared);

}  // namespace braid

#endif  // BRAID_TRAINER_RANK_CHECK_H_
