// A model in training, for benchmarks.
#ifndef BRAID_TESTS_BENCH_TRAINEE_H_
#define BRAID_TESTS_BENCH_TRAINEE_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "model/kernels/phase_times.h"
#include "model/language_model.h"
#include "nlohmann/json.hpp"
#include "tests/bench/or_exit.h"
#include "trainer/gradient_clip.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"
#include "trainer/weight_update.h"

namespace braid {

inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double SecondsOf(const std::function<void()>& work) {
  const double begin = Now();
  work();
  return Now() - begin;
}

inline double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

// A model that trains on random tokens.
class Trainee {
 public:
  explicit Trainee(const v1::ModelConfig& config, bool muon = false, int64_t batch_size = 1)
      : batch_size_(batch_size) {
    state_.model = OrExit(LanguageModel::Create(config, /*seed=*/1));
    state_.moments = {0, state_.model->values().size()};
    state_.m.assign(state_.moments.size(), 0.0f);
    state_.v = state_.m;
    optimizer_.set_beta1(0.9);
    optimizer_.set_beta2(0.95);
    optimizer_.set_epsilon(1e-8);
    optimizer_.set_clip_norm(1);
    if (muon) optimizer_.set_algorithm(v1::MUON);
    optimizer_.set_muon_momentum(0.95);
    std::mt19937 random(2);
    for (int64_t i = 0; i <= batch_size * config.sequence_length(); ++i) {
      tokens_.push_back(static_cast<int32_t>(random() % config.vocab_size()));
    }
  }

  LanguageModel& model() { return *state_.model; }

  void ZeroGradients() {
    Measure([&] { std::ranges::fill(state_.model->gradients(), 0.0f); });
  }

  void MicroBatch() {
    Measure([&] {
      const std::span<const int32_t> all(tokens_);
      const size_t length = all.size() - 1;
      OrExit(state_.model
                 ->ForwardBackward(all.first(length), all.last(length), batch_size_,
                                   1.0 / static_cast<double>(length), false)
                 .status());
    });
  }

  void Update() {
    Measure([&] {
      const double norm = GlobalNorm(model().gradients());
      OrExit(UpdateWeights(optimizer_, 1e-4, norm, state_, alone_));
    });
    steps_.push_back(seconds_);
    seconds_ = 0;
  }

  double step_seconds() const { return Median(steps_); }
  size_t state_bytes() const { return 4 * state_.model->values().size() * sizeof(float); }

  // Mean seconds per step of each phase.
  nlohmann::json TimeSplit() const {
    static constexpr const char* kNames[kNumPhases] = {"data",      "router",        "merge",
                                                       "ffn",       "attention",     "head",
                                                       "optimizer", "communication", "checkpoint"};
    nlohmann::json split;
    const double steps = static_cast<double>(steps_.size());
    double rest = 0;
    for (double seconds : steps_) rest += seconds / steps;
    for (size_t i = 0; i < kNumPhases; ++i) {
      split[kNames[i]] = phases_[i] / steps;
      rest -= phases_[i] / steps;
    }
    split["other"] = rest;
    return split;
  }

 private:
  void Measure(const std::function<void()>& work) {
    TakePhaseSeconds();
    seconds_ += SecondsOf(work);
    const PhaseSeconds spent = TakePhaseSeconds();
    for (size_t i = 0; i < kNumPhases; ++i) phases_[i] += spent[i];
  }

  const int64_t batch_size_;
  TrainingState state_;
  v1::OptimizerConfig optimizer_;
  SingleProcess alone_;
  std::vector<int32_t> tokens_;
  double seconds_ = 0;
  std::vector<double> steps_;
  PhaseSeconds phases_ = {};
};

}  // namespace braid

#endif  // BRAID_TESTS_BENCH_TRAINEE_H_
