#include "trainer/gradient_pass.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/shard.h"
#include "model/kernels/phase_times.h"
#include "trainer/gradient_clip.h"
#include "trainer/input_means.h"

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
  std::vector<double> inputs;
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

void AddChoices(const std::vector<LayerChoiceCounts>& counts,
                std::vector<LayerChoiceCounts>* totals) {
  if (totals->empty()) {
    *totals = counts;
    return;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    std::ranges::transform((*totals)[i].counts, counts[i].counts, (*totals)[i].counts.begin(),
                           std::plus());
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

// What the micro-batches of a step share.
struct PassStep {
  const RankBatch& work;
  double gradient_scale;
  LanguageModel& model;
  Communicator& communicator;
  bool alone = false;  // decisions for the whole batch are those of this rank's sequences
};

// Sequences [begin, end) of the rank's batch.
struct MicroBatch {
  int64_t begin = 0, end = 0;
};

// Returns the rank's micro-batches. Where the whole batch decides, ranks call each other within the
// model, so each has exactly one.
std::vector<MicroBatch> MicroBatchesOf(const PassStep& step) {
  const int64_t size = step.work.batch.batch_size, most = step.work.micro_batch_size;
  if (MixesByBatch(step.model.config())) {
    BRAID_CHECK(size > 0 && size <= most) << size << " sequences in micro-batches of " << most;
    return {{0, size}};
  }
  std::vector<MicroBatch> micros;
  for (int64_t begin = 0; begin < size; begin += most) {
    micros.push_back({begin, std::min(begin + most, size)});
  }
  return micros;
}

absl::StatusOr<TrainResult> RunMicroBatch(const PassStep& step, const MicroBatch& part,
                                          const Batch& micro, bool measure_routing,
                                          const GradientsReady& gradients_ready) {
  BatchIdentity identity = {.seed = step.work.seed, .step = step.work.step};
  identity.first_visible = micro.first_visible;
  identity.numbers = micro.numbers;
  const std::vector<int64_t> identities = SequenceIdentities(step.work, part.begin, part.end);
  identity.instances = identities;
  if (MixesByBatch(step.model.config()) && !step.alone) {
    identity.sum_over_ranks = [&](std::span<double> values) {
      const ScopedPhase phase(Phase::kCommunication);
      return step.communicator.AllReduceSum(values);
    };
  }
  return step.model.ForwardBackward(micro.inputs, micro.targets, micro.batch_size,
                                    step.gradient_scale, measure_routing, gradients_ready,
                                    identity);
}

absl::Status AddMicroBatch(const PassStep& step, const MicroBatch& part, bool measure_routing,
                           Sums* sums, GradientPass* pass,
                           const GradientsReady& gradients_ready = nullptr) {
  const Batch micro = step.work.batch.Slice(part.begin, part.end);
  ASSIGN_OR_RETURN(const TrainResult result,
                   RunMicroBatch(step, part, micro, measure_routing, gradients_ready));
  sums->loss += result.loss_sum;
  sums->num_tokens += static_cast<double>(result.num_tokens);
  // Answers are not divided by segments, as in validations.
  if (micro.first_visible.empty()) {
    sums->loss_after += result.loss_sum_after_first_segment;
    sums->num_tokens_after += static_cast<double>(result.num_tokens_after_first_segment);
  }
  sums->balance += result.balance_loss_sum;
  sums->divergence += result.divergence_sum;
  sums->active_experts += result.active_experts_sum;
  for (size_t i = 0; i < result.input_sums.size(); ++i) sums->inputs[i] += result.input_sums[i];
  AddDatasets(step.work, part.begin, micro, result, sums);
  if (!measure_routing) return absl::OkStatus();
  AddRouting(result, micro, step.model.config(), &pass->routing);
  AddChoices(result.layer_choices, &pass->layer_choices);
  return absl::OkStatus();
}

absl::StatusOr<double> GlobalTokens(const Batch& batch, Communicator& communicator) {
  const ScopedPhase phase(Phase::kCommunication);
  double tokens = static_cast<double>(batch.num_targets);
  RETURN_IF_ERROR(communicator.AllReduceSum(std::span<double>(&tokens, 1)));
  return tokens;
}

// Returns the pass over a global batch without a token to predict, such as one with only the last
// instance of a dataset, of one token.
GradientPass EmptyPass(const RankBatch& work) {
  GradientPass pass;
  pass.loss = std::numeric_limits<double>::quiet_NaN();
  pass.datasets.resize(work.num_datasets);
  return pass;
}

// Sums the losses over ranks and computes the global norm of the reduced gradients in the same
// message. Each rank writes the square sum of its shard to its own element, and every rank adds the
// elements in the same order, so the norm has the same bits on all ranks. With REPLICATED, too, a
// rank adds only its shard: the order of the additions does not depend on the sharding.
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
  const size_t first_input = values.size();
  values.insert(values.end(), sums->inputs.begin(), sums->inputs.end());
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
  std::copy_n(values.begin() + first_input, sums->inputs.size(), sums->inputs.begin());
  *gradient_norm = std::sqrt(std::accumulate(values.begin() + first, values.end(), 0.0));
  return absl::OkStatus();
}

// Returns "3, 17", or "3 of dataset 0, 17 of dataset 1" in a mixture.
std::string InstanceNames(const RankBatch& work, const MicroBatch& part) {
  std::vector<std::string> names;
  for (int64_t i = part.begin; i < part.end; ++i) {
    names.push_back(absl::StrCat(work.instances[i]));
    if (work.num_datasets > 0) absl::StrAppend(&names.back(), " of dataset ", work.datasets[i]);
  }
  return absl::StrJoin(names, ", ");
}

// Repeats one micro-batch alone, to find the source of a value that is not finite.
absl::Status CheckFinite(const PassStep& step, const MicroBatch& part) {
  ZeroGradients(step.model.gradients());
  Sums sums;
  sums.inputs.resize(NumInputMeans(step.model.config()));
  GradientPass pass;
  RETURN_IF_ERROR(AddMicroBatch(step, part, false, &sums, &pass));
  const bool loss = !std::isfinite(sums.loss);
  if (!loss && std::isfinite(GlobalNorm(step.model.gradients()))) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("step ", step.work.step + 1, ", rank ", step.communicator.rank(), ": the ",
                   loss ? "loss" : "gradient", " is not finite on instances ",
                   InstanceNames(step.work, part), "; weights are those of step ", step.work.step,
                   "; try a lower optimizer.learning_rate or optimizer.clip_norm"));
}

