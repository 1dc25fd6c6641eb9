// Measures the cost of soft merging: training steps of a dense model and of the same model with 8
// and with 32 experts. They alternate, so that changes of the machine affect all equally.
//
//   braid-bench-trainer --json trainer.json
//
// A step consists of several micro-batches of one sequence, followed by AdamW. Rates count the
// matrix products of the model, without those that are recomputed. `--parts routed` measures the
// model of `braid reproduce --paper smoe-dropout` dense, with dropout, and with half of its
// experts. `--parts mixture` compares a mixture of three datasets with one dataset, and
// `--parts validation` measures the time of validation (course_bars.h).
//
// "bars" has the figures that are wanted to be below a limit; the exit code is 1 if one is not.
#include <cblas.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/blas_core.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "model/kernels/fused_ffn.h"
#include "model/language_model.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bars.h"
#include "tests/bench/course_bars.h"
#include "tests/bench/or_exit.h"
#include "tests/bench/trainee.h"

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
  int rounds = 60;    // steps of each case of the mixture
  std::vector<std::string> parts = {"memory",  "ffn",        "generation", "routed",
                                    "mixture", "validation", "steps"};
};

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
  nlohmann::json& bars = (*report)["bars"];
  bars["moe8_over_dense_ffn"] = AtMost(moe8.seconds() / dense.seconds(), 1.12);
  bars["moe32_over_dense_ffn"] = AtMost(moe32.seconds() / dense.seconds(), 1.40);
}

void MeasureSteps(const Settings& s, nlohmann::json* report) {
  ProductPeak peak;
  Trainee dense(ConfigOf(s, 1)), moe8(ConfigOf(s, 8)), moe32(ConfigOf(s, 32));
  Trainee muon(ConfigOf(s, 1), /*muon=*/true);
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
  nlohmann::json& bars = (*report)["bars"];
  bars["muon_over_adamw_step"] = AtMost(muon.step_seconds() / dense.step_seconds(), 1.10);
  bars["moe8_over_dense_step"] = AtMost(moe8.step_seconds() / dense.step_seconds(), 1.06);
  bars["moe32_over_dense_step"] = AtMost(moe32.step_seconds() / dense.step_seconds(), 1.18);
  (*report)["time_split_seconds"] = {{"dense", dense.TimeSplit()},
                                     {"moe8", moe8.TimeSplit()},
                                     {"moe32", moe32.TimeSplit()},
                                     {"muon", muon.TimeSplit()}};
}

v1::ModelConfig RoutedConfig(int active, double dropout) {
  v1::ModelConfig config;
  config.set_preset("tiny");
  config.set_d_ff(1024);
  config.set_sequence_length(256);
  if (dropout > 0) config.mutable_dropout()->set_rate(dropout);
  if (active > 0) {
    v1::RoutingConfig* const routing = config.mutable_routing();
    routing->set_router(v1::TOKEN_CHOICE);
    routing->set_num_experts(16);
    routing->mutable_token()->set_gate(v1::TokenRouting::FROZEN);
    routing->mutable_token()->set_active_experts(active);
  }
  return OrExit(ResolveModelConfig(config));
}

void MeasureRouted(nlohmann::json* report) {
  constexpr int kSteps = 60, kSequences = 8;
  const auto trainee = [](int active, double rate) {
    return Trainee(RoutedConfig(active, rate), /*muon=*/false, kSequences);
  };
  Trainee dense = trainee(0, 0), dropout = trainee(0, 0.1), half = trainee(8, 0);
  const std::vector<Trainee*> all = {&dense, &dropout, &half};
  for (int step = 0; step < kSteps; ++step) {
    for (Trainee* t : all) {
      t->ZeroGradients();
      t->MicroBatch();
      t->Update();
    }
  }
  (*report)["routed"] = {{"dense_step_seconds", dense.step_seconds()},
                         {"time_split_seconds",
                          {{"dense", dense.TimeSplit()}, {"half_of_experts", half.TimeSplit()}}}};
  nlohmann::json& bars = (*report)["bars"];
  bars["dropout_over_dense_step"] = AtMost(dropout.step_seconds() / dense.step_seconds(), 1.05);
  bars["half_of_experts_over_dense_step"] =
      AtMost(half.step_seconds() / dense.step_seconds(), 0.70);
}

void MeasureMixtureBars(const Settings& s, nlohmann::json* report) {
  const MixtureFigures figures = MeasureMixture(s.rounds);
  (*report)["mixture_step_seconds"] = figures.step_seconds;
  (*report)["mixture_over_one_dataset_wall"] = figures.wall_ratio;
  (*report)["bars"]["mixture_over_one_dataset"] = AtMost(figures.processor_ratio, 1.01);
}

void MeasureValidationBars(nlohmann::json* report) {
  const auto measure = [&](int64_t num_steps, int64_t every) {
    const ValidationFigures figures = MeasureValidation(num_steps, every);
    (*report)["validation_every_" + std::to_string(every)] = {
        {"windows", figures.windows},
        {"share", figures.share},
        {"forecast", figures.forecast},
        {"checkpoint_share", figures.checkpoint_share}};
    return figures.share;
  };
  (*report)["bars"]["validation_share_every_200"] = AtMost(measure(200, 200), 0.01);
  (*report)["bars"]["validation_share_every_20"] = AtMost(measure(100, 20), 0.01);
  measure(60, 2);  // too short for 1 %: one window per domain takes more
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
  Trainee dense(ConfigOf(s, 1)), moe8(ConfigOf(s, 8));
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
  Trainee trainee(ConfigOf(s, s.memory_of));
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
  const std::string command = "'" + program + "' --memory-of " + std::to_string(num_experts) +
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
  const auto wants = [&](const char* part) { return std::ranges::count(s.parts, part) > 0; };
  if (wants("memory")) MeasureMemories(s, program, &report);
  if (wants("ffn")) MeasureFfn(s, &report);
  if (wants("generation")) MeasureGeneration(s, &report);
  if (wants("routed")) MeasureRouted(&report);
  if (wants("mixture")) MeasureMixtureBars(s, &report);
  if (wants("validation")) MeasureValidationBars(&report);
  SetModelThreads(s.threads);
  if (wants("steps")) MeasureSteps(s, &report);
  const std::string text = report.dump(2) + "\n";
  std::cout << text;
  if (!s.json.empty()) std::ofstream(s.json) << text;
  return ExitCodeOf(report.value("bars", nlohmann::json::object()));
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings s;
  CLI::App app("Compare training steps with 8 and 32 soft experts and dense ones");
  app.add_option("--json", s.json, "File for the report");
  app.add_option("--threads", s.threads, "Threads")->capture_default_str();
  app.add_option("--steps", s.steps, "Optimizer steps of each model")->capture_default_str();
  app.add_option("--micro-batches", s.micro_batches, "Sequences per step")->capture_default_str();
  app.add_option("--layers", s.num_layers, "Layers")->capture_default_str();
  app.add_option("--length", s.sequence_length, "Tokens of a sequence")->capture_default_str();
  app.add_option("--rounds", s.rounds, "Steps of each case of the mixture")->capture_default_str();
  app.add_option("--parts", s.parts, "What to measure")
      ->delimiter(',')
      ->check(CLI::IsMember(s.parts))
      ->capture_default_str();
  app.add_option("--memory-of", s.memory_of)->group("");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s, std::filesystem::read_symlink("/proc/self/exe").string());
}
