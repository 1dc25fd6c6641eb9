// How the experts that tokens choose change during training.
#ifndef BRAID_EVALUATION_CHOICE_DRIFT_H_
#define BRAID_EVALUATION_CHOICE_DRIFT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "evaluation/expert_activity.h"
#include "model/language_model.h"
#include "runs/model_path.h"

namespace braid::v1 {
class ChoiceDrift;
}  // namespace braid::v1

namespace braid {

// Compares, token by token, the experts of `options` that held-out windows choose in successive
// checkpoints of the run up to `newest`, which `model` is: by layer, oldest pair first. Last comes
// the model that the run started from (RunSpec.init_from), as step 0, with `newest`. Models with
// another configuration, such as those before experts were in use, and damaged ones are left out,
// as is a start that was deleted; `skipped` gets a sentence for each damaged one. Holds two models
// at a time, and 24 bytes for each token and layer.
absl::StatusOr<std::vector<v1::ChoiceDrift>> MeasureChoiceDrift(
    const std::filesystem::path& run, const ModelPath& newest, LanguageModel& model,
    const std::filesystem::path& dataset_dir, const ExpertActivityOptions& options,
    std::vector<std::string>* skipped);

}  // namespace braid

#endif  // BRAID_EVALUATION_CHOICE_DRIFT_H_
