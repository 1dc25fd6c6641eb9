// Mixing of layers (MoLEx, arXiv 2503.11144, equation 4): a gate chooses layers i that work on the
// residual stream z beside layer t itself,
//   z + alpha u_t(z) + (1 - alpha) sum_i w_i u_i(z) = h_t + sum_i c_i (h_i - h_t),
// where h_i = z + u_i(z) is the output of layer i and c_i = (1 - alpha) w_i. The rest of the weight
// is the layer's own, so a choice of the layer itself costs nothing and changes no bit. Tensor
// code: private to model/.
#ifndef BRAID_MODEL_LAYER_MIXING_H_
#define BRAID_MODEL_LAYER_MIXING_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "braid/v1/model.pb.h"
#include "model/routing/routing_context.h"

namespace braid {

// A gate that scores the M mixing layers; tensors that it lacks are undefined.
struct MixingGate {
  at::Tensor weight;      // [M, D]; [M, P] with the score COSINE
  at::Tensor bias;        // [M], score LINEAR
  at::Tensor projection;  // [P, D], score COSINE
  at::Tensor log_scale;   // [1], score COSINE: logarithm of 1 / temperature
};

struct MixingWeights {
  std::vector<MixingGate> gates;  // one for all mixing layers, or one each
  at::Tensor alpha;               // [1]; undefined unless alpha is learned
};

// The positions that are decided together with the decision SEQUENCE.
struct MixingUnits {
  at::Tensor first;   // [B, L] int64: first position of the example of each position
  at::Tensor prompt;  // [B, L] bool: whether the position takes part in the decision
};

// Returns the examples of a batch: those of first_visible [B, L], or whole sequences where it is
// undefined. The prompt of an example ends with its first position that has a target, where
// targeted [B, L] is 1; without targets it is the first position.
MixingUnits UnitsOf(const at::Tensor& first_visible, const at::Tensor& targeted, int64_t batch,
                    int64_t length, at::Device device);

// The layers that T positions chose, as indices into the mixing layers.
struct MixingChoice {
  at::Tensor chosen;   // [T, K] int32, ascending
  at::Tensor weights;  // [T, K], differentiable in the gate unless they are 1
};

// What positions of a mixing layer take of another layer.
struct MixedPart {
  int layer = 0;
  at::Tensor coefficients;  // [T], 0 where a position did not choose it
  at::Tensor takers;        // [T] bool: the positions that chose it, at least one
};

// The choices of the mixing layers of a resolved configuration, which must outlive it.
class LayerMixer {
 public:
  LayerMixer(const v1::ModelConfig& config, const MixingWeights& weights);

  // Returns whether the layer may take a second pass.
  bool Mixes(int layer) const;

  // Chooses layers for z [B, L, D]. `balance_loss`, where it is not null, receives the loss of each
  // sequence [B], without coefficient; it stays undefined without one. context.layer is the mixing
  // layer. In training random gates depend on the batch, outside of it on the layer alone.
  MixingChoice Choose(const at::Tensor& z, const MixingUnits& units, bool training,
                      const RoutingContext& context, at::Tensor* balance_loss = nullptr) const;

  // Returns the layers of the model that a choice names, [T, K] int32.
  at::Tensor LayersOf(const MixingChoice& choice) const;

  // Returns the layers other than `layer` that a choice takes, ascending.
  std::vector<MixedPart> PartsOf(int layer, const MixingChoice& choice) const;

 private:
  struct Scores {
    at::Tensor ranking;        // [T, M], without gradient
    at::Tensor scores;         // [T, M], those of a decision
    at::Tensor probabilities;  // [T, M], those of a decision
  };
  Scores Decide(const at::Tensor& z, const MixingUnits& units, const MixingGate& gate,
                const RoutingContext& context) const;
  Scores DecideTogether(const Scores& own, const RoutingContext& context) const;
  Scores RandomScores(const at::Tensor& z, const MixingUnits& units, bool training,
                      const RoutingContext& context) const;

  const v1::ModelConfig& config_;
  const MixingWeights& weights_;
  const std::vector<int> layers_;
  const bool idle_;
};

}  // namespace braid

#endif  // BRAID_MODEL_LAYER_MIXING_H_
