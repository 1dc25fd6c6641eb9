// An expert model as the dense one that a single routing decision makes of it.
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

// Parameters of DenseCounterpart(model.config()), where the FFN of each layer is
// the mixture of experts that MergeMode::kPrompt uses after `prompt`.
class BakedWeights {
 public:
  // `model` must outlive this. InvalidArgument for a prompt that does not fit;
  // FailedPrecondition for EXPERT_CHOICE_TOKEN, which has no such mixture.
  static absl::StatusOr<BakedWeights> Create(LanguageModel& model, std::span<const int32_t> prompt);

  const v1::ModelConfig& config() const { return config_; }
  // By layer.
  const std::vector<ExpertMixture>& mixtures() const { return mixtures_; }

  // Values of a parameter of config(); valid until the next call. NotFound for
  // another name.
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
