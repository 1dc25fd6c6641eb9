#include "runs/forecast.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "model/config/activation_memory.h"
#include "model/config/attention_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "model/config/shard.h"
#include "runs/expert_growth.h"
#include "runs/field_check.h"

namespace braid {
namespace {

constexpr int kForecastMaxRanks = 1 << 20;
constexpr int kMaxMicroBatch = 1 << 10;
constexpr int64_t kForecastMaxSteps = int64_t{1} << 32;
constexpr int64_t kFloat = sizeof(float);

// Resolves the growth of the request and sets the model's active experts to the largest number.
absl::Status ResolveGrowingExperts(v1::ModelConfig* model, v1::ForecastRequest* request) {
  if (!Grows(request->growth())) {
    request->clear_growth();
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckField(
      request->num_steps() > 0 && request->num_steps() <= kForecastMaxSteps, "forecast.num_steps",
      static_cast<double>(request->num_steps()),
      absl::StrCat("1 to ", kForecastMaxSteps, ", the steps over which the active experts grow")));
  return ResolveGrowth(model->mutable_routing(), request->mutable_growth());
}

absl::StatusOr<v1::ForecastRequest> Resolve(v1::ForecastRequest request,
                                            const v1::ModelConfig& model) {
  if (request.world_size() == 0) request.set_world_size(1);
  RETURN_IF_ERROR(CheckField(request.world_size() > 0 && request.world_size() <= kForecastMaxRanks,
                             "forecast.world_size", request.world_size(),
                             absl::StrCat("1 to ", kForecastMaxRanks)));
  if (request.micro_batch_size() == 0) request.set_micro_batch_size(1);
  RETURN_IF_ERROR(
      CheckField(request.micro_batch_size() > 0 && request.micro_batch_size() <= kMaxMicroBatch,
                 "forecast.micro_batch_size", request.micro_batch_size(),
                 absl::StrCat("1 to ", kMaxMicroBatch)));
  if (request.global_batch_size() == 0) {
    request.set_global_batch_size(request.world_size() * request.micro_batch_size());
  }
  RETURN_IF_ERROR(CheckField(request.global_batch_size() >= request.world_size(),
                             "forecast.global_batch_size", request.global_batch_size(),
                             "at least one sequence a rank"));
  if (request.target_share() == 0) request.set_target_share(1);
  RETURN_IF_ERROR(CheckField(request.target_share() > 0 && request.target_share() <= 1,
                             "forecast.target_share", request.target_share(), "a share up to 1"));
  const double half = 0.5 * model.sequence_length();
  if (request.mean_visible_keys() == 0) request.set_mean_visible_keys(half);
  RETURN_IF_ERROR(CheckField(request.mean_visible_keys() > 0 && request.mean_visible_keys() <= half,
                             "forecast.mean_visible_keys", request.mean_visible_keys(),
                             absl::StrCat("above 0, at most ", half, ", half of the sequence")));
  RETURN_IF_ERROR(
      CheckField(std::isfinite(request.gflops_per_rank()) && request.gflops_per_rank() >= 0,
                 "forecast.gflops_per_rank", request.gflops_per_rank(), "a positive number"));
  RETURN_IF_ERROR(CheckField(
      std::isfinite(request.link_bytes_per_second()) && request.link_bytes_per_second() >= 0,
      "forecast.link_bytes_per_second", request.link_bytes_per_second(), "a positive number"));
  return request;
}

// Returns the number of sequences of the rank with the most.
int64_t SequencesOfARank(const v1::ForecastRequest& request) {
  return (int64_t{request.global_batch_size()} + request.world_size() - 1) / request.world_size();
}

// Returns the bytes of keys and values of a sequence, those of second passes too, and of the inputs
// of mixing layers that are kept for passes which begin later.
int64_t CacheBytes(const v1::ModelConfig& model) {
  double passes = model.num_layers();
  for (const double mixed : MixedPasses(model)) passes += mixed;
  const AttentionHeads heads = HeadsOf(model);
  const int64_t inputs =
      MixesByPosition(model) ? std::ssize(MixingLayers(model)) * model.d_model() : 0;
  const auto floats = static_cast<int64_t>(
      std::ceil(passes * static_cast<double>(2 * heads.key_value * heads.width)));
  return kFloat * model.sequence_length() * (floats + inputs);
}

// Sets the numbers of bytes. Only trained parameters have gradients and moments.
void FillMemory(const v1::ModelConfig& model, const v1::ForecastRequest& request,
                v1::Forecast* forecast) {
  int64_t parameters = 0, trained = 0;
  for (const ParameterSpec& spec : FinetunedLayout(model, request.finetuning())) {
    parameters += spec.size;
    if (spec.gradient_offset >= 0) trained += spec.size;
  }
  const Shard shard = ShardOf(static_cast<size_t>(trained), 0, request.world_size());
  const int64_t micro_batch =
      std::min<int64_t>(request.micro_batch_size(), SequencesOfARank(request));
  forecast->set_weight_bytes(kFloat * parameters);
  forecast->set_num_trained_parameters(trained);
  forecast->set_gradient_bytes(kFloat * trained);
  forecast->set_moment_bytes(2 * kFloat * trained);
  forecast->set_moment_bytes_zero_1(2 * kFloat * static_cast<int64_t>(shard.size()));
  forecast->set_activation_bytes(
      ActivationsOf(model, micro_batch, request.finetuning()).total_bytes());
  forecast->set_cache_bytes(CacheBytes(model));
  const int64_t others =
      forecast->weight_bytes() + forecast->gradient_bytes() + forecast->activation_bytes();
  forecast->set_total_bytes(others + forecast->moment_bytes());
  forecast->set_total_bytes_zero_1(others + forecast->moment_bytes_zero_1());
}

// Returns the FLOPs per token, averaged over the steps of a run whose active experts grow.
ModelFlops MeanFlops(const v1::ModelConfig& model, const v1::ForecastRequest& request) {
  const auto flops_of = [&](const v1::ModelConfig& config) {
    return FlopsPerToken(
        config, request.finetuning(),
        {.visible_keys = request.mean_visible_keys(), .target_share = request.target_share()});
  };
  if (!request.has_growth()) return flops_of(model);
  const ExpertGrowth growth = GrowthOf(request.growth(), request.num_steps());
  v1::ModelConfig at_step = model;
  ModelFlops mean;
  for (const auto& [active, steps] : StepsByActiveExperts(growth, request.num_steps())) {
    at_step.mutable_routing()->mutable_token()->set_active_experts(active);
    const ModelFlops flops = flops_of(at_step);
    const double share = static_cast<double>(steps) / static_cast<double>(request.num_steps());
    mean.forward += share * flops.forward;
    mean.backward += share * flops.backward;
    mean.merge_forward += share * flops.merge_forward;
    mean.merge_backward += share * flops.merge_backward;
  }
  return mean;
}

void FillWork(const ModelFlops& flops, const v1::ModelConfig& model,
              const v1::ForecastRequest& request, v1::Forecast* forecast) {
  const auto tokens = static_cast<double>(SequencesOfARank(request) * model.sequence_length());
  forecast->set_step_flops(tokens * flops.total());
  forecast->set_step_merge_flops(tokens * flops.merge());
  const double sum = RingAllReduceBytes(forecast->gradient_bytes(), request.world_size());
  // Weights that are updated, as many bytes as their gradients.
  const double spread = sum / 2;
  forecast->set_all_reduce_bytes(sum);
  forecast->set_zero_1_bytes(sum / 2 + spread);
}

// Assumes ZeRO-1, the default: half of the bytes are gradients, whose transfer may overlap with the
// last backward pass, and half are weights, sent after the update.
void FillTimes(const ModelFlops& flops, v1::Forecast* forecast) {
  const v1::ForecastRequest& request = forecast->request();
  if (request.gflops_per_rank() == 0) return;
  forecast->set_compute_seconds(forecast->step_flops() / (1e9 * request.gflops_per_rank()));
  forecast->set_step_seconds(forecast->compute_seconds());
  if (request.link_bytes_per_second() == 0) return;
  const double each_way = forecast->zero_1_bytes() / 2 / request.link_bytes_per_second();
  const auto passes = static_cast<double>(
      (SequencesOfARank(request) + request.micro_batch_size() - 1) / request.micro_batch_size());
  const double last_backward = forecast->compute_seconds() / passes *
                               (flops.backward + flops.merge_backward) / flops.total();
  forecast->set_communication_seconds(2 * each_way);
  forecast->set_step_seconds(forecast->compute_seconds() + each_way +
                             std::max(0.0, each_way - last_backward));
}

}  // namespace

double RingAllReduceBytes(int64_t bytes, int world_size) {
  return 2.0 * (world_size - 1) / world_size * static_cast<double>(bytes);
}

absl::StatusOr<v1::Forecast> ForecastTraining(const v1::ModelConfig& resolved,
                                              const v1::ForecastRequest& request) {
  const bool chosen = resolved.routing().router() == v1::TOKEN_CHOICE;
  if (UsesExperts(resolved) && !MergesExperts(resolved.routing()) && !chosen) {
    return absl::UnimplementedError(
        absl::StrCat("forecast: got router ", v1::Router_Name(resolved.routing().router()),
                     ", expected DENSE, CAUSAL_SEGMENT, PREFIX or TOKEN_CHOICE"));
  }
  v1::Forecast forecast;
  ASSIGN_OR_RETURN(*forecast.mutable_request(), Resolve(request, resolved));
  if (request.has_finetuning()) {
    ASSIGN_OR_RETURN(*forecast.mutable_request()->mutable_finetuning(),
                     ResolveFinetuning(request.finetuning(), resolved));
  }
  v1::ModelConfig model = resolved;
  RETURN_IF_ERROR(ResolveGrowingExperts(&model, forecast.mutable_request()));
  const ModelFlops flops = MeanFlops(model, forecast.request());
  FillMemory(model, forecast.request(), &forecast);
  FillWork(flops, model, forecast.request(), &forecast);
  FillTimes(flops, &forecast);
  return forecast;
}

}  // namespace braid
