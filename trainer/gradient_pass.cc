#include "trainer/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "model/config/model_config.h"
#include "model/config/shard.h"
#include "model/kernels/phase_times.h"
#include "trainer/gradient_clip.h"

namespace braid {
namespace {

// Sums over micro-batches and ranks.
struct Sums {
  double loss = 0;
  double num_tokens = 0;
  double loss_after = 0;
  double num_tokens_after = 0;
  double balance = 0;
  double divergence = 0;
  double active_experts = 0;
  std::vector<DatasetSums> datasets;
};

void ZeroGradients(std::span<float> gradients) {
  const int64_t size = static_cast<int64_t>(gradients.size());
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) gradients[i] = 0.0f;
}

void AddRouting(const TrainResult& result, const Batch& micro, const v1::ModelConfig& config,
                std::vector<RoutingTotals>* totals) {
  totals->resize(result.routing.size(), RoutingTotals(config.routing().num_experts()));
  for (size_t i = 0; i < result.routing.size(); ++i) {
    AddBatch(result.routing[i].weights, micro.lengths, TokensPerDecision(config), &(*totals)[i],
             result.routing[i].chosen);
  }
}

// Adds the losses of sequences [begin, ...) of this rank to their datasets, if they are wanted.
void AddDatasets(const RankBatch& work, int64_t begin, const Batch& micro,
                 const TrainResult& result, Sums* sums) {
  if (sums->datasets.empty()) return;
  for (int64_t b = 0; b < micro.batch_size; ++b) {
    DatasetSums& dataset = sums->datasets[work.datasets[begin + b]];
    dataset.loss += result.sequence_loss[b];
    dataset.num_tokens += static_cast<double>(micro.target_counts[b]);
  }
}

// Adds the sequences [begin, end) of the rank's batch.
absl::Status AddMicroBatch(const RankBatch& work, int64_t begin, int64_t end, double gradient_scale,
                           bool measure_routing, LanguageModel& model, Sums* sums,
                           std::vector<RoutingTotals>* routing,
                           const GradientsReady& gradients_ready = nullptr) {
  const Batch micro = work.batch.Slice(begin, end);
  BatchIdentity identity = {.seed = work.seed, .step = work.step};
  identity.first_visible = micro.first_visible;
  identity.numbers = micro.numbers;
  if (!work.instances.empty()) {
    identity.instances = std::span(work.instances).subspan(begin, end - begin);
  }
  ASSIGN_OR_RETURN(
      const TrainResult result,
      model.ForwardBackward(micro.inputs, micro.targets, micro.batch_size, gradient_scale,
                            measure_routing, gradients_ready, identity));
  sums->loss += result.loss_sum;
  sums->num_tokens += static_cast<double>(result.num_tokens);
  sums->loss_after += result.loss_sum_after_first_segment;
  sums->num_tokens_after += static_cast<double>(result.num_tokens_after_first_segment);
  sums->balance += result.balance_loss_sum;
  sums->divergence += result.divergence_sum;
  sums->active_experts += result.active_experts_sum;
  AddDatasets(work, begin, micro, result, sums);
  if (measure_routing) AddRouting(result, micro, model.config(), routing);
  return absl::OkStatus();
}

absl::StatusOr<double> GlobalTokens(const Batch& batch, Communicator& communicator) {
  const ScopedPhase phase(Phase::kCommunication);
  double tokens = static_cast<double>(batch.num_targets);
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(&tokens, 1)));
  if (tokens == 0)
    return absl::DataLossError("the global batch has no token to predict; check the dataset");
  return tokens;
}

// Sums the losses over ranks and computes the global norm of the reduced gradients in the same
// message. Each rank writes the square sum of its shard to its own element, and every rank adds the
// elements in the same order, so the norm has the same bits on all ranks.
absl::Status ReduceSums(std::span<const float> gradients, Communicator& communicator, Sums* sums,
                        double* gradient_norm) {
  const int rank = communicator.rank(), world_size = communicator.world_size();
  std::vector<double> values = {
      sums->loss,    sums->num_tokens, sums->loss_after,    sums->num_tokens_after,
      sums->balance, sums->divergence, sums->active_experts};
  const size_t first_dataset = values.size();
  for (const DatasetSums& dataset : sums->datasets) {
    values.push_back(dataset.loss);
    values.push_back(dataset.num_tokens);
  }
  const size_t first = values.size();
  values.resize(first + world_size);
  const Shard own = ShardOf(gradients.size(), rank, world_size);
  values[first + rank] = SumOfSquares(gradients.subspan(own.begin, own.size()));
  const ScopedPhase phase(Phase::kCommunication);
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(values)));
  sums->loss = values[0], sums->num_tokens = values[1];
  sums->loss_after = values[2], sums->num_tokens_after = values[3];
  sums->balance = values[4], sums->divergence = values[5];
  sums->active_experts = values[6];
  for (size_t d = 0; d < sums->datasets.size(); ++d) {
    const size_t at = first_dataset + 2 * d;
    sums->datasets[d] = {.loss = values[at], .num_tokens = values[at + 1]};
  }
  *gradient_norm = std::sqrt(std::accumulate(values.begin() + first, values.end(), 0.0));
  return absl::OkStatus();
}

