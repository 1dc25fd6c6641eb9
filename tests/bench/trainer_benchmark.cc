// Measures the cost of soft merging: training steps of a dense model and of the same model with 8
// and with 32 experts. They alternate, so that changes of the machine affect all equally.
//
//   braid-bench-trainer --json trainer.json
//
// A step consists of several micro-batches of one sequence, followed by AdamW. Rates count the
// matrix products of the model, without those that are recomputed.
#include <cblas.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/blas_core.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "model/kernels/fused_ffn.h"
#include "model/kernels/phase_times.h"
#include "model/language_model.h"
#include "nlohmann/json.hpp"
#include "tests/bench/or_exit.h"
#include "trainer/gradient_clip.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

struct Settings {
  int64_t num_layers = 6, d_model = 512, d_ff = 1408, num_heads = 8;
  int64_t sequence_length = 4096, segment_length = 256, vocab_size = 8192;
  int micro_batches = 8;
  int steps = 3;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::string json;
  int memory_of = 0;  // experts; 1: dense
};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double SecondsOf(const std::function<void()>& work) {
  const double begin = Now();
  work();
  return Now() - begin;
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

v1::ModelConfig ConfigOf(const Settings& s, int num_experts) {
  v1::ModelConfig config;
  config.set_num_layers(s.num_layers);
  config.set_d_model(s.d_model);
  config.set_d_ff(s.d_ff);
  config.set_num_heads(s.num_heads);
  config.set_sequence_length(s.sequence_length);
  config.set_vocab_size(s.vocab_size);
  config.mutable_routing()->set_num_experts(num_experts);
  config.mutable_routing()->set_segment_length(s.segment_length);
  return OrExit(ResolveModelConfig(config));
}

// Measures one 2048^3 product. It is called repeatedly, and the best result counts.
class ProductPeak {
 public:
  void Measure() {
    const int n = kSize;
    const double seconds = SecondsOf([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a_.data(), n, b_.data(), n,
                  0, c_.data(), n);
    });
    best_ = std::max(best_, 2.0 * n * n * n / seconds / 1e9);
  }
  double gflops() const { return best_; }

 private:
  static constexpr int kSize = 2048;
  std::vector<float> a_ = std::vector<float>(kSize * kSize, 0.5f), b_ = a_, c_ = a_;
  double best_ = 0;
};

