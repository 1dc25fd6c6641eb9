// Gradients of one step over the global batch: a sum over this rank's micro-batches and then over
// ranks. The sum over ranks overlaps with the backward pass of the last micro-batch.
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

// Sums over the sequences of one dataset of a mixture.
struct DatasetSums {
  double loss = 0;  // nats
  double num_tokens = 0;
};

// Results over the global batch. The same on every rank, except for `routing` and `layer_choices`.
struct GradientPass {
  double loss = 0;  // nats per token; NaN without tokens
  // Nats per token after first segments; 0 without such tokens and for supervised data.
  double loss_after_first_segment = 0;
  double gradient_norm = 0;  // for the mean loss, before clipping
  int64_t num_tokens = 0;
  std::vector<DatasetSums> datasets;  // RankBatch::num_datasets elements
  // Balance loss per token, before its coefficient; 0 for models without one.
  double balance_loss = 0;
  // Divergence of the two passes of a consistency loss, nats per token; 0 without that loss.
  double divergence = 0;
  // Mean number of experts per token and layer with the gate RELU; 0 with other gates.
  double active_experts = 0;
  // With centered_input: the mean FFN input of a token, [layers with experts * D]; else empty.
  std::vector<double> input_means;
  // This rank's part, one entry per layer of MoeLayers; empty unless requested.
  std::vector<RoutingTotals> routing;
  // This rank's part, one entry per mixing layer; empty unless requested.
  std::vector<LayerChoiceCounts> layer_choices;
};

// This rank's part of a step.
struct RankBatch {
  int64_t step = 0;   // 0-based
  uint64_t seed = 0;  // the seed of the run, for routers with random numbers
  std::vector<int64_t> instances;
  // The dataset of each instance.
  std::vector<int32_t> datasets;
  // The number of datasets of a mixture, whose losses are wanted; 0 without one.
  int32_t num_datasets = 0;
  Batch batch;
  // Sequences per forward and backward pass. At least this rank's part of the batch for models
  // whose whole batch chooses layers (MixesByBatch).
  int64_t micro_batch_size = 1;
  // True if a loss or gradient that is not finite is an error.
  bool must_be_finite = true;
};

// Returns the numbers by which the sequences [begin, end) draw random numbers: those of their
// instances, apart for each dataset of a mixture.
std::vector<int64_t> SequenceIdentities(const RankBatch& work, int64_t begin, int64_t end);

// Computes d(mean token loss over the global batch)/d(parameter) into model.gradients(), valid
// where `reducer` puts sums: this rank's shard (ZERO_1) or everything (REPLICATED). Collective.
// Every rank needs sequences where layers are chosen for the whole batch.
// When a loss or gradient is not finite and must be, every rank returns the same Internal error
// naming step, rank and instances, and the weights are unchanged. Without a token to predict in the
// global batch the gradients are undefined and the pass has no tokens on any rank.
absl::StatusOr<GradientPass> ComputeGradients(const RankBatch& work, bool measure_routing,
                                              LanguageModel& model, GradientReducer& reducer,
                                              Communicator& communicator);

}  // namespace braid

#endif  // BRAID_TRAINER_GRADIENT_PASS_H_
