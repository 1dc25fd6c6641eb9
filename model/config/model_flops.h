// Arithmetic of training, in floating-point operations: a multiply-add is two.
// Only matrix products count, as in the usual definition of model FLOPs
// utilisation (PaLM, arXiv 2204.02311, appendix B): nothing that is computed
// again, and of attention the causal half.
//
// Merging experts is extra work over a dense model of the same active size and is
// told apart: for E experts and segments of S tokens, in units of the FFN's forward
// products, E/S to average the experts, E/S to do it again in backward, and 2E/S
// to spread the gradients over them.
#ifndef BRAID_MODEL_CONFIG_MODEL_FLOPS_H_
#define BRAID_MODEL_CONFIG_MODEL_FLOPS_H_

#include "braid/v1/model.pb.h"

namespace braid {

// Of one position of a full sequence.
struct ModelFlops {
  // Products with the parameters that a position uses, and attention.
  double forward = 0;
  double backward = 0;  // twice forward
  double merge_forward = 0;
  double merge_backward = 0;  // averaging again, and spreading the gradients

  double active() const { return forward + backward; }
  double merge() const { return merge_forward + merge_backward; }
  double total() const { return active() + merge(); }
};

// `resolved` comes from ResolveModelConfig.
ModelFlops FlopsPerToken(const v1::ModelConfig& resolved);

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MODEL_FLOPS_H_
