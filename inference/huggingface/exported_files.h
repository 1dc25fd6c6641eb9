// The names of the files in a directory in the format of Hugging Face that an export writes.
#ifndef BRAID_INFERENCE_HUGGINGFACE_EXPORTED_FILES_H_
#define BRAID_INFERENCE_HUGGINGFACE_EXPORTED_FILES_H_

#include <filesystem>

#include "absl/status/status.h"

namespace braid {

// Refuses, as replaceable_output.h, a directory without the configuration of a model or an adapter,
// and one with anything but files whose names exports have.
absl::Status CheckHoldsOnlyAnExport(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_EXPORTED_FILES_H_
