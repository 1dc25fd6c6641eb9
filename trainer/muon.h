// Muon (arXiv 2502.16982): updates that are orthogonal matrices, for the matrices of attention and
// FFNs. AdamW trains all other parameters.
#ifndef BRAID_TRAINER_MUON_H_
#define BRAID_TRAINER_MUON_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "braid/v1/model.pb.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"

namespace braid {

// The adjacent matrices of one parameter: the experts of a layer, or one. `offset` is that of the
// first in the array of gradients.
struct MuonMatrices {
  size_t offset = 0;
  int64_t count = 0, rows = 0, columns = 0;
  double rate_factor = 1;  // a factor of the learning rate

  size_t matrix_size() const { return static_cast<size_t>(rows * columns); }
  size_t end() const { return offset + static_cast<size_t>(count) * matrix_size(); }
};

// Returns the trained matrices of attention and FFNs in the order of the array of gradients. q, k,
// v, gate and up are matrices of their own. Adapters and routers are not among them.
std::vector<MuonMatrices> MuonMatricesOf(const v1::ModelConfig& resolved,
                                         const v1::Finetuning& finetuning);

// The momentum of arXiv 2502.16982 and a decoupled weight decay.
struct MuonSettings {
  double momentum = 0.95;
  double weight_decay = 0.1;
};

// Updates the part of `matrices` that lies in state.moments, with g = gradient_factor * gradient:
//   m = momentum * m + g,  O = Orthogonalize(g + momentum * m)
//   value = (1 - rate * weight_decay) * value - rate * 0.2 sqrt(max(rows, columns)) * O
// The gradients of the matrices are overwritten. Where shards cut matrices (at most one per rank),
// their parts are exchanged, so that weights are those of an optimizer that is not sharded; then
// the call is collective.
absl::Status MuonStep(const MuonSettings& settings, double learning_rate, double gradient_factor,
                      const std::vector<MuonMatrices>& matrices, TrainingState& state,
                      Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_MUON_H_
