#include "model/layer_mixing.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/splitmix.h"
#include "model/config/layer_mixing_config.h"
#include "model/kernels/expert_selection.h"
#include "model/rank_sum_function.h"
#include "model/routing/gate_noise.h"
#include "model/routing/token_choice.h"

namespace braid {
namespace {

using Mixing = v1::LayerMixing;

// Keeps the numbers of random layers apart from those of random experts.
constexpr uint64_t kMixingStream = 0x6d6978696e67;

// Returns the scores [T, M] of z [T, D].
at::Tensor ScoresOf(const at::Tensor& z, const MixingGate& gate) {
  if (gate.bias.defined()) return at::addmm(gate.bias, z, gate.weight.t());
  return CosineScores(z, {gate.projection, gate.weight, gate.log_scale});
}

at::Tensor ProbabilitiesOf(const at::Tensor& scores, const Mixing& mixing) {
  return mixing.probability() == Mixing::SIGMOID ? at::sigmoid(scores) : at::softmax(scores, 1);
}

// Returns the mean over the prompt of its example for each row of x [B * L, M].
at::Tensor MeanOfPrompts(const at::Tensor& x, const MixingUnits& units) {
  const int64_t batch = units.first.size(0), length = units.first.size(1);
  const at::Tensor begins = at::arange(batch, units.first.options()).mul(length).unsqueeze(1);
  const at::Tensor unit = (units.first + begins).flatten();                     // [B * L]
  const at::Tensor counts = units.prompt.flatten().to(x.dtype()).unsqueeze(1);  // [B * L, 1]
  const at::Tensor total = at::zeros_like(counts).index_add(0, unit, counts);
  const at::Tensor sums = at::zeros_like(x).index_add(0, unit, x * counts);
  // Rows at which no example begins are never selected; the clamp keeps them from being 0 / 0.
  return (sums / total.clamp_min(1)).index_select(0, unit);
}

// Returns how many rows of scores [T, M] have their highest one at each layer, [1, M].
at::Tensor Votes(const at::Tensor& scores) {
  const at::Tensor first = scores.detach().argmax(1);
  return at::zeros({1, scores.size(1)}, scores.options().requires_grad(false))
      .index_add(1, first, at::ones({1, scores.size(0)}, scores.options().requires_grad(false)));
}

// Returns the k highest entries of each row of a ranking [T, M]: [T, k] int32 on the CPU.
at::Tensor HighestLayers(const at::Tensor& ranking, int64_t k, bool allow_nan) {
  const at::Tensor host = ranking.to(at::kCPU, at::kFloat).contiguous();
  at::Tensor chosen = at::empty({host.size(0), k}, at::kInt);
  // at::topk leaves the order of ties open; SelectExperts gives them to the lowest index.
  const int64_t undefined = SelectExperts(host.data_ptr<float>(), host.size(0), host.size(1), k,
                                          ExpertSelection::kTop, chosen.data_ptr<int32_t>());
  TORCH_CHECK(undefined < 0 || allow_nan, "layer mixing: a score of position ", undefined,
              " is not a number; the weights or activations before it are not finite");
  return chosen;
}

}  // namespace

MixingUnits UnitsOf(const at::Tensor& first_visible, const at::Tensor& targeted, int64_t batch,
                    int64_t length, at::Device device) {
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(device);
  MixingUnits units;
  units.first =
      first_visible.defined() ? first_visible.to(options) : at::zeros({batch, length}, options);
  if (!targeted.defined()) {
    units.prompt = units.first.eq(at::arange(length, options).unsqueeze(0));
    return units;
  }
  const at::Tensor targets = targeted.to(options);
  const at::Tensor before = targets.cumsum(1) - targets;  // targets at earlier positions
  units.prompt = before.eq(before.gather(1, units.first));
  return units;
}

LayerMixer::LayerMixer(const v1::ModelConfig& config, const MixingWeights& weights)
    : config_(config),
      weights_(weights),
      layers_(MixingLayers(config)),
      idle_(MixesNothing(config)) {}

bool LayerMixer::Mixes(int layer) const {
  return !idle_ && std::ranges::binary_search(layers_, layer);
}

// All positions of all ranks choose alike. One message has the sums of the votes, the scores and
// the probabilities [M] each, and the number of positions.
LayerMixer::Scores LayerMixer::DecideTogether(const Scores& own,
                                              const RoutingContext& context) const {
  const int64_t positions = own.scores.size(0), candidates = own.scores.size(1);
  const auto sum = [](const at::Tensor& x) { return x.to(at::kDouble).sum(0); };
  at::Tensor sums = at::cat(
      {sum(Votes(own.scores)), sum(own.scores), sum(own.probabilities),
       at::full({1}, static_cast<double>(positions), own.scores.options().dtype(at::kDouble))});
  if (context.sum_over_ranks != nullptr) sums = SumOverRanks(sums, *context.sum_over_ranks);
  const auto part = [&](int64_t index) { return sums.narrow(0, index * candidates, candidates); };
  const auto mean = [&](int64_t index) {
    return (part(index) / sums[-1].detach())
        .to(own.scores.scalar_type())
        .expand({positions, candidates});
  };
  Scores result{{}, mean(1), mean(2)};
  if (config_.layer_mixing().decision() == Mixing::BATCH_MODE) {
    result.ranking = part(0).detach().expand({positions, candidates});
  }
  return result;
}

LayerMixer::Scores LayerMixer::Decide(const at::Tensor& z, const MixingUnits& units,
                                      const MixingGate& gate, const RoutingContext& context) const {
  const Mixing& mixing = config_.layer_mixing();
  Scores result;
  result.scores = ScoresOf(z.reshape({-1, z.size(2)}), gate);
  result.probabilities = ProbabilitiesOf(result.scores, mixing);
  switch (mixing.decision()) {
    case Mixing::TOKEN:
      break;
    case Mixing::SEQUENCE:
      result.scores = MeanOfPrompts(result.scores, units);
      result.probabilities = MeanOfPrompts(result.probabilities, units);
      break;
    default:
      result = DecideTogether(result, context);
  }
  if (!result.ranking.defined()) result.ranking = result.probabilities.detach();
  return result;
}

LayerMixer::Scores LayerMixer::RandomScores(const at::Tensor& z, const MixingUnits& units,
                                            bool training, const RoutingContext& context) const {
  const int64_t batch = z.size(0), length = z.size(1);
  const auto candidates = static_cast<int64_t>(layers_.size());
  const Mixing::Decision decision = config_.layer_mixing().decision();
  const bool alike = !training || decision == Mixing::BATCH_MODE || decision == Mixing::BATCH_MEAN;
  RoutingContext key = context;
  if (alike) key.instances = {}, key.passes = 1;
  if (training) {
    key.seed = Mix64(key.seed, kMixingStream);
  } else {
    key.seed = 0, key.step = 0;
  }
  Scores result;
  if (alike) {
    result.ranking = UniformScores(key, 1, 1, candidates).expand({batch * length, candidates});
  } else {
    result.ranking = UniformScores(key, batch, length, candidates);
    if (decision == Mixing::SEQUENCE) {
      const at::Tensor begins = at::arange(batch, at::kLong).mul(length).unsqueeze(1);
      const at::Tensor first = (units.first.to(at::kCPU) + begins).flatten();
      result.ranking = result.ranking.index_select(0, first);
    }
  }
  result.scores = at::zeros({batch * length, candidates}, z.options().requires_grad(false));
  result.probabilities = result.scores;
  return result;
}

MixingChoice LayerMixer::Choose(const at::Tensor& z, const MixingUnits& units, bool training,
                                const RoutingContext& context, at::Tensor* balance_loss) const {
  const Mixing& mixing = config_.layer_mixing();
  const int64_t positions = z.size(0) * z.size(1), k = mixing.num_chosen();
  const at::TensorOptions options = z.options().requires_grad(false);
  const auto place = std::ranges::lower_bound(layers_, context.layer) - layers_.begin();
  if (mixing.gate() == Mixing::FIXED) {
    return {
        at::full({positions, 1}, mixing.fixed(static_cast<int>(place)), options.dtype(at::kInt)),
        at::ones({positions, 1}, options)};
  }
  const bool random = mixing.gate() == Mixing::RANDOM;
  const Scores scores =
      random ? RandomScores(z, units, training, context)
             : Decide(z, units, weights_.gates[mixing.own_gates() ? place : 0], context);
  MixingChoice choice;
  // In training a NaN reaches the loss, which is reported with its step and instances.
  choice.chosen = HighestLayers(scores.ranking, k, /*allow_nan=*/training).to(z.device());
  const at::Tensor index = choice.chosen.to(at::kLong);
  if (mixing.weight() == Mixing::PROBABILITY) {
    choice.weights = scores.probabilities.gather(1, index);
  } else if (k == 1) {
    choice.weights = at::ones({positions, 1}, options);
  } else {
    choice.weights = at::softmax(scores.scores.gather(1, index), 1);
  }
  if (balance_loss != nullptr && mixing.balance_loss() > 0 && context.counted.defined()) {
    const std::vector<int64_t> shape = {z.size(0), z.size(1), -1};
    *balance_loss = BalanceLoss(scores.probabilities.reshape(shape), choice.chosen.view(shape),
                                context.counted.to(z.dtype()));
  }
  return choice;
}

at::Tensor LayerMixer::LayersOf(const MixingChoice& choice) const {
  if (config_.layer_mixing().gate() == Mixing::FIXED) return choice.chosen;
  const at::Tensor numbers =
      at::tensor(at::ArrayRef<int>(layers_.data(), layers_.size()), choice.chosen.options());
  return numbers.index_select(0, choice.chosen.flatten().to(at::kLong)).view(choice.chosen.sizes());
}

std::vector<MixedPart> LayerMixer::PartsOf(int layer, const MixingChoice& choice) const {
  const Mixing& mixing = config_.layer_mixing();
  const bool fixed = mixing.gate() == Mixing::FIXED;
  std::vector<MixedPart> parts;
  const auto add = [&](int other, int32_t index) {
    if (other == layer) return;
    const at::Tensor uses = choice.chosen.eq(index);
    const at::Tensor takers = uses.any(1);
    if (!takers.any().item<bool>()) return;
    const at::Tensor weights = (choice.weights * uses.to(choice.weights.dtype())).sum(1);
    const at::Tensor coefficients =
        weights_.alpha.defined() ? weights * (1 - weights_.alpha) : weights * (1 - mixing.alpha());
    parts.push_back({other, coefficients, takers});
  };
  if (fixed) {
    const auto place = std::ranges::lower_bound(layers_, layer) - layers_.begin();
    const int other = mixing.fixed(static_cast<int>(place));
    add(other, other);
    return parts;
  }
  const at::Tensor host = choice.chosen.to(at::kCPU).contiguous();
  const int32_t* const chosen = host.data_ptr<int32_t>();
  const std::set<int32_t> distinct(chosen, chosen + host.numel());
  for (int32_t i = 0; i < std::ssize(layers_); ++i) {
    if (distinct.contains(i)) add(layers_[i], i);
  }
  return parts;
}

}  // namespace braid