int64_t MicroEnd(const RankBatch& work, int64_t begin) {
  return std::min(begin + work.micro_batch_size, work.batch.batch_size);
}

// Returns "3, 17", or "3 of dataset 0, 17 of dataset 1" in a mixture.
std::string InstanceNames(const RankBatch& work, int64_t begin, int64_t end) {
  std::vector<std::string> names;
  for (int64_t i = begin; i < end; ++i) {
    names.push_back(absl::StrCat(work.instances[i]));
    if (work.num_datasets > 0) absl::StrAppend(&names.back(), " of dataset ", work.datasets[i]);
  }
  return absl::StrJoin(names, ", ");
}

// Repeats one micro-batch alone, to find the source of a value that is not finite.
absl::Status CheckFinite(const RankBatch& work, int64_t begin, double gradient_scale, int rank,
                         LanguageModel& model) {
  const int64_t end = MicroEnd(work, begin);
  ZeroGradients(model.gradients());
  Sums sums;
  RETURN_IF_ERROR(AddMicroBatch(work, begin, end, gradient_scale, false, model, &sums, nullptr));
  const bool loss = !std::isfinite(sums.loss);
  if (!loss && std::isfinite(GlobalNorm(model.gradients()))) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("step ", work.step + 1, ", rank ", rank, ": the ", loss ? "loss" : "gradient",
                   " is not finite on instances ", InstanceNames(work, begin, end),
                   "; weights are those of step ", work.step,
                   "; try a lower optimizer.learning_rate or optimizer.clip_norm"));
}

// Returns the error of a step whose loss or gradient is not finite, the same on every rank: the
// first micro-batch of the lowest rank that is not finite by itself. Sums over micro-batches and
// ranks hide which of them was the source, so the step is repeated here; the weights have not been
// updated yet.
absl::Status NonFinite(const RankBatch& work, double gradient_scale, LanguageModel& model,
                       Communicator& communicator) {
  absl::Status mine;
  for (int64_t begin = 0; begin < work.batch.batch_size && mine.ok();
       begin += work.micro_batch_size) {
    mine = CheckFinite(work, begin, gradient_scale, communicator.rank(), model);
  }
  RETURN_IF_ERROR(AgreeOnStatus(communicator, mine));
  return AgreeOnStatus(communicator, absl::InternalError(absl::StrCat(
                                         "step ", work.step + 1,
                                         ": the gradient summed over the batch is not finite")));
}

}  // namespace

// The loss is scaled by 1 / (tokens of the global batch) before backward, so gradients are those of
// the mean over all tokens and no division follows the reduction. It is therefore independent of
// how sequences are distributed over ranks and micro-batches, even when they are padded
// differently.
absl::StatusOr<GradientPass> ComputeGradients(const RankBatch& work, bool measure_routing,
                                              LanguageModel& model, GradientReducer& reducer,
                                              Communicator& communicator) {
  ASSIGN_OR_RETURN(const double tokens, GlobalTokens(work.batch, communicator));
  const double scale = 1.0 / tokens;
  ZeroGradients(model.gradients());
  reducer.Begin(model.gradients());
  Sums sums;
  sums.datasets.resize(work.num_datasets);
  GradientPass pass;
  const GradientsReady reduce = [&](Shard part) { reducer.Ready(part); };
  for (int64_t begin = 0; begin < work.batch.batch_size; begin += work.micro_batch_size) {
    // Earlier micro-batches leave gradients incomplete, so only the last one reports ranges to the
    // reducer, which sums them over ranks while the rest of the backward pass runs.
    const int64_t end = MicroEnd(work, begin);
    RETURN_IF_ERROR(AddMicroBatch(work, begin, end, scale, measure_routing, model, &sums,
                                  &pass.routing, end == work.batch.batch_size ? reduce : nullptr));
  }
  {
    const ScopedPhase phase(Phase::kCommunication);
    RETURN_IF_ERROR(reducer.Finish());
  }
  RETURN_IF_ERROR(ReduceSums(model.gradients(), communicator, &sums, &pass.gradient_norm));
  const bool finite = std::isfinite(sums.loss) && std::isfinite(pass.gradient_norm);
  if (!finite && work.must_be_finite) {
    return NonFinite(work, scale, model, communicator);
  }
  pass.loss = sums.loss / sums.num_tokens;
  if (sums.num_tokens_after > 0) {
    pass.loss_after_first_segment = sums.loss_after / sums.num_tokens_after;
  }
  pass.num_tokens = static_cast<int64_t>(sums.num_tokens);
  pass.balance_loss = sums.balance / sums.num_tokens;
  pass.divergence = sums.divergence / sums.num_tokens;
  const auto layers = static_cast<double>(std::max<size_t>(MoeLayers(model.config()).size(), 1));
  pass.active_experts = sums.active_experts / sums.num_tokens / layers;
  pass.datasets = std::move(sums.datasets);
  return pass;
}

}  // namespace braid
