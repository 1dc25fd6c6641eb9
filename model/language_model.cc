#include "model/language_model.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/huge_pages.h"
#include "base/status_macros.h"
#include "model/batch_checks.h"
#include "model/cached_decoder.h"
#include "model/config/finetuning_config.h"
#include "model/config/inference_experts.h"
#include "model/config/initial_weights.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/gradient_hooks.h"
#include "model/kernels/cross_entropy.h"
#include "model/tensor_guard.h"
#include "model/training_loss.h"
#include "model/transformer.h"

namespace braid {
namespace {

// Allocates a flat array of zeros in huge pages, because kernels walk through many experts at once.
// The gradients of a model that is not trained take no memory.
at::Tensor LongLivedArray(int64_t size) {
  const size_t bytes = static_cast<size_t>(size) * sizeof(float);
  return at::from_blob(
      AllocateHugeZeros(bytes), {size}, [bytes](void* block) { FreeHugeZeros(block, bytes); },
      at::kFloat);
}

at::Tensor TokenTensor(std::span<const int32_t> tokens, int64_t batch_size) {
  return at::tensor(at::ArrayRef<int32_t>(tokens.data(), tokens.size()), at::kLong)
      .view({batch_size, -1});
}

template <class T>
std::vector<T> ToVector(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(at::kCPU).contiguous();
  return std::vector<T>(host.data_ptr<T>(), host.data_ptr<T>() + host.numel());
}

// Returns the routing of the first `batch_size` sequences, which are those of the first pass.
std::vector<LayerRoutingWeights> ToRouting(const std::vector<LayerRoutingTensor>& layers,
                                           int64_t batch_size) {
  std::vector<LayerRoutingWeights> routing;
  for (const LayerRoutingTensor& layer : layers) {
    const auto first = [&](const at::Tensor& all) { return all.narrow(0, 0, batch_size); };
    routing.push_back({layer.layer, ToVector<float>(first(layer.weights)), {}});
    if (layer.chosen.defined()) routing.back().chosen = ToVector<int32_t>(first(layer.chosen));
  }
  return routing;
}

void SumLosses(std::span<const float> losses, std::span<const int32_t> targets, int64_t length,
               int64_t segment_length, TrainResult* result) {
  result->sequence_loss.assign(targets.size() / static_cast<size_t>(length), 0.0);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    result->loss_sum += losses[i];
    result->sequence_loss[i / static_cast<size_t>(length)] += losses[i];
    ++result->num_tokens;
    if (static_cast<int64_t>(i) % length < segment_length) continue;
    result->loss_sum_after_first_segment += losses[i];
    ++result->num_tokens_after_first_segment;
  }
}

// Returns the positions [B, L] of BatchIdentity.first_visible; undefined without any.
at::Tensor VisibleTensor(std::span<const int32_t> first_visible, int64_t batch_size) {
  if (first_visible.empty()) return {};
  return at::tensor(at::ArrayRef<int32_t>(first_visible.data(), first_visible.size()), at::kInt)
      .view({batch_size, -1});
}

// Returns BatchIdentity.numbers [B L]; undefined without any.
at::Tensor NumberTensor(std::span<const float> numbers) {
  if (numbers.empty()) return {};
  return at::tensor(at::ArrayRef<float>(numbers.data(), numbers.size()), at::kFloat);
}

}  // namespace

class LanguageModel::Impl {
 public:
  Impl(const v1::ModelConfig& config, std::optional<uint64_t> seed,
       const v1::Finetuning& finetuning)
      : config_(config), finetuning_(finetuning) {
    const std::vector<ParameterSpec> layout = FinetunedLayout(config_, finetuning_);
    int64_t size = 0, trained_size = 0;
    for (const ParameterSpec& spec : layout) {
      size += spec.size;
      if (spec.gradient_offset >= 0) trained_size += spec.size;
    }
    values_ = LongLivedArray(size);
    gradients_ = LongLivedArray(trained_size);
    for (const ParameterSpec& spec : layout) {
      const std::span<float> value = values().subspan(spec.offset, spec.size);
      std::span<float> gradient;
      if (spec.gradient_offset >= 0) {
        gradient = gradients().subspan(spec.gradient_offset, spec.size);
      }
      parameters_.push_back({spec.name, spec.shape, value, gradient, spec.shape.size() > 1,
                             spec.trained, spec.rate_factor, spec.decay_factor});
      if (seed) FillInitialValues(spec, *seed, value);
    }
    weights_ = BindWeights(config_, finetuning_, values_, gradients_);
    hooks_ = std::make_unique<GradientHooks>(weights_, gradients_);
    tables_ = TablesFor(config_, values_.options());
  }

