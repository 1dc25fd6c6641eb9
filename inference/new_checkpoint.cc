#include "inference/new_checkpoint.h"

#include <utility>

#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "runs/checkpoint_directory.h"
#include "trainer/training_state.h"

namespace braid {

absl::StatusOr<std::filesystem::path> WriteNewCheckpoint(std::unique_ptr<LanguageModel> model,
                                                         const std::string& tokenizer_bytes,
                                                         const std::string& dataset_key,
                                                         const std::filesystem::path& directory) {
  const std::filesystem::path tokenizer = directory / kTokenizerFile;
  RETURN_IF_ERROR(WriteFileAtomically(tokenizer, tokenizer_bytes));
  TrainingState state;
  state.upcycled = model->config().routing().num_experts() > 1;
  state.moments = {0, model->values().size()};
  state.m.assign(model->values().size(), 0.0f);
  state.v.assign(model->values().size(), 0.0f);
  state.model = std::move(model);
  RETURN_IF_ERROR(SaveState(state, directory, dataset_key, tokenizer));
  return CheckpointPath(directory, state.step);
}

}  // namespace braid
