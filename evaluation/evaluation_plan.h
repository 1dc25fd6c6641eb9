// Resolves an EvaluateRequest: which models are scored, on which tokens, and how.
#ifndef BRAID_EVALUATION_EVALUATION_PLAN_H_
#define BRAID_EVALUATION_EVALUATION_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "braid/v1/evaluation.pb.h"
#include "evaluation/document_reader.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/statistics/bootstrap.h"
#include "runs/checkpoint.h"
#include "runs/model_path.h"

namespace braid {

// The text as cut for the models that share a tokenizer, a context length and a start token.
struct TextCut {
  FileSummary tokenizer;
  // Documents of files begin with BOS.
  bool begin_with_bos = false;
  int64_t window_length = 0;
  // Number of leading tokens of each window that the main figures leave out: the longest segment of
  // the models that route on other tokens, or of all models when none does. Segments that fill the
  // window do not count; 0 when all do, and for answers.
  int64_t first_segment_length = 0;
  EvaluationText text;
};

struct ModelToScore {
  // As given in the request.
  std::string name;
  std::filesystem::path checkpoint;
  bool average = false;  // the average of the checkpoint's weights is scored
  v1::ModelSource source;
  v1::ModelConfig config;
  // Index into EvaluationPlan::cuts.
  size_t cut = 0;
  std::vector<v1::InferenceRouting> routings;
  // Numbers of active experts, each scored with every routing; empty for the model's own number.
  std::vector<int> active_experts;
  std::optional<uint64_t> routing_seed = {};
  // Scored after the routings; empty for a model that merges no experts.
  std::vector<v1::FixedWeights> fixed_weights;
};

struct EvaluationPlan {
  std::vector<ModelToScore> models;
  std::vector<TextCut> cuts;
  BootstrapOptions bootstrap;
  bool want_windows = false;
  // As in EvaluateRequest.
  double embedding_noise = 0;
  uint64_t noise_seed = 0;
  // Empty when files are evaluated.
  std::filesystem::path dataset_dir;
  // Statistics of the files, when files are evaluated.
  ReadSummary read;

  // Returns the number of windows to score, over all models, routings and fixed weights.
  int64_t num_windows() const;
};

// Reads everything except the models' weights. Errors are those of Evaluate (perplexity.h).
absl::StatusOr<EvaluationPlan> PlanEvaluation(const v1::EvaluateRequest& request,
                                              const DocumentReader& reader);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATION_PLAN_H_
