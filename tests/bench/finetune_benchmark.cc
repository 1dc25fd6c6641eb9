// Measures a step of fine-tuning: with adapters on q and v of every layer, and of the upper half of
// the layers, divided by a step that trains all parameters; optimizer included. A further case has
// adapters on q and v of every layer of a model whose last two even layers are 16 experts by keys,
// of which a token uses 4 (EMoE, arXiv 2310.10908).
//
//   braid-bench-finetune --json finetune.json
//   braid-bench-finetune --memory --layers 8 --d-model 2048 --vocab-size 32000
//       --sequence-length 256
//
// With --memory, measures instead the memory of steps that train adapters in every layer: the peak
// of the process above what it had before the model, beside the forecast. What is beyond the base's
// weights and the activations of the forecast has a bar of 2 % of the weights and 16 bytes for each
// parameter of the adapters.
//
// Figures are processor seconds of the process, so that other programs hardly change them. The
// cases alternate; figures are medians over the rounds.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "model/config/expert_split_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "nlohmann/json.hpp"
#include "runs/forecast.h"
#include "tests/bench/or_exit.h"
#include "trainer/gradient_clip.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

struct Settings {
  int layers = 6, width = 512, length = 1024, vocabulary = 8192, rank = 8;
  int rounds = 7, threads = 1;
  bool memory = false;
  std::string json;
};

v1::ModelConfig ConfigOf(const Settings& s) {
  v1::ModelConfig config;
  config.set_num_layers(s.layers);
  config.set_d_model(s.width);
  config.set_num_heads(s.width / 64);
  config.set_vocab_size(s.vocabulary);
  config.set_sequence_length(s.length);
  return OrExit(ResolveModelConfig(config));
}

// Returns the configuration after a split of the layers n-2 and n-4.
v1::ModelConfig RoutedConfig(const v1::ModelConfig& dense) {
  v1::ExpertSplit split;
  split.set_num_experts(16);
  split.set_active_experts(4);
  split.add_layers(-2);
  split.add_layers(-4);
  return OrExit(ExpertSplitConfig(dense, split));
}

v1::Finetuning AdaptersFrom(const Settings& s, const v1::ModelConfig& config, int first_layer) {
  v1::Finetuning finetuning;
  finetuning.mutable_lora()->set_rank(s.rank);
  for (int layer = first_layer; layer < s.layers; ++layer) {
    finetuning.mutable_lora()->add_layers(layer);
  }
  return OrExit(ResolveFinetuning(finetuning, config));
}

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * usage.ru_utime.tv_usec;
}

double Median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

// A model that trains on random tokens.
class Trainee {
 public:
  Trainee(const Settings& s, const v1::ModelConfig& config, const v1::Finetuning& finetuning) {
    state_.model = OrExit(LanguageModel::Create(config, /*seed=*/1, finetuning));
    state_.moments = {0, state_.model->trained_values().size()};
    state_.m.assign(state_.moments.size(), 0.0f);
    state_.v = state_.m;
    optimizer_.set_beta1(0.9);
    optimizer_.set_beta2(0.95);
    optimizer_.set_epsilon(1e-8);
    optimizer_.set_clip_norm(1);
    std::mt19937 random(2);
    for (int i = 0; i <= s.length; ++i) {
      tokens_.push_back(static_cast<int32_t>(random() % s.vocabulary));
    }
  }

  void Step() {
    const double begin = ProcessorSeconds();
    const std::span<const int32_t> all(tokens_);
    const size_t length = all.size() - 1;
    LanguageModel& model = *state_.model;
    std::ranges::fill(model.gradients(), 0.0f);
    OrExit(model
               .ForwardBackward(all.first(length), all.last(length), 1,
                                1.0 / static_cast<double>(length), false)
               .status());
    OrExit(UpdateWeights(optimizer_, 1e-4, GlobalNorm(model.gradients()), state_, alone_));
    seconds_.push_back(ProcessorSeconds() - begin);
  }

  double seconds() const { return Median({seconds_.begin() + 1, seconds_.end()}); }
  int64_t num_trained() { return static_cast<int64_t>(state_.model->trained_values().size()); }

