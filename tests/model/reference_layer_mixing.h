// Layers that mix by equation 4 of arXiv 2503.11144, as plain loops over examples and layers.
#ifndef BRAID_TESTS_MODEL_REFERENCE_LAYER_MIXING_H_
#define BRAID_TESTS_MODEL_REFERENCE_LAYER_MIXING_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "braid/v1/model.pb.h"

namespace braid {

// An example within a batch: positions [begin, end) of a sequence, of which the first `prompt` are
// given.
struct MixingExample {
  int64_t sequence = 0, begin = 0, end = 0, prompt = 0;
};

struct MixingBatch {
  std::vector<MixingExample> examples = {};
  at::Tensor tokens = {};   // [B, L]
  at::Tensor targets = {};  // [B, L]; -1: none
};

// Parameters by name, in double precision.
using MixingParameters = std::map<std::string, at::Tensor>;

// Returns the sum of the losses of all targets, and `balance_weight` times the balancing loss.
// Differentiable.
at::Tensor ReferenceMixingLoss(const v1::ModelConfig& config, const v1::Finetuning& finetuning,
                               const MixingParameters& parameters, const MixingBatch& batch,
                               double balance_weight);

}  // namespace braid

#endif  // BRAID_TESTS_MODEL_REFERENCE_LAYER_MIXING_H_
