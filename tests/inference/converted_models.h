// Models for tests of conversions, and the comparison of what they compute.
#ifndef BRAID_TESTS_INFERENCE_CONVERTED_MODELS_H_
#define BRAID_TESTS_INFERENCE_CONVERTED_MODELS_H_

#include <cstdint>
#include <vector>

#include "braid/v1/conversion.pb.h"
#include "model/language_model.h"
#include "tests/base/largest_difference.h"
#include "tests/inference/huggingface/exported_models.h"

namespace braid {
namespace model_conversion_test {

inline v1::ExpertSplit Split(int num_experts, v1::ExpertSplit::Method method, int active) {
  v1::ExpertSplit split;
  split.set_num_experts(num_experts);
  split.set_method(method);
  split.set_active_experts(active);
  return split;
}

// The largest difference of the logits of two models on the same tokens.
inline double LogitDifference(LanguageModel& a, LanguageModel& b) {
  std::vector<int32_t> tokens(2 * a.config().sequence_length());
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(i * 7 % a.config().vocab_size());
  }
  return LargestDifference(a.Logits(tokens, 2).value(), b.Logits(tokens, 2).value());
}

// Dense models with FFNs of three matrices, and of two with biases.
inline std::vector<v1::ModelConfig> Families() { return {ExportedConfig(1), ExportedGpt2()}; }

}  // namespace model_conversion_test
}  // namespace braid

#endif  // BRAID_TESTS_INFERENCE_CONVERTED_MODELS_H_
