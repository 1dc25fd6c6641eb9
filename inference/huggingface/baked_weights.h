// Converts an expert model to the dense model of a single routing decision.
#ifndef BRAID_INFERENCE_HUGGINGFACE_BAKED_WEIGHTS_H_
#define BRAID_INFERENCE_HUGGINGFACE_BAKED_WEIGHTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "braid/v1/model.pb.h"
#include "model/language_model.h"

namespace braid {

// The parameters of DenseCounterpart(model.config()), in which the FFN of each layer is the mixture
// of experts that prompt routing (MergeMode::kPrompt) uses after `prompt`.
class BakedWeights {
 public:
  // Routes on `prompt`. `model` must outlive the result. InvalidArgument when the prompt does not
  // fit, and for a dense model; FailedPrecondition for EXPERT_CHOICE_TOKEN, which has no such
  // mixture.
  static absl::StatusOr<BakedWeights> Create(LanguageModel& model, std::span<const int32_t> prompt);

  const v1::ModelConfig& config() const { return config_; }
  // Returns the mixtures, by layer.
  const std::vector<ExpertMixture>& mixtures() const { return mixtures_; }

  // Returns the values of a parameter of config(), valid until the next call. NotFound for any
  // other name.
  absl::StatusOr<std::span<const float>> Values(const std::string& name);

 private:
  BakedWeights(LanguageModel& model, std::vector<ExpertMixture> mixtures);
  const Parameter* Find(const std::string& name) const;

  LanguageModel* model_;
  v1::ModelConfig config_;
  std::vector<ExpertMixture> mixtures_;
  std::vector<float> merged_;
};

}  // namespace braid

#endif  // BRAID_INFERENCE_HUGGINGFACE_BAKED_WEIGHTS_H_
