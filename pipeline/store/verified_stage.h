// Verification of published stage outputs by readers that are not a job: StageStore verifies what a
// job reuses.
#ifndef BRAID_PIPELINE_STORE_VERIFIED_STAGE_H_
#define BRAID_PIPELINE_STORE_VERIFIED_STAGE_H_

#include <filesystem>
#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

// Compares the files of the stage output in `directory` for whose names `wanted` is true with its
// manifest. Each version of a file (file_version.h) is read once per process, at about the speed of
// the disk. DATA_LOSS or NOT_FOUND names the file; the remedy is to submit the corpus again, which
// rebuilds the output. Thread-safe.
absl::Status VerifyStageFiles(const std::filesystem::path& directory,
                              const std::function<bool(std::string_view name)>& wanted);

// Verifies the file of this name, which the manifest must list.
absl::Status VerifyStageFile(const std::filesystem::path& directory, std::string_view name);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_VERIFIED_STAGE_H_
