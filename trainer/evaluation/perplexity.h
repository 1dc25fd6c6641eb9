// Perplexity on the held-out windows of a packed dataset, by domain.
#ifndef BRAID_TRAINER_EVALUATION_PERPLEXITY_H_
#define BRAID_TRAINER_EVALUATION_PERPLEXITY_H_

#include <cstdint>
#include <filesystem>
#include <functional>

#include "absl/status/statusor.h"
#include "braid/v1/analysis.pb.h"
#include "trainer/model/language_model.h"

namespace braid {

struct EvaluationOptions {
  MergeMode mode = MergeMode::kSegment;
  // 0: all.
  int64_t max_windows_per_domain = 0;
};

// Windows scored and to score.
using EvaluationProgress = std::function<void(int64_t done, int64_t total)>;

// Scores every held-out window once. Losses after the first segment leave out
// the first segment_length positions of each window: there an expert model that
// routes on itself sees the tokens that it predicts. Routing weights are means
// over the segments that hold text. The result has no model name and step.
absl::StatusOr<v1::Evaluation> EvaluateModel(LanguageModel& model,
                                             const std::filesystem::path& dataset_dir,
                                             const EvaluationOptions& options,
                                             const EvaluationProgress& progress);

// The whole request: `request.model` is a run or checkpoint directory. The last
// event carries the result. FailedPrecondition when the dataset was made with
// another tokenizer.
absl::Status Evaluate(const v1::EvaluateRequest& request,
                      const std::function<void(const v1::EvaluateEvent&)>& emit);

}  // namespace braid

#endif  // BRAID_TRAINER_EVALUATION_PERPLEXITY_H_
