// The model with which a run begins.
#ifndef BRAID_TRAINER_STARTING_MODEL_H_
#define BRAID_TRAINER_STARTING_MODEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "braid/v1/training.pb.h"
#include "model/language_model.h"

namespace braid {

// Returns the initial model: seeded weights, or those of `init_from`. It is dense when the run has
// a dense warm-up or when init_from is dense, and is then upcycled when the warm-up is over (at
// once when there is none); otherwise it is the model of the spec. Requires a resolved spec.
// DataLoss when init_from is damaged.
absl::StatusOr<std::unique_ptr<LanguageModel>> StartingModel(const v1::RunSpec& spec);

}  // namespace braid

#endif  // BRAID_TRAINER_STARTING_MODEL_H_
