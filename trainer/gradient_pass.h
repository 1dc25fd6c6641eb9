// Gradients of one step over the global batch: this rank's sequences in
// micro-batches, and the sum over ranks, which starts with the last micro-batch's
// backward pass.
#ifndef BRAID_TRAINER_GRADIENT_PASS_H_
#define BRAID_TRAINER_GRADIENT_PASS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "model/language_model.h"
#include "trainer/data_loader.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/routing_totals.h"

namespace braid {

// Over the global batch, the same on every rank, but for the routing.
struct GradientPass {
  double loss = 0;                      // nats per token
  double loss_after_first_segment = 0;  // 0 when no token is after it
  double gradient_norm = 0;             // of the mean loss, before clipping
  int64_t num_tokens = 0;
  // This rank's part, one for each of MoeLayers; only when asked.
  std::vector<RoutingTotals> routing;
};

// The part of this rank in a step.
struct RankBatch {
  int64_t step = 0;  // 0-based, for messages
  std::vector<int64_t> instances;
  Batch batch;
  int64_t micro_batch_size = 1;
};

// Leaves d(mean token loss over the global batch)/d(parameter) in
// model.gradients() where `reducer` puts sums: this rank's shard or everything. When a loss or
// gradient is not finite, every rank returns the same Internal error naming step, rank and
// instances; weights are not touched.
absl::StatusOr<GradientPass> ComputeGradients(const RankBatch& work, bool measure_routing,
                                              LanguageModel& model, GradientReducer& reducer,
                                              Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_GRADIENT_PASS_H_
