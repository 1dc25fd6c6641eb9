#include "model/routing/training_dropout.h"

#include <ATen/ATen.h>

#include "base/splitmix.h"

namespace braid {
namespace {

constexpr double kWeightPenalty = 1e-6, kEntropyPenalty = 1e-5;
// Logits beyond it have the probabilities of the bound. In single precision 1 / (1 - p) would
// become infinite, and p log p not a number.
constexpr double kLogitBound = 30;
// Keeps the numbers of dropout apart from those of gates, which have the same sequence keys.
constexpr uint64_t kDropoutStream = 1;

// Calls use(token, key) for all tokens in order.
template <class Use>
void ForEachKey(const RoutingContext& context, int64_t batch, int64_t length, Use use) {
  for (int64_t b = 0; b < batch; ++b) {
    const uint64_t sequence = Mix64(SequenceKey(context, b, batch), kDropoutStream);
    for (int64_t t = 0; t < length; ++t) {
      use(b * length + t, Scramble64(sequence + static_cast<uint64_t>(t) * kGolden64));
    }
  }
}

UnitDropout::Kind KindOf(v1::DropoutConfig::Kind kind) {
  switch (kind) {
    case v1::DropoutConfig::BERNOULLI:
      return UnitDropout::kBernoulli;
    case v1::DropoutConfig::DROP_BLOCK:
      return UnitDropout::kBlock;
    case v1::DropoutConfig::CONCRETE:
      return UnitDropout::kConcrete;
    default:
      return UnitDropout::kNone;
  }
}

// Returns the logit within +- kLogitBound, with a gradient of 1 on either side, so that a logit
// beyond the bound still receives the gradient at the bound and can return.
at::Tensor BoundedLogit(const at::Tensor& logit) {
  const at::Tensor value = logit.detach();
  return value.clamp(-kLogitBound, kLogitBound) + (logit - value);
}

}  // namespace

FfnDropout DropoutOf(const RoutingContext& context, const FfnWeights& weights, int64_t batch,
                     int64_t length, int64_t span) {
  FfnDropout dropout;
  if (context.dropout == nullptr) return dropout;
  dropout.kind = KindOf(context.dropout->kind());
  if (!dropout.drops()) return dropout;
  dropout.rate = context.dropout->rate();
  dropout.block = context.dropout->block_size();
  dropout.span = span;
  if (weights.dropout_logit.defined()) dropout.logit = BoundedLogit(weights.dropout_logit);
  dropout.keys = at::empty({2, batch * length}, at::kInt);
  int32_t* const low = dropout.keys.data_ptr<int32_t>();
  int32_t* const high = low + batch * length;
  ForEachKey(context, batch, length, [&](int64_t token, uint64_t key) {
    low[token] = static_cast<int32_t>(static_cast<uint32_t>(key));
    high[token] = static_cast<int32_t>(static_cast<uint32_t>(key >> 32));
  });
  return dropout;
}

TokenChoice DropExperts(const TokenChoice& choice, const RoutingContext& context, int64_t batch,
                        int64_t length, const at::TensorOptions& options) {
  if (context.dropout == nullptr || context.dropout->kind() != v1::DropoutConfig::EXPERTS) {
    return choice;
  }
  const double rate = context.dropout->rate();
  at::Tensor chosen = choice.chosen.to(at::kCPU).clone();
  const int64_t active = chosen.size(1);
  int32_t* const experts = chosen.data_ptr<int32_t>();
  ForEachKey(context, batch, length, [&](int64_t token, uint64_t key) {
    for (int64_t j = 0; j < active; ++j) {
      int32_t& expert = experts[token * active + j];
      const uint64_t bits = Scramble64(key + static_cast<uint64_t>(expert + 1) * kGolden64);
      if (UnitInterval(bits) < rate) expert = -1;
    }
  });
  const double scale = 1 / (1 - rate);
  return {chosen.to(choice.chosen.device()),
          choice.weights.defined() ? choice.weights * scale
                                   : at::full(chosen.sizes(), scale, options.requires_grad(false))};
}

at::Tensor ConcreteLoss(const FfnWeights& weights, int64_t units) {
  if (!weights.dropout_logit.defined()) return {};
  const at::Tensor logit = BoundedLogit(weights.dropout_logit);
  const at::Tensor p = at::sigmoid(logit).squeeze(0), kept = at::sigmoid(-logit).squeeze(0);
  return kWeightPenalty * weights.down.square().sum() / kept +
         kEntropyPenalty * static_cast<double>(units) * (p * p.log() + kept * kept.log());
}

}  // namespace braid
