// Writes a checkpoint at step 0 from weights that are read one part at a time, so that a model can
// be imported in a small share of the memory that it needs in use.
#ifndef BRAID_INFERENCE_HUGGINGFACE_IMPORTED_CHECKPOINT_H_
#define BRAID_INFERENCE_HUGGINGFACE_IMPORTED_CHECKPOINT_H_

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "formats/weight_files.h"
#include "inference/huggingface/file_tensor.h"

namespace braid {

// Returns whether the files of a GPT-2 name its tensors without "transformer.".
bool HasBareNames(const WeightFiles& weights);

// Receives the next values of a parameter, valid during the call.
using TakeValues = std::function<absl::Status(std::span<const float>)>;

// Reads the part of a parameter that `tensor` holds, in the order of its elements. A tensor that is
// transposed and holds several parameters is one matrix. Errors are those of WeightFiles::ReadRange
// and of `take`.
absl::Status ReadParameterPart(const WeightFiles& weights, const FileTensor& tensor,
                               const TakeValues& take);

// Converts `weights`, which hold every tensor of `config` (FileTensorsOf) with its shape, and
// writes a whole checkpoint with zero moments to `directory`. Uses 16 MiB of memory, or three times
// the largest matrix that is stored transposed. Errors are those of WeightFiles::ReadRange and of
// writing.
absl::Status WriteImportedCheckpoint(const WeightFiles& weights, const v1::ModelConfig& config,
                                     const std::string& tokenizer_bytes,
                                     const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_IMPORTED_CHECKPOINT_H_
