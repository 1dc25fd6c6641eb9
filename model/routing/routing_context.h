// What a router may use beside the activations of its layer. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_
#define BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "braid/v1/model.pb.h"
#include "model/config/rank_sum.h"

namespace braid {

struct DocumentSegments;

struct RoutingContext {
  int layer = 0;
  // The following identify a training batch; random numbers of routers are a pure function of seed,
  // step, layer, instance and position.
  uint64_t seed = 0;
  int64_t step = 0;
  // One per sequence of a pass; when empty, sequences are numbered from 0.
  std::span<const int64_t> instances;
  // The batch holds the same sequences this many times, one pass after the other, with different
  // random numbers.
  int64_t passes = 1;
  // [B, L] int64.
  at::Tensor tokens;
  // The segments of the batch with the boundaries DOCUMENT, otherwise null.
  const DocumentSegments* segments = nullptr;
  // [B, L] int32: the first position of each token's document, with document_pool; otherwise
  // undefined.
  at::Tensor document_starts = {};
  // Dropout of the hidden units; null outside training and without dropout.
  const v1::DropoutConfig* dropout = nullptr;
  // [B, L]: 1 for positions with a target, which count in a balance loss, 0 for others; undefined
  // where there are no targets.
  at::Tensor counted;
  // Receives the FFN's input x [B * L, D] of each layer, for analyses.
  std::function<void(int layer, const at::Tensor& x)> on_ffn_input = nullptr;
  // Receives the residual stream [B * L, D] after the embedding, as layer -1, and after each layer.
  std::function<void(int layer, const at::Tensor& h)> on_layer_output = nullptr;
  // Outside training: seed of the choices of the gate RANDOM; without it all experts are used.
  std::optional<uint64_t> routing_seed = {};
  // Finetuning.embedding_noise; 0 outside training.
  double embedding_noise = 0;
  // As in BatchIdentity; null where this rank computes the batch alone.
  const RankSum* sum_over_ranks = nullptr;
};

// Returns the key of the random numbers of sequence `sequence` of a batch of `batch`.
uint64_t SequenceKey(const RoutingContext& context, int64_t sequence, int64_t batch);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_ROUTING_CONTEXT_H_
