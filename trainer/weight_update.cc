#include "trainer/weight_update.h"

#include <algorithm>
#include <span>
#include <vector>

#include "model/kernels/phase_times.h"
#include "trainer/adamw.h"
#include "trainer/gradient_clip.h"

namespace braid {
namespace {

AdamwSettings SettingsOf(const v1::OptimizerConfig& config) {
  return {.beta1 = config.beta1(),
          .beta2 = config.beta2(),
          .epsilon = config.epsilon(),
          .weight_decay = std::max(config.weight_decay(), 0.0)};
}

// Returns the parts of the trained parameters that lie in state.moments.
std::vector<AdamwParameter> OwnParameters(TrainingState& state) {
  std::vector<AdamwParameter> own;
  const float* const gradients = state.model->gradients().data();
  for (const Parameter& p : state.model->parameters()) {
    if (!p.trained) continue;
    const auto offset = static_cast<size_t>(p.gradient.data() - gradients);
    const size_t begin = std::max(offset, state.moments.begin);
    const size_t end = std::min(offset + p.value.size(), state.moments.end);
    if (begin < end) {
      const size_t size = end - begin, moment = begin - state.moments.begin;
      own.push_back({.value = p.value.subspan(begin - offset, size),
                     .gradient = p.gradient.subspan(begin - offset, size),
                     .m = std::span(state.m).subspan(moment, size),
                     .v = std::span(state.v).subspan(moment, size),
                     .decay = p.decay,
                     .rate_factor = p.rate_factor});
    }
  }
  return own;
}

}  // namespace

absl::Status UpdateWeights(const v1::OptimizerConfig& config, double learning_rate,
                           double gradient_norm, TrainingState& state, Communicator& communicator) {
  {
    const ScopedPhase phase(Phase::kOptimizer);
    AdamwStep(SettingsOf(config), learning_rate, state.step + 1,
              ClipFactor(gradient_norm, config.clip_norm()), OwnParameters(state));
  }
  ++state.step;
  if (state.moments.size() == state.model->trained_values().size()) return absl::OkStatus();
  const ScopedPhase phase(Phase::kCommunication);
  return communicator.AllGatherShards(state.model->trained_values());
}

}  // namespace braid