  const v1::ModelConfig& config() const { return config_; }
  const v1::Finetuning& finetuning() const { return finetuning_; }
  std::span<Parameter> parameters() { return parameters_; }
  std::span<float> values() { return Span(values_); }
  std::span<float> gradients() { return Span(gradients_); }

  // Returns the configuration with `active` experts a token, or as many as outside training when
  // it is 0. A decoder refuses the number where tokens choose no experts.
  v1::ModelConfig InferenceConfig(int active, bool has_routing_seed) const {
    v1::ModelConfig config = config_;
    if (active > 0 || config.routing().router() == v1::TOKEN_CHOICE) {
      config.mutable_routing()->mutable_token()->set_active_experts(
          active > 0 ? active : InferenceExperts(config, has_routing_seed));
    }
    return config;
  }

  void SetActiveExperts(int active) {
    config_.mutable_routing()->mutable_token()->set_active_experts(active);
  }

  void SetInputNoise(double noise, uint64_t seed) {
    weights_.noise = {};
    if (noise == 0) return;
    weights_.noise = {.bound = noise * weights_.embedding.detach().std().item<double>(),
                      .seed = seed};
  }

  void SetRoutingSeed(uint64_t routing_seed) { routing_seed_ = routing_seed; }
  std::optional<uint64_t> routing_seed() const { return routing_seed_; }

  void SetGatePenalty(double coefficient) { gate_penalty_ = coefficient; }

  HiddenStates Run(std::span<const int32_t> inputs, int64_t batch_size, MergeMode mode,
                   std::span<const int32_t> first_visible = {},
                   const at::Tensor& counted = {}) const {
    RoutingContext context;
    context.counted = counted;
    context.routing_seed = routing_seed_;
    return RunTransformer(InferenceConfig(0, routing_seed_.has_value()), weights_, tables_,
                          TokenTensor(inputs, batch_size), mode, context,
                          VisibleTensor(first_visible, batch_size));
  }

  // Parameters are autograd leaves whose gradients are views of gradients_ (see BindWeights), so
  // backward accumulates into the flat buffer in place, over any number of calls. GradientHooks
  // reports each leaf to `gradients_ready` when its accumulation has finished.
  TrainResult ForwardBackward(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                              int64_t batch_size, double gradient_scale, bool measure_routing,
                              const GradientsReady& gradients_ready,
                              const BatchIdentity& identity) {
    const GradientHooks::Scope scope(hooks_.get(), gradients_ready);
    const at::AutoGradMode with_gradients(true);
    const at::Tensor counted = TokenTensor(targets, batch_size).ge(0).to(at::kFloat);
    const int64_t passes = config_.consistency_loss() > 0 ? 2 : 1;
    const at::Tensor tokens = TokenTensor(inputs, batch_size).repeat({passes, 1});
    at::Tensor visible = VisibleTensor(identity.first_visible, batch_size);
    if (visible.defined()) visible = visible.repeat({passes, 1});
    const HiddenStates states = RunTransformer(
        config_, weights_, tables_, tokens, MergeMode::kTraining,
        {.layer = 0,
         .seed = identity.seed,
         .step = identity.step,
         .instances = identity.instances,
         .passes = passes,
         .tokens = {},
         .counted = counted.repeat({passes, 1}),
         .embedding_noise = finetuning_.embedding_noise(),
         .sum_over_ranks = identity.sum_over_ranks ? &identity.sum_over_ranks : nullptr},
        visible);
    TrainResult result;
    const LossSettings settings{config_, finetuning_.label_smoothing(), gate_penalty_};
    const TokenLoss loss = TokenLossOf(settings, states, weights_.head, TokenTensor(targets, 1)[0],
                                       NumberTensor(identity.numbers), gradient_scale, &result);
    at::Tensor total = loss.total;
    if (HasSideLosses(states)) {
      total = total + SideLosses(settings, states, counted, gradient_scale, &result);
    }
    total.backward();
    for (const at::Tensor& layer : states.input_sums) {
      const std::vector<double> sum = ToVector<double>(layer / static_cast<double>(passes));
      result.input_sums.insert(result.input_sums.end(), sum.begin(), sum.end());
    }
    SumLosses(ToVector<float>(loss.of_tokens), targets,
              static_cast<int64_t>(inputs.size()) / batch_size, config_.routing().segment_length(),
              &result);
    if (!measure_routing) return result;
    result.routing = ToRouting(states.routing, batch_size);
    result.layer_choices =
        CountChoices(states.choices, counted.repeat({passes, 1}), config_.num_layers());
    return result;
  }

