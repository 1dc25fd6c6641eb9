// Converts checkpoints between dense FFNs and experts that are slices of them.
#ifndef BRAID_INFERENCE_MODEL_CONVERSION_H_
#define BRAID_INFERENCE_MODEL_CONVERSION_H_

#include <filesystem>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"
#include "model/language_model.h"
#include "runs/model_path.h"

namespace braid {

struct ConvertedModel {
  std::unique_ptr<LanguageModel> model;
  // The units of each layer that was split.
  v1::Conversion record;
  // Seconds that assigning units to experts took, and that joining experts took.
  double split_seconds = 0, join_seconds = 0;
};

// Splits the FFNs of a dense model: a permutation of hidden units whose slices become the experts
// of a TOKEN_CHOICE model with combine weights ONES, which with all experts active computes the
// same function. InvalidArgument for a model with experts, layers that it does not have or that are
// listed twice, and numbers of experts that do not divide d_ff.
absl::StatusOr<ConvertedModel> SplitIntoExperts(LanguageModel& dense, const v1::ExpertSplit& split);

// Puts the experts of every layer together. `record`: that of the split, or null, when units keep
// the order of the experts. What SplitIntoExperts has split becomes the same bytes again.
// InvalidArgument for models whose experts are not slices of one FFN: other routers, copies, and
// combine weights other than ONES. DataLoss when the record does not fit the model.
absl::StatusOr<std::unique_ptr<LanguageModel>> JoinExperts(LanguageModel& experts,
                                                           const v1::Conversion* record);

// Returns conversion.textproto of the split that made the checkpoint or the one that it was trained
// from or given noise, over any number of runs; nullopt when there is none, only some experts were
// kept, or a model on the way was removed. Where one is damaged or was replaced after it was given
// noise, model->source names it, or with `strict` it is an error (AddSkipped).
absl::StatusOr<std::optional<v1::Conversion>> FindConversion(ModelPath* model, bool strict);

// Returns whether exports of the model put its experts together (Finetuning.recompose).
absl::StatusOr<bool> IsRecomposed(const ModelPath& model);

// Loads the model with its experts put together. Units return to their places when FindConversion
// has a record. `join_seconds`: set to the time of JoinExperts. Errors: those of LoadModel,
// FindConversion and JoinExperts.
absl::StatusOr<std::unique_ptr<LanguageModel>> LoadRecomposed(ModelPath* model, bool strict,
                                                              double* join_seconds = nullptr);

// Handles a conversion request. The result is a checkpoint at step 0 with conversion.textproto.
absl::StatusOr<v1::ConvertResponse> Convert(const v1::ConvertRequest& request);

}  // namespace braid

#endif  // BRAID_INFERENCE_MODEL_CONVERSION_H_
