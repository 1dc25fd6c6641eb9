// Adapters as the files of the Python library PEFT: adapter_config.json and
// adapter_model.safetensors. docs/formats/export.md describes them.
#ifndef BRAID_INFERENCE_HUGGINGFACE_ADAPTER_FILES_H_
#define BRAID_INFERENCE_HUGGINGFACE_ADAPTER_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "inference/huggingface/adapter_config.h"
#include "runs/model_path.h"

namespace braid {

inline constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";
// Begins the keys of its metadata that hold checksums of the base's matrices.
inline constexpr char kBaseChecksum[] = "base_crc32c.";

// Writes the adapters of a checkpoint to `output`, completely or not at all, with the checksums of
// the base's matrices that they adapt in the metadata. InvalidArgument when
// it holds none, or other trained parameters too, which these files do not hold.
absl::StatusOr<v1::ExportResponse> ExportAdapter(const ModelPath& model, bool force,
                                                 const std::filesystem::path& output);

// Handles an import request with a base: writes a checkpoint at step 0 that holds the adapters of
// request.source_dir and refers to the base. InvalidArgument names the file and the field or tensor
// that is not supported (DoRA, ranks by pattern, biases, saved modules but a label head, tensors of
// other names or shapes), and a base that has adapters itself. FailedPrecondition names the first
// matrix of the base whose checksum is not that of the file, where it has checksums.
absl::StatusOr<v1::ImportResponse> ImportAdapter(const v1::ImportRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_ADAPTER_FILES_H_