 private:
  TrainingState state_;
  SingleProcess alone_;
  v1::OptimizerConfig optimizer_;
  std::vector<int32_t> tokens_;
  std::vector<double> seconds_;
};

nlohmann::json Measure(const Settings& s) {
  const v1::ModelConfig config = ConfigOf(s), split = RoutedConfig(config);
  Trainee full(s, config, {}), adapters(s, config, AdaptersFrom(s, config, 0)),
      upper(s, config, AdaptersFrom(s, config, s.layers / 2)),
      routed(s, split, AdaptersFrom(s, split, 0));
  for (int round = 0; round <= s.rounds; ++round) {
    for (Trainee* trainee : {&full, &adapters, &upper, &routed}) trainee->Step();
  }
  // Values, gradients, two moments: what a run holds beyond the weights of the base.
  const auto bytes = [](Trainee& t) { return 16 * t.num_trained(); };
  return {{"full_step_seconds", full.seconds()},
          {"adapter_step_seconds", adapters.seconds()},
          {"upper_half_step_seconds", upper.seconds()},
          {"routed_step_seconds", routed.seconds()},
          {"routed_over_adapter", routed.seconds() / adapters.seconds()},
          {"adapter_over_full", adapters.seconds() / full.seconds()},
          {"upper_half_over_full", upper.seconds() / full.seconds()},
          {"adapter_bytes", bytes(adapters)},
          {"upper_half_bytes", bytes(upper)}};
}

// Returns a number of bytes of /proc/self/status, such as VmHWM.
double StatusBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return 1024 * std::stod(line.substr(field.size() + 1));
  }
  return 0;
}

nlohmann::json MeasureMemory(const Settings& s) {
  const v1::ModelConfig config = ConfigOf(s);
  v1::ForecastRequest request;
  *request.mutable_finetuning() = AdaptersFrom(s, config, 0);
  const v1::Forecast forecast = OrExit(ForecastTraining(config, request));
  {
    // The code of the tensor library is loaded by a first step.
    Settings small = s;
    small.layers = 4, small.width = 64, small.vocabulary = 256;
    const v1::ModelConfig first = ConfigOf(small);
    Trainee(small, first, AdaptersFrom(small, first, 0)).Step();
  }
  const double before = StatusBytes("VmRSS");
  Trainee adapters(s, config, request.finetuning());
  for (int round = 0; round <= s.rounds; ++round) adapters.Step();
  const double used = StatusBytes("VmHWM") - before;
  const double added = 16.0 * static_cast<double>(adapters.num_trained());
  const double weights = static_cast<double>(forecast.weight_bytes()) - added / 4;
  const auto total = static_cast<double>(forecast.total_bytes());
  return {{"weight_bytes", weights},
          {"measured_bytes", used},
          {"forecast_bytes", total},
          {"measured_over_forecast", used / total},
          {"beyond_bytes", used - weights - static_cast<double>(forecast.activation_bytes())},
          {"beyond_bar_bytes", 0.02 * weights + added}};
}

int Main(int argc, char** argv) {
  Settings s;
  CLI::App app("Measure steps that train adapters");
  app.add_option("--layers", s.layers, "Layers, at least 4 (default: 6)");
  app.add_option("--d-model", s.width, "Model width, a multiple of 64 (default: 512)");
  app.add_option("--sequence-length", s.length, "Sequence length (default: 1024)");
  app.add_option("--vocab-size", s.vocabulary, "Vocabulary (default: 8192)");
  app.add_option("--rank", s.rank, "Rank of the adapters (default: 8)");
  app.add_option("--rounds", s.rounds, "Measured steps of each case (default: 7)");
  app.add_option("--threads", s.threads, "Number of threads (default: 1)");
  app.add_flag("--memory", s.memory, "Measure the memory of training adapters");
  app.add_option("--json", s.json, "Output file");
  CLI11_PARSE(app, argc, argv);
  SetModelThreads(s.threads);
  const nlohmann::json result = s.memory ? MeasureMemory(s) : Measure(s);
  std::cout << result.dump(2) << std::endl;
  if (!s.json.empty()) std::ofstream(s.json) << result.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) { return braid::Main(argc, argv); }
