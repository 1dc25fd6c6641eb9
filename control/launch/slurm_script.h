// The batch script of a run under Slurm.
#ifndef BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_
#define BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"

namespace braid {

// From the warning before a time limit, on which the run saves a checkpoint, to the limit.
inline constexpr int kSlurmWarningSeconds = 120;

// A script without a shell: its first line makes the kernel execute `supervisor` with the run
// directory, and the path of the script itself behind it; the rest are #SBATCH lines. Slurm
// signals that very process, so that the supervisor sees TERM before the time limit.
//
// `spec` must be resolved, with backend SLURM. InvalidArgument when a path has characters that
// Slurm or the kernel reads otherwise, or both are longer than the kernel takes (250 bytes).
absl::StatusOr<std::string> SlurmScript(const v1::RunSpec& spec,
                                        const std::filesystem::path& supervisor,
                                        const std::filesystem::path& run_dir,
                                        const std::string& job_name);

}  // namespace braid

#endif  // BRAID_CONTROL_LAUNCH_SLURM_SCRIPT_H_
