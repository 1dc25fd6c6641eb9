// Whether what is planned fits: memory for a model's training, disk for its checkpoints and
// for a corpus.
#ifndef BRAID_CLI_NEED_CHECKS_H_
#define BRAID_CLI_NEED_CHECKS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "cli/finding.h"

namespace braid {

// What a machine has left.
struct Resources {
  int64_t memory_bytes = 0;
  int64_t disk_bytes = 0;
};

// MemAvailable, and the space beside `home`.
Resources FreeResources(const std::filesystem::path& home);

// Bytes of input text under the paths; compressed files count for what they usually expand
// to. NotFound for a path that is not there.
absl::StatusOr<int64_t> CorpusBytes(const std::vector<std::string>& paths);

// Pure. `model` holds a forecast; `keep_checkpoints` of them are kept, and one more exists
// while it is written.
Findings JudgeModelNeed(const v1::DescribeModelResponse& model, int ranks_per_host,
                        int keep_checkpoints, const Resources& free);
Finding JudgeCorpusNeed(int64_t text_bytes, const Resources& free);

}  // namespace braid

#endif  // BRAID_CLI_NEED_CHECKS_H_
