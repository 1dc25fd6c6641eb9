#include "trainer/starting_model.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/run_spec.h"
#include "trainer/checkpoint_weights.h"
#include "trainer/training_state.h"

namespace braid {
namespace {

// Parameters of layer mixing and a label head that `from` does not have keep their seeded values.
absl::Status CopyWeights(LanguageModel& from, const std::string& source, LanguageModel* to) {
  const std::vector<CheckpointTensor> all = BaseTensors(*to);
  const std::vector<CheckpointTensor> ours = HeldBy(from.config(), all);
  const std::vector<CheckpointTensor> theirs = HeldBy(to->config(), BaseTensors(from));
  const bool fits =
      std::ranges::equal(theirs, ours, [](const CheckpointTensor& a, const CheckpointTensor& b) {
        // A model for shorter sequences has the first learned positions.
        return a.name == b.name && (a.shape == b.shape ||
                                    (a.name == kPositionsName && a.value.size() >= b.value.size()));
      });
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_from: ", source, " holds weights of\n", from.config().DebugString(),
                     "which do not fit the requested model\n", to->config().DebugString()));
  }
  for (size_t i = 0; i < ours.size(); ++i) {
    std::ranges::copy(theirs[i].value.first(ours[i].value.size()), ours[i].value.begin());
  }
  return absl::OkStatus();
}

// Returns the model of a run that trains a part of its parameters: the weights are read into it, so
// that they exist once.
absl::StatusOr<std::unique_ptr<LanguageModel>> PartlyTrainedModel(const v1::RunSpec& spec) {
  const std::filesystem::path checkpoint = spec.init_from();
  RETURN_IF_ERROR(VerifyCheckpoint(checkpoint));
  ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(checkpoint));
  ASSIGN_OR_RETURN(auto model, LanguageModel::Create(spec.model(), spec.seed(), spec.finetuning()));
  RETURN_IF_ERROR(ReadMergedWeights(checkpoint, state, HeldBy(state.model, BaseTensors(*model))));
  return model;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LanguageModel>> StartingModel(const v1::RunSpec& spec) {
  if (IsPartial(spec.finetuning())) return PartlyTrainedModel(spec);
  const v1::ModelConfig dense = DenseCounterpart(spec.model());
  if (spec.init_from().empty()) {
    return LanguageModel::Create(DenseSteps(spec) > 0 ? dense : spec.model(), spec.seed(),
                                 spec.finetuning());
  }
  ASSIGN_OR_RETURN(const auto source, LoadModel(spec.init_from()));
  // A sequence or segment length other than the source's makes it another model.
  ASSIGN_OR_RETURN(auto model,
                   LanguageModel::Create(UsesExperts(source->config()) ? spec.model() : dense,
                                         spec.seed(), spec.finetuning()));
  RETURN_IF_ERROR(CopyWeights(*source, spec.init_from(), model.get()));
  return model;
}

}  // namespace braid
