#include "inference/loaded_model.h"

#include "base/status_macros.h"
#include "inference/text_generation.h"
#include "model/config/head_config.h"
#include "runs/model_path.h"
#include "trainer/training_state.h"

namespace braid {

absl::StatusOr<LoadedModel> LoadedModel::Load(const std::filesystem::path& path, bool strict) {
  ASSIGN_OR_RETURN(const ModelPath found, FindModel(path, strict));
  RETURN_IF_ERROR(CheckPredictsTokens(found.state.model, path.string()));
  LoadedModel loaded{found.source, nullptr, nullptr};
  ASSIGN_OR_RETURN(loaded.model, LoadModel(found.checkpoint, found.state.use_average));
  ASSIGN_OR_RETURN(loaded.tokenizer, Tokenizer::Load(found.checkpoint / "tokenizer.model"));
  RETURN_IF_ERROR(CheckVocabulary(*loaded.tokenizer, loaded.model->config()));
  return loaded;
}

}  // namespace braid
