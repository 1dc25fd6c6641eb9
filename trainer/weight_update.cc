#include "trainer/weight_update.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status_macros.h"
#include "model/kernels/phase_times.h"
#include "trainer/adamw.h"
#include "trainer/gradient_clip.h"
#include "trainer/muon.h"

namespace braid {
namespace {

AdamwSettings SettingsOf(const v1::OptimizerConfig& config) {
  // Earlier versions stored a negative value where weight decay was off.
  return {.beta1 = config.beta1(),
          .beta2 = config.beta2(),
          .epsilon = config.epsilon(),
          .weight_decay = std::max(config.weight_decay(), 0.0)};
}

// Returns the parts of the trained parameters that lie in state.moments, without those of `others`.
// AdamW treats every element by itself, so the boundary of a shard may cut a parameter.
std::vector<AdamwParameter> OwnParameters(TrainingState& state,
                                          const std::vector<MuonMatrices>& others) {
  std::vector<AdamwParameter> own;
  const float* const gradients = state.model->gradients().data();
  for (const Parameter& p : state.model->parameters()) {
    if (!p.trained) continue;
    const auto offset = static_cast<size_t>(p.gradient.data() - gradients);
    if (std::ranges::binary_search(others, offset, {}, &MuonMatrices::offset)) continue;
    const size_t begin = std::max(offset, state.moments.begin);
    const size_t end = std::min(offset + p.value.size(), state.moments.end);
    if (begin < end) {
      const size_t size = end - begin, moment = begin - state.moments.begin;
      own.push_back({.value = p.value.subspan(begin - offset, size),
                     .gradient = p.gradient.subspan(begin - offset, size),
                     .m = std::span(state.m).subspan(moment, size),
                     .v = std::span(state.v).subspan(moment, size),
                     .decay = p.decay,
                     .rate_factor = p.rate_factor,
                     .decay_factor = p.decay_factor});
    }
  }
  return own;
}

// Moves the average towards the weights after update t by (1 - d) / (1 - d^t) (w - average): to the
// mean of the weights of all updates so far, each weighed d times as much as the next.
void UpdateAverage(double decay, TrainingState& state) {
  const auto t = static_cast<double>(state.num_updates + 1);
  const auto share = static_cast<float>((1 - decay) / (1 - std::pow(decay, t)));
  const float* const values = state.model->trained_values().data() + state.moments.begin;
  float* const average = state.average.data();
  const auto size = static_cast<int64_t>(state.average.size());
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < size; ++i) average[i] += share * (values[i] - average[i]);
}

}  // namespace

absl::Status UpdateWeights(const v1::OptimizerConfig& config, double learning_rate,
                           double gradient_norm, TrainingState& state, Communicator& communicator) {
  const double factor = ClipFactor(gradient_norm, config.clip_norm());
  std::vector<MuonMatrices> matrices;
  if (config.algorithm() == v1::MUON) {
    matrices = MuonMatricesOf(state.model->config(), state.model->finetuning());
    const MuonSettings settings = {.momentum = config.muon_momentum(),
                                   .weight_decay = SettingsOf(config).weight_decay};
    RETURN_IF_ERROR(MuonStep(settings, learning_rate, factor, matrices, state, communicator));
  }
  {
    const ScopedPhase phase(Phase::kOptimizer);
    AdamwStep(SettingsOf(config), learning_rate, state.num_updates + 1, factor,
              OwnParameters(state, matrices));
    if (!state.average.empty()) UpdateAverage(config.ema_decay(), state);
  }
  ++state.num_updates;
  ++state.step;
  // Without shards every rank has made the same update, with the same bits.
  if (!state.sharded) return absl::OkStatus();
  const ScopedPhase phase(Phase::kCommunication);
  return communicator.AllGatherShards(state.model->trained_values());
}

}  // namespace braid
