// What an EvaluateRequest comes to: which models are scored on which tokens, and how.
#ifndef BRAID_EVALUATION_EVALUATION_PLAN_H_
#define BRAID_EVALUATION_EVALUATION_PLAN_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/atomic_file.h"
#include "braid/v1/analysis.pb.h"
#include "evaluation/document_reader.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/statistics/bootstrap.h"
#include "runs/checkpoint.h"
#include "runs/model_path.h"

namespace braid {

// The text as models with one tokenizer and one context cut it.
struct TextCut {
  FileSummary tokenizer;
  int64_t window_length = 0;
  // Left out of the main figures: the longest segment of these models that have experts,
  // or of all where none has.
  int64_t first_segment_length = 0;
  EvaluationText text;
};

struct ModelToScore {
  // As the request calls it.
  std::string name;
  std::filesystem::path checkpoint;
  int64_t step = 0;
  v1::ModelConfig config;
  // Index into EvaluationPlan::cuts.
  size_t cut = 0;
  std::vector<v1::InferenceRouting> routings;
  // Scored after the routings; none for a model that merges no experts.
  std::vector<v1::FixedWeights> fixed_weights;
};

struct EvaluationPlan {
  std::vector<ModelToScore> models;
  std::vector<TextCut> cuts;
  BootstrapOptions bootstrap;
  bool want_windows = false;
  // Empty for files.
  std::filesystem::path dataset_dir;
  // Of files.
  ReadSummary read;

  // Of all models, routings and fixed weights.
  int64_t num_windows() const;
};

// Reads everything but the models' weights. Errors as of Evaluate (perplexity.h).
absl::StatusOr<EvaluationPlan> PlanEvaluation(const v1::EvaluateRequest& request,
                                              const DocumentReader& reader);

}  // namespace braid

#endif  // BRAID_EVALUATION_EVALUATION_PLAN_H_
