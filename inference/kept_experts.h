// Keeps the experts of each layer that a text uses most, as SMoE-Dropout slims a model before
// fine-tuning (openreview w1hwFUb_81).
#ifndef BRAID_INFERENCE_KEPT_EXPERTS_H_
#define BRAID_INFERENCE_KEPT_EXPERTS_H_

#include <filesystem>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/model_conversion.h"
#include "model/language_model.h"

namespace braid {

// Times that each expert was used, [N], by layer with experts.
using ExpertUse = std::map<int, std::vector<double>>;

// Routes the first `max_windows` instances of a packed dataset once, with the experts that the
// model uses. InvalidArgument when max_windows is below 1; FailedPrecondition when the dataset has
// another tokenizer than `checkpoint` or windows that do not fit the model.
absl::StatusOr<ExpertUse> CountExpertUse(LanguageModel& model,
                                         const std::filesystem::path& checkpoint,
                                         const std::filesystem::path& dataset_dir,
                                         int64_t max_windows);

// Returns a model with the `num_kept` most used experts of each layer, in their order; ties go to
// the lowest index. Tokens use as many experts as before, at most all. InvalidArgument for other
// routers than TOKEN_CHOICE, gates whose choice depends on the number of experts (RANDOM, HASH),
// and a number that is not 2 to N.
absl::StatusOr<ConvertedModel> KeepExperts(LanguageModel& model, const ExpertUse& use,
                                           int num_kept);

// Returns a dense model whose FFNs are the most used expert of each layer. A token with one expert
// to choose from uses it with the weight 1. InvalidArgument as above, for combine weights SCORES,
// which are not normalized, and when layers without experts have FFNs of another width.
absl::StatusOr<ConvertedModel> KeepOneExpert(LanguageModel& model, const ExpertUse& use);

}  // namespace braid

#endif  // BRAID_INFERENCE_KEPT_EXPERTS_H_
