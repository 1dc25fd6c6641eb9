// What a router may use beside the activations of its layer. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_
#define BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace braid {

struct RoutingContext {
  int layer = 0;
  // The following identify a training batch; random numbers of routers are a pure function of seed,
  // step, layer, instance and position.
  uint64_t seed = 0;
  int64_t step = 0;
  // [B], one per sequence; when empty, sequences are numbered from 0.
  std::span<const int64_t> instances;
  // [B, L]: 1 for positions that count in a balance loss, 0 for padding; undefined outside
  // training.
  at::Tensor counted;
};

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_
