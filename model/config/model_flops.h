// Arithmetic of training, in floating-point operations: a multiply-add counts as two. Only matrix
// products count, as in the usual definition of model FLOPs utilization (PaLM, arXiv 2204.02311,
// appendix B): nothing that is recomputed, and only the causal half of attention.
//
// Merging experts is extra work over a dense model of the same active size and is counted
// separately. For E experts and segments of S tokens, in units of the FFN's forward products: E/S
// to average the experts, E/S to average them again in backward, and 2E/S to spread the gradients
// over them.
//
// Where only a part of the parameters is trained, backward counts what their gradients need: the
// products with inputs of trained matrices, and those with the weights that lie between a trained
// matrix and the loss. Both passes of a consistency loss count.
#ifndef BRAID_MODEL_CONFIG_MODEL_FLOPS_H_
#define BRAID_MODEL_CONFIG_MODEL_FLOPS_H_

#include <optional>

#include "braid/v1/model.pb.h"

namespace braid {

// FLOPs per position, averaged over a full sequence.
struct ModelFlops {
  // Products with the parameters that a position uses, and attention.
  double forward = 0;
  double backward = 0;  // twice forward when all parameters are trained
  double merge_forward = 0;
  double merge_backward = 0;  // Averaging the experts again, and spreading the gradients.

  double active() const { return forward + backward; }
  double merge() const { return merge_forward + merge_backward; }
  double total() const { return active() + merge(); }
};

// Means over the positions of the data on which the FLOPs of a model depend. By default, sequences
// are full, each one document, with a target at every position.
struct DataMeans {
  // Keys that attention sees from a position, which the attention mask DOCUMENT and packed examples
  // lower; by default half of the sequence.
  std::optional<double> visible_keys = std::nullopt;
  // Share of positions that have a target; others need no head. What the last layer saves where few
  // have one is not subtracted.
  double target_share = 1;
  // Segments per position, which documents increase with segment_boundaries DOCUMENT; by default
  // 1 / segment_length.
  std::optional<double> segments = std::nullopt;
  // Experts that a position passes through, where their number varies (HasVaryingExperts); by
  // default the number that training aims at.
  std::optional<double> active_experts = std::nullopt;
};

// Returns the FLOPs per token of a configuration from ResolveModelConfig. `finetuning` is resolved.
ModelFlops FlopsPerToken(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning = {},
                         const DataMeans& data = {});

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MODEL_FLOPS_H_
