// The FFN parameters of one layer. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_
#define BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include "model/kernels/soft_merge.h"

namespace braid {

struct FfnWeights {
  at::Tensor router;   // [E, D], undefined when dense
  at::Tensor gate_up;  // [2F, D] dense, [2, E, F, D] experts
  at::Tensor down;     // [F, D] dense, [E, F, D] experts

  SoftExperts experts() const { return {gate_up, down}; }
};

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_FFN_WEIGHTS_H_