// A model that trains on random tokens.
class Trainee {
 public:
  Trainee(const Settings& s, int num_experts, bool muon = false) : settings_(s) {
    state_.model = OrExit(LanguageModel::Create(ConfigOf(s, num_experts), /*seed=*/1));
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
    for (int64_t i = 0; i <= s.sequence_length; ++i) {
      tokens_.push_back(static_cast<int32_t>(random() % s.vocab_size));
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
                 ->ForwardBackward(all.first(length), all.last(length), 1,
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

  const Settings settings_;
  TrainingState state_;
  v1::OptimizerConfig optimizer_;
  SingleProcess alone_;
  std::vector<int32_t> tokens_;
  double seconds_ = 0;
  std::vector<double> steps_;
  PhaseSeconds phases_ = {};
};

// Measures only the FFN, forward and backward, over one sequence.
class FfnTrial {
 public:
  FfnTrial(const Settings& s, int num_experts)
      : threads_(s.threads),
        shape_{.num_segments = s.sequence_length / s.segment_length,
               .segment_tokens = s.segment_length,
               .width = s.d_model,
               .hidden = s.d_ff,
               .num_experts = num_experts},
        matrices_(3 * num_experts * s.d_ff * s.d_model, 0.01f),
        gradients_(matrices_.size()),
        routing_(shape_.num_segments * num_experts, 1.0f / static_cast<float>(num_experts)),
        routing_gradients_(routing_.size()),
        x_(shape_.num_tokens() * s.d_model, 0.1f),
        y_(x_.size()),
        dx_(x_.size()),
        kept_(shape_.kept_size()) {}

  void Run() {
    const size_t size = matrices_.size() / 3;
    const FfnMatrices m{&matrices_[0], &matrices_[size], &matrices_[2 * size]};
    const FfnMatrixGradients g{&gradients_[0], &gradients_[size], &gradients_[2 * size]};
    const float* routing = shape_.num_experts == 1 ? nullptr : routing_.data();
    times_.push_back(SecondsOf([&] {
      FusedFfnForward(shape_, x_.data(), routing, m, kept_.data(), y_.data(), threads_);
      FusedFfnBackward(shape_, x_.data(), routing, m, kept_.data(), x_.data(), dx_.data(),
                       routing_gradients_.data(), g, threads_);
    }));
  }
  double seconds() const { return Median(times_); }

 private:
  const int threads_;
  const FfnShape shape_;
  std::vector<float> matrices_, gradients_, routing_, routing_gradients_, x_, y_, dx_, kept_;
  std::vector<double> times_;
};

constexpr int kFfnRounds = 7;

void MeasureFfn(const Settings& s, nlohmann::json* report) {
  if (!HasFusedFfn()) return;
  FfnTrial dense(s, 1), moe8(s, 8), moe32(s, 32);
  for (int round = 0; round < kFfnRounds; ++round) {
    for (FfnTrial* trial : {&dense, &moe8, &moe32}) trial->Run();
  }
  (*report)["dense_ffn_seconds"] = dense.seconds();
  (*report)["moe8_over_dense_ffn"] = moe8.seconds() / dense.seconds();
  (*report)["moe32_over_dense_ffn"] = moe32.seconds() / dense.seconds();
}

void MeasureSteps(const Settings& s, nlohmann::json* report) {
  ProductPeak peak;
  Trainee dense(s, 1), moe8(s, 8), moe32(s, 32), muon(s, 1, /*muon=*/true);
  const std::vector<Trainee*> all = {&dense, &moe8, &moe32, &muon};
  for (int step = 0; step < s.steps; ++step) {
    for (Trainee* t : all) t->ZeroGradients();
    for (int i = 0; i < s.micro_batches; ++i) {
      for (Trainee* t : all) t->MicroBatch();
      peak.Measure();
      std::cerr << "\rstep " << step + 1 << " of " << s.steps << ", micro-batch " << i + 1
                << std::flush;
    }
    for (Trainee* t : all) t->Update();
  }
  std::cerr << "\n";
  const double tokens = static_cast<double>(s.sequence_length) * s.micro_batches;
  const double gflops =
      FlopsPerToken(dense.model().config()).total() * tokens / dense.step_seconds() / 1e9;
  (*report)["sgemm_peak_gflops"] = peak.gflops();
  (*report)["dense_step_gflops"] = gflops;
  (*report)["dense_step_over_peak"] = gflops / peak.gflops();
  (*report)["dense_step_seconds"] = dense.step_seconds();
  (*report)["dense_tokens_per_second"] = tokens / dense.step_seconds();
  (*report)["muon_over_adamw_step"] = muon.step_seconds() / dense.step_seconds();
  (*report)["moe8_over_dense_step"] = moe8.step_seconds() / dense.step_seconds();
  (*report)["moe32_over_dense_step"] = moe32.step_seconds() / dense.step_seconds();
  (*report)["time_split_seconds"] = {{"dense", dense.TimeSplit()},
                                     {"moe8", moe8.TimeSplit()},
                                     {"moe32", moe32.TimeSplit()},
                                     {"muon", muon.TimeSplit()}};
}

// Measures the tokens per second of cached generation after a prompt of one segment.
double DecodeSeconds(LanguageModel& model, const Settings& s, int num_tokens) {
  const auto decoder = model.NewDecoder(MergeMode::kPrompt);
  const std::vector<int32_t> prompt(s.segment_length, 7);
  OrExit(decoder->Prefill(prompt).status());
  return SecondsOf([&] {
    for (int i = 0; i < num_tokens; ++i) OrExit(decoder->Step(i % 100).status());
  });
}

void MeasureGeneration(const Settings& s, nlohmann::json* report) {
  constexpr int kTokens = 200, kRounds = 5;
  Trainee dense(s, 1), moe8(s, 8);
  std::vector<double> dense_seconds, moe_seconds;
  for (int round = 0; round < kRounds; ++round) {
    dense_seconds.push_back(DecodeSeconds(dense.model(), s, kTokens));
    moe_seconds.push_back(DecodeSeconds(moe8.model(), s, kTokens));
  }
  (*report)["dense_generation_tokens_per_second"] = kTokens / Median(dense_seconds);
  (*report)["moe8_over_dense_generation"] = Median(dense_seconds) / Median(moe_seconds);
}

// Prints the peak memory of micro-batches and an update; run in a child process.
void PrintMemory(const Settings& s) {
  Trainee trainee(s, s.memory_of);
  for (int i = 0; i < s.micro_batches; ++i) trainee.MicroBatch();
  trainee.Update();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::cout << usage.ru_maxrss << " " << trainee.state_bytes() / 1024 << std::endl;
}

struct Memory {
  double peak_mb = 0;
  double state_mb = 0;  // parameters, gradients, moments
};

Memory MeasureMemory(const Settings& s, const std::string& program, int num_experts) {
  const std::string command = program + " --memory-of " + std::to_string(num_experts) +
                              " --micro-batches 2" + " --threads " + std::to_string(s.threads) +
                              " --length " + std::to_string(s.sequence_length) + " --layers " +
                              std::to_string(s.num_layers);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  double peak_kib = 0, state_kib = 0;
  if (pipe == nullptr || std::fscanf(pipe.get(), "%lf %lf", &peak_kib, &state_kib) != 2) {
    OrExit(absl::UnavailableError(command + ": got no result; is there enough memory?"));
  }
  return {peak_kib / 1024, state_kib / 1024};
}

void MeasureMemories(const Settings& s, const std::string& program, nlohmann::json* report) {
  const Memory dense = MeasureMemory(s, program, 1), moe8 = MeasureMemory(s, program, 8);
  (*report)["peak_rss_dense_mb"] = dense.peak_mb;
  (*report)["peak_rss_moe8_mb"] = moe8.peak_mb;
  (*report)["activation_dense_mb"] = dense.peak_mb - dense.state_mb;
  (*report)["activation_moe8_mb"] = moe8.peak_mb - moe8.state_mb;
  (*report)["moe8_over_dense_activation"] =
      (moe8.peak_mb - moe8.state_mb) / (dense.peak_mb - dense.state_mb);
}

int Run(const Settings& s, const std::string& program) {
  SetModelThreads(s.threads);
  if (s.memory_of > 0) {
    PrintMemory(s);
    return 0;
  }
  nlohmann::json report = {{"threads", s.threads},
                           {"layers", s.num_layers},
                           {"d_model", s.d_model},
                           {"d_ff", s.d_ff},
                           {"sequence", s.sequence_length},
                           {"segment", s.segment_length},
                           {"vocabulary", s.vocab_size},
                           {"micro_batches", s.micro_batches},
                           {"steps", s.steps},
                           {"blas", BlasCoreName()}};
  MeasureMemories(s, program, &report);
  MeasureFfn(s, &report);
  MeasureGeneration(s, &report);
  MeasureSteps(s, &report);
  const std::string text = report.dump(2) + "\n";
  std::cout << text;
  if (!s.json.empty()) std::ofstream(s.json) << text;
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings s;
  CLI::App app("Compare training steps with 8 and 32 soft experts and dense ones");
  app.add_option("--json", s.json, "File for the report");
  app.add_option("--threads", s.threads)->capture_default_str();
  app.add_option("--steps", s.steps, "Optimizer steps of each model")->capture_default_str();
  app.add_option("--micro-batches", s.micro_batches, "Sequences per step")->capture_default_str();
  app.add_option("--layers", s.num_layers)->capture_default_str();
  app.add_option("--length", s.sequence_length)->capture_default_str();
  app.add_option("--memory-of", s.memory_of)->group("");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s, std::filesystem::read_symlink("/proc/self/exe").string());
}