  ForwardResult Evaluate(std::span<const int32_t> inputs, std::span<const int32_t> targets,
                         int64_t batch_size, MergeMode mode, bool want_routing,
                         std::span<const int32_t> first_visible, std::span<const float> numbers,
                         bool want_predicted) const {
    const at::Tensor counted = TokenTensor(targets, batch_size).ge(0).to(at::kFloat);
    const HiddenStates states = Run(inputs, batch_size, mode, first_visible, counted);
    const at::Tensor wanted = TokenTensor(targets, 1)[0];
    TokenScores scores;
    if (numbers.empty()) {
      scores = ScoreTokens(states.hidden, weights_.head, wanted, config_.logit_soft_cap(),
                           want_predicted);
    } else {
      scores.loss = SquaredErrors(states.hidden, weights_.head, wanted, NumberTensor(numbers));
    }
    ForwardResult result{.token_loss = ToVector<float>(scores.loss)};
    if (scores.highest.defined()) result.predicted = ToVector<int32_t>(scores.highest);
    if (want_routing) result.routing = ToRouting(states.routing, batch_size);
    return result;
  }

  std::vector<float> Logits(std::span<const int32_t> inputs, int64_t batch_size) const {
    const HiddenStates states = Run(inputs, batch_size, MergeMode::kSegment);
    return ToVector<float>(HeadLogits(states.hidden, weights_.head, config_.logit_soft_cap()));
  }

  std::unique_ptr<Decoder> NewDecoder(MergeMode mode, int active_experts,
                                      std::optional<uint64_t> routing_seed) const {
    const std::optional<uint64_t> seed = routing_seed.has_value() ? routing_seed : routing_seed_;
    BRAID_CHECK(!finetuning_.has_lora()) << "decoding needs merged adapters";
    // Compared with the model's own number: the decoder's configuration has the one that was asked.
    absl::Status usable;
    if (active_experts != 0) {
      usable = CheckActiveExperts(config_, "active_experts", active_experts, seed.has_value());
    }
    return std::make_unique<CachedDecoder>(InferenceConfig(active_experts, seed.has_value()),
                                           weights_, tables_, mode, seed, std::move(usable));
  }

 private:
  static std::span<float> Span(const at::Tensor& flat) {
    return {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())};
  }

  v1::ModelConfig config_;  // only active_experts changes
  const v1::Finetuning finetuning_;
  at::Tensor values_, gradients_;  // [number of parameters], [those that have a gradient]
  std::vector<Parameter> parameters_;
  TransformerWeights weights_;
  std::unique_ptr<GradientHooks> hooks_;
  AttentionTables tables_;
  std::optional<uint64_t> routing_seed_;
  double gate_penalty_ = config_.routing().token().l1_start();
};

LanguageModel::LanguageModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LanguageModel::~LanguageModel() = default;

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::Create(
    const v1::ModelConfig& resolved, std::optional<uint64_t> seed,
    const v1::Finetuning& finetuning) {
  return CatchTensorErrors<std::unique_ptr<LanguageModel>>([&] {
    return std::unique_ptr<LanguageModel>(
        new LanguageModel(std::make_unique<Impl>(resolved, seed, finetuning)));
  });
}

const v1::ModelConfig& LanguageModel::config() const { return impl_->config(); }
const v1::Finetuning& LanguageModel::finetuning() const { return impl_->finetuning(); }
std::span<Parameter> LanguageModel::parameters() { return impl_->parameters(); }
std::span<float> LanguageModel::values() { return impl_->values(); }
std::span<float> LanguageModel::gradients() { return impl_->gradients(); }
std::span<float> LanguageModel::trained_values() { return values().last(gradients().size()); }

