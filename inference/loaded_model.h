// A checkpoint loaded into memory for generation.
#ifndef BRAID_INFERENCE_LOADED_MODEL_H_
#define BRAID_INFERENCE_LOADED_MODEL_H_

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "formats/tokenizer.h"
#include "model/language_model.h"

namespace braid {

struct LoadedModel {
  v1::ModelSource source;
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;

  // Loads the model at `path` (see FindModel, whose errors it returns). DataLoss when the files of
  // the checkpoint do not match.
  static absl::StatusOr<LoadedModel> Load(const std::filesystem::path& path, bool strict);
};

}  // namespace braid

#endif  // BRAID_INFERENCE_LOADED_MODEL_H_
