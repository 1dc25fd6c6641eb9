// The batch script of a run under Slurm.
#ifndef BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_
#define BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Seconds from the warning, on which the run saves a checkpoint, to the time limit.
inline constexpr int kSlurmWarningSeconds = 120;

// Returns a batch script without a shell: its first line makes the kernel execute `supervisor` with
// the run directory and the path of the script as arguments; the others are #SBATCH lines. Slurm
// signals that process directly, so the supervisor receives SIGTERM before the time limit.
//
// Requires a resolved `spec` with backend SLURM. InvalidArgument when a path has characters that
// Slurm or the kernel interprets, or when the first line exceeds the kernel's limit (250 bytes).
absl::StatusOr<std::string> SlurmScript(const v1::RunSpec& spec,
                                        const std::filesystem::path& supervisor,
                                        const std::filesystem::path& run_dir,
                                        const std::string& job_name);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_
