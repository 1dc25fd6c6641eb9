// Dropout of one layer's FFN in training: the random keys of its tokens, the loss of learned rates,
// and the dropout of whole experts. Tensor code: private to model/.
#ifndef BRAID_MODEL_ROUTING_TRAINING_DROPOUT_H_
#define BRAID_MODEL_ROUTING_TRAINING_DROPOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "model/kernels/ffn_dropout.h"
#include "model/routing/ffn_weights.h"
#include "model/routing/routing_context.h"
#include "model/routing/token_choice.h"

namespace braid {

// Returns the dropout of the hidden units of batch * length tokens, none outside training or when
// the model drops whole experts. Blocks of units stay within multiples of `span`.
FfnDropout DropoutOf(const RoutingContext& context, const FfnWeights& weights, int64_t batch,
                     int64_t length, int64_t span);

// Makes every chosen expert of every token absent with probability `rate`, and divides the weights
// of the others, of the type of `options`, by 1 - rate (dropout kind EXPERTS); returns the choice
// itself with other kinds.
TokenChoice DropExperts(const TokenChoice& choice, const RoutingContext& context, int64_t batch,
                        int64_t length, const at::TensorOptions& options);

// Returns the loss of a layer's learned rate p, a scalar (arXiv 1705.07832, appendix C):
// 1e-6 |W_down|^2 / (1 - p) + 1e-5 units (p log p + (1 - p) log (1 - p)), where `units` is the
// number of hidden units that a token uses. Undefined without concrete dropout.
at::Tensor ConcreteLoss(const FfnWeights& weights, int64_t units);

}  // namespace braid

#endif  // BRAID_MODEL_ROUTING_TRAINING_DROPOUT_H_
