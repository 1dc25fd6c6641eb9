// Checks that planned work fits: memory for training a model, disk for its checkpoints and for a
// corpus job.
#ifndef BRAID_CLI_NEED_CHECKS_H_
#define BRAID_CLI_NEED_CHECKS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/forecast.pb.h"
#include "cli/finding.h"

namespace braid {

// Free resources of a machine.
struct Resources {
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
};

// Returns MemAvailable of /proc/meminfo and the free disk space at `home`.
Resources FreeResources(const std::filesystem::path& home);

// Returns the bytes of input text below the paths; compressed files count with their usual expanded
// size. NotFound for a missing path.
absl::StatusOr<int64_t> CorpusBytes(const std::vector<std::string>& paths);

// Compares the needs of training `model`, which must have a forecast, with free resources. One
// checkpoint more than `keep_checkpoints` exists while it is written.
Findings JudgeModelNeed(const v1::DescribeModelResponse& model, int ranks_per_host,
                        int keep_checkpoints, const Resources& free);
// Compares the disk space that a corpus job needs with free resources.
Finding JudgeCorpusNeed(int64_t text_bytes, const Resources& free);

}  // namespace braid

#endif  // BRAID_CLI_NEED_CHECKS_H_
