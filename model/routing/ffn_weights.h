// The FFN parameters of one layer. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_
#define BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/soft_merge.h"

namespace braid {

struct FfnWeights {
  at::Tensor router;  // [E, D], undefined without one; [E, P] for the gate COSINE
  // [2F, D] dense, [2, E, F, D] experts; of a GPT2 up alone, [F, D] or [1, E, F, D].
  at::Tensor gate_up;
  at::Tensor down;               // [F, D] dense, [E, F, D] experts
  at::Tensor router_projection;  // [P, D], gate COSINE only
  at::Tensor router_scale;       // [1], gate COSINE only: logarithm of 1 / temperature
  at::Tensor input_mean;         // [D], TokenRouting.centered_input only
  at::Tensor dropout_logit;      // [1], concrete dropout only
  at::Tensor up_bias;            // GPT2 only: [F] dense, [E, F] experts
  at::Tensor down_bias;          // [D], GPT2 only
  int layer = 0;

  SoftExperts experts() const { return {gate_up, down, up_bias, down_bias}; }
};

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_