absl::Status LanguageModel::SetActiveExperts(int active) {
  // In training every gate is defined for any number of experts.
  v1::ModelConfig scored = config();
  scored.mutable_routing()->mutable_token()->set_gate(v1::TokenRouting::LINEAR);
  RETURN_IF_ERROR(CheckActiveExperts(scored, "active_experts", active));
  impl_->SetActiveExperts(active);
  return absl::OkStatus();
}

absl::Status LanguageModel::SetRoutingSeed(uint64_t routing_seed) {
  RETURN_IF_ERROR(CheckRoutingSeed(config(), routing_seed));
  impl_->SetRoutingSeed(routing_seed);
  return absl::OkStatus();
}

absl::Status LanguageModel::SetInputNoise(double noise, uint64_t seed) {
  if (!std::isfinite(noise) || noise < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding_noise: got ", noise, ", expected a number of at least 0"));
  }
  impl_->SetInputNoise(noise, seed);
  return absl::OkStatus();
}

std::optional<uint64_t> LanguageModel::routing_seed() const { return impl_->routing_seed(); }

v1::ModelConfig LanguageModel::InferenceConfig() const {
  return impl_->InferenceConfig(0, routing_seed().has_value());
}

void LanguageModel::SetGatePenalty(double coefficient) { impl_->SetGatePenalty(coefficient); }

absl::StatusOr<TrainResult> LanguageModel::ForwardBackward(
    std::span<const int32_t> inputs, std::span<const int32_t> targets, int64_t batch_size,
    double gradient_scale, bool measure_routing, const GradientsReady& gradients_ready,
    const BatchIdentity& identity) {
  RETURN_IF_ERROR(CheckBatch(config(), inputs, targets, identity.numbers, batch_size));
  RETURN_IF_ERROR(CheckInstances(identity.instances, batch_size));
  RETURN_IF_ERROR(CheckVisible(identity.first_visible, inputs.size(), batch_size));
  return CatchTensorErrors<TrainResult>([&] {
    return impl_->ForwardBackward(inputs, targets, batch_size, gradient_scale, measure_routing,
                                  gradients_ready, identity);
  });
}

absl::StatusOr<ForwardResult> LanguageModel::Evaluate(
    std::span<const int32_t> inputs, std::span<const int32_t> targets, int64_t batch_size,
    MergeMode mode, bool want_routing, std::span<const int32_t> first_visible,
    std::span<const float> numbers, bool want_predicted) {
  RETURN_IF_ERROR(CheckBatch(config(), inputs, targets, numbers, batch_size));
  RETURN_IF_ERROR(CheckVisible(first_visible, inputs.size(), batch_size));
  RETURN_IF_ERROR(CheckMixingInference(config()));
  return WithoutGradients<ForwardResult>([&] {
    return impl_->Evaluate(inputs, targets, batch_size, mode, want_routing, first_visible, numbers,
                           want_predicted);
  });
}

absl::StatusOr<std::vector<float>> LanguageModel::Logits(std::span<const int32_t> inputs,
                                                         int64_t batch_size) {
  RETURN_IF_ERROR(CheckSequences(config(), inputs, batch_size));
  RETURN_IF_ERROR(CheckMixingInference(config()));
  return WithoutGradients<std::vector<float>>([&] { return impl_->Logits(inputs, batch_size); });
}

std::unique_ptr<Decoder> LanguageModel::NewDecoder(MergeMode mode, int active_experts,
                                                   std::optional<uint64_t> routing_seed) {
  return impl_->NewDecoder(mode, active_experts, routing_seed);
}

absl::StatusOr<std::vector<std::vector<float>>> LanguageModel::StepTogether(
    std::span<Decoder* const> decoders, std::span<const int32_t> tokens) {
  if (decoders.size() != tokens.size()) {
    return absl::InvalidArgumentError(absl::StrCat("tokens: got ", tokens.size(),
                                                   ", expected one for each of ", decoders.size(),
                                                   " decoders"));
  }
  std::vector<CachedDecoder*> cached;
  for (Decoder* decoder : decoders) {
    cached.push_back(dynamic_cast<CachedDecoder*>(decoder));
    BRAID_CHECK(cached.back() != nullptr) << "not a decoder of NewDecoder";
    BRAID_CHECK(std::ranges::count(decoders, decoder) == 1) << "a decoder that occurs twice";
  }
  return CachedDecoder::StepTogether(cached, tokens);
}

}  // namespace braid
