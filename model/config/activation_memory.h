// Memory of one forward and backward pass beyond weights and their gradients. Pure arithmetic that
// follows transformer.cc and the fused CPU kernels; tests compare it with what the tensor library
// allocates.
#ifndef BRAID_MODEL_CONFIG_ACTIVATION_MEMORY_H_
#define BRAID_MODEL_CONFIG_ACTIVATION_MEMORY_H_

#include <cstdint>

#include "braid/v1/model.pb.h"

namespace braid {

// How far the backward pass reaches.
struct BackwardReach {
  // The first layer with trained parameters, or whose output depends, with a gradient, on a gate of
  // layers; 0 when the embedding is trained, and the number of layers when none is reached.
  int first_layer = 0;
  // True when the output head is trained.
  bool trains_head = true;
};

// Returns the reach of a model from ResolveModelConfig. `finetuning` is resolved.
BackwardReach BackwardReachOf(const v1::ModelConfig& resolved, const v1::Finetuning& finetuning);

struct ActivationMemory {
  int64_t kept_bytes = 0;       // saved for backward, of all layers
  int64_t transient_bytes = 0;  // peak of temporaries beside the saved tensors
  int64_t scratch_bytes = 0;    // kernel scratch, never returned to the system

  int64_t total_bytes() const { return kept_bytes + transient_bytes + scratch_bytes; }
};

// Returns the activation memory of a micro-batch of `batch_size` sequences of full length, for
// dense models, routers that merge experts (CAUSAL_SEGMENT, PREFIX) and TOKEN_CHOICE. Layers below
// the first with trained parameters save nothing. `finetuning` is resolved.
ActivationMemory ActivationsOf(const v1::ModelConfig& resolved, int64_t batch_size,
                               const v1::Finetuning& finetuning = {});

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_ACTIVATION_MEMORY_H_