// Returns the error of a step whose loss or gradient is not finite, the same on every rank: the
// first micro-batch of the lowest rank that is not finite by itself. Sums over micro-batches and
// ranks, and decisions for the whole batch, hide which of them was the source, so each rank repeats
// the step alone; the weights have not been updated yet.
absl::Status NonFinite(const PassStep& step) {
  const PassStep alone{step.work, step.gradient_scale, step.model, step.communicator, true};
  absl::Status mine;
  for (const MicroBatch& part : MicroBatchesOf(step)) {
    if (mine.ok() && part.begin < part.end) mine = CheckFinite(alone, part);
  }
  RETURN_IF_ERROR(AgreeOnStatus(step.communicator, mine));
  // Every micro-batch is finite by itself. This error is agreed too, so that all ranks complete the
  // checkpoint in progress (TrainingLoop::Run).
  return AgreeOnStatus(
      step.communicator,
      absl::InternalError(absl::StrCat(
          "step ", step.work.step + 1,
          ": the loss or gradient summed over the batch is not finite, although that of every "
          "micro-batch is; weights are those of step ",
          step.work.step, "; try a lower optimizer.learning_rate or optimizer.clip_norm")));
}

}  // namespace

std::vector<int64_t> SequenceIdentities(const RankBatch& work, int64_t begin, int64_t end) {
  constexpr int kInstanceBits = 40;  // more than the instances of a dataset
  if (work.instances.empty()) return {};
  std::vector<int64_t> identities(work.instances.begin() + begin, work.instances.begin() + end);
  for (int64_t i = begin; i < end && work.num_datasets > 0; ++i) {
    identities[i - begin] += static_cast<int64_t>(work.datasets[i]) << kInstanceBits;
  }
  return identities;
}

// The loss is scaled by 1 / (tokens of the global batch) before backward, so gradients are those of
// the mean over all tokens and no division follows the reduction. It is therefore independent of
// how sequences are distributed over ranks and micro-batches, even when they are padded
// differently.
absl::StatusOr<GradientPass> ComputeGradients(const RankBatch& work, bool measure_routing,
                                              LanguageModel& model, GradientReducer& reducer,
                                              Communicator& communicator) {
  ASSIGN_OR_RETURN(const double tokens, GlobalTokens(work.batch, communicator));
  // The sum is the same on all ranks, so none of them enters the calls below.
  if (tokens == 0) return EmptyPass(work);
  const PassStep step{work, 1.0 / tokens, model, communicator};
  ZeroGradients(model.gradients());
  reducer.Begin(model.gradients());
  Sums sums;
  sums.datasets.resize(work.num_datasets);
  sums.inputs.resize(NumInputMeans(model.config()));
  GradientPass pass;
  const GradientsReady reduce = [&](Shard part) { reducer.Ready(part); };
  // Gradients that stay zero are complete at once: backward does not report them.
  for (const Parameter& p : model.parameters()) {
    if (p.trained || p.gradient.empty()) continue;
    const auto begin = static_cast<size_t>(p.gradient.data() - model.gradients().data());
    reducer.Ready({begin, begin + p.gradient.size()});
  }
  for (const MicroBatch& part : MicroBatchesOf(step)) {
    // Earlier micro-batches leave gradients incomplete, so only the last one reports ranges to the
    // reducer, which sums them over ranks while the rest of the backward pass runs. A rank without
    // micro-batches reports none, and Finish sends its zeros.
    // An error here is known to this rank only; the others wait in the reduction until the program
    // ends them (Fail in training_run.cc).
    RETURN_IF_ERROR(AddMicroBatch(step, part, measure_routing, &sums, &pass,
                                  part.end == work.batch.batch_size ? reduce : nullptr));
  }
  {
    const ScopedPhase phase(Phase::kCommunication);
    RETURN_IF_ERROR(reducer.Finish());
  }
  RETURN_IF_ERROR(ReduceSums(model.gradients(), communicator, &sums, &pass.gradient_norm));
  const bool finite = std::isfinite(sums.loss) && std::isfinite(pass.gradient_norm);
  if (!finite && work.must_be_finite) {
    return NonFinite(step);
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
  for (const double sum : sums.inputs) pass.input_means.push_back(sum / sums.num_tokens);
  return pass;
}

}  // namespace braid
