// The held-out examples of a supervised dataset as text to score: a window is a held-out sequence,
// only the tokens of answers count, and every example sees itself only, as in training.
#ifndef BRAID_EVALUATION_HELDOUT_ANSWERS_H_
#define BRAID_EVALUATION_HELDOUT_ANSWERS_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/token_bytes.h"
#include "formats/packed_dataset.h"

namespace braid {

// Returns the held-out answers of a supervised dataset, at most `max_windows` sequences per domain
// (0: all). A document is an example. With `alone`, refuses sequences of several examples as
// SupervisedTargets::Open does. FailedPrecondition when the dataset has no held-out split; errors
// of DataLoader and SupervisedTargets.
absl::StatusOr<EvaluationText> HeldoutAnswers(const std::filesystem::path& dataset_dir,
                                              const DatasetInfo& info, const TokenBytes& bytes,
                                              int64_t max_windows, bool alone);

}  // namespace braid

#endif  // BRAID_EVALUATION_HELDOUT_ANSWERS_H_
