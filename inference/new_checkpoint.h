// Checkpoints of models that no run has trained, such as converted ones.
#ifndef BRAID_INFERENCE_NEW_CHECKPOINT_H_
#define BRAID_INFERENCE_NEW_CHECKPOINT_H_

#include <filesystem>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "model/language_model.h"

namespace braid {

// Writes a checkpoint of step 0, with moments of zero, below `directory` and returns its path.
// `dataset_key` stands for the dataset that it was not trained on, such as "converted".
absl::StatusOr<std::filesystem::path> WriteNewCheckpoint(std::unique_ptr<LanguageModel> model,
                                                         const std::string& tokenizer_bytes,
                                                         const std::string& dataset_key,
                                                         const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_INFERENCE_NEW_CHECKPOINT_H_
