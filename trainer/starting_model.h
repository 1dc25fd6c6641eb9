// The model that a run begins with.
#ifndef BRAID_TRAINER_STARTING_MODEL_H_
#define BRAID_TRAINER_STARTING_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "model/language_model.h"

namespace braid {

// Requires a resolved spec. Weights of the seed, or those of `init_from`. Dense
// when the run has a dense warm-up, and when init_from is dense: it becomes
// experts when the warm-up is over (at once when there is none). Otherwise the
// spec's own model. DataLoss when init_from is damaged.
absl::StatusOr<std::unique_ptr<LanguageModel>> StartingModel(const v1::RunSpec& spec);

}  // namespace braid

#endif  // BRAID_TRAINER_STARTING_MODEL_H_
