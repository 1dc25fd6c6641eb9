// Measures a step of fine-tuning, optimizer included, in these cases:
//   full        all parameters are trained
//   adapters    adapters on q and v of every layer; the plain case of the following
//   upper_half  adapters in the upper half of the layers
//   routed      the last two even layers are 16 experts by keys, 4 active (EMoE, arXiv 2310.10908)
//   mixed       every layer is mixed with the next one (MoLEx, arXiv 2503.11144)
//   own         a gate scores all layers and chooses the layer itself
//   examples    adapters as above, for 64 packed examples with two targets each, as in SST-2
//   choosing    the same examples with layers that a gate chooses for each of them
// the decoding of one sequence by plain and mixed layers, and what else fine-tuning has a bar for
// (finetune_bars.h).
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
// cases come in another order in each round; figures are medians over the rounds. "bars" has the
// ratios with what is wanted of them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/blas_core.h"
#include "model/config/expert_split_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/config/model_flops.h"
#include "nlohmann/json.hpp"
#include "runs/forecast.h"
#include "tests/bench/bars.h"
#include "tests/bench/finetune_bars.h"
#include "tests/bench/or_exit.h"
#include "tests/model/tensor_bytes.h"
#include "trainer/gradient_clip.h"
#include "trainer/parallel/communicator.h"
#include "trainer/training_state.h"
#include "trainer/weight_update.h"

namespace braid {
namespace {

struct Settings {
  int layers = 6, width = 512, length = 1024, vocabulary = 8192, rank = 8;
  int rounds = 7, threads = 1, tokens = 256;  // decoded in a round
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

// Returns the configuration with every layer mixed with the next one.
v1::ModelConfig MixedConfig(v1::ModelConfig config) {
  v1::LayerMixing* const mixing = config.mutable_layer_mixing();
  mixing->set_gate(v1::LayerMixing::FIXED);
  for (int i = 0; i < config.num_layers(); ++i) mixing->add_fixed((i + 1) % config.num_layers());
  return OrExit(ResolveModelConfig(config));
}

// Returns the configuration with one gate for all layers, or one for each.
v1::ModelConfig GatedConfig(v1::ModelConfig config, bool own_gates) {
  config.mutable_layer_mixing()->set_gate(v1::LayerMixing::LEARNED);
  config.mutable_layer_mixing()->set_own_gates(own_gates);
  return OrExit(ResolveModelConfig(config));
}

// Makes every gate choose its own layer.
void PreferOwnLayers(LanguageModel& model) {
  int layer = 0;
  for (Parameter& p : model.parameters()) {
    if (p.name.ends_with("layer_mixing.gate.bias")) p.value[layer++] = 1e4f;
  }
}

v1::Finetuning AdaptersFrom(const Settings& s, const v1::ModelConfig& config, int first_layer) {
  v1::Finetuning finetuning;
  finetuning.mutable_lora()->set_rank(s.rank);
  for (int layer = first_layer; layer < s.layers; ++layer) {
    finetuning.mutable_lora()->add_layers(layer);
  }
  return OrExit(ResolveFinetuning(finetuning, config));
}

std::vector<int32_t> RandomTokens(const Settings& s, int count) {
  std::mt19937 random(2);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % s.vocabulary);
  return tokens;
}

// Returns one sequence of random tokens, each of which has a target.
TrainingSequences RandomText(const Settings& s) {
  const std::vector<int32_t> tokens = RandomTokens(s, s.length + 1);
  return {.inputs = {tokens.begin(), tokens.end() - 1},
          .targets = {tokens.begin() + 1, tokens.end()},
          .first_visible = {},
          .num_sequences = 1,
          .num_examples = 1};
}

// A model that trains on the same sequences in every step.
class Trainee {
 public:
  Trainee(const v1::ModelConfig& config, const v1::Finetuning& finetuning, TrainingSequences data)
      : data_(std::move(data)) {
    state_.model = OrExit(LanguageModel::Create(config, /*seed=*/1, finetuning));
    state_.moments = {0, state_.model->trained_values().size()};
    state_.m.assign(state_.moments.size(), 0.0f);
    state_.v = state_.m;
    optimizer_.set_beta1(0.9);
    optimizer_.set_beta2(0.95);
    optimizer_.set_epsilon(1e-8);
    optimizer_.set_clip_norm(1);
  }

  void Step() {
    const double begin = ProcessorSeconds();
    LanguageModel& model = *state_.model;
    std::ranges::fill(model.gradients(), 0.0f);
    AddGradients();
    OrExit(UpdateWeights(optimizer_, 1e-4, GlobalNorm(model.gradients()), state_, alone_));
    seconds_.push_back(ProcessorSeconds() - begin);
  }

  LanguageModel& model() { return *state_.model; }
  double seconds() const { return Median({seconds_.begin() + 1, seconds_.end()}); }
  // Values, gradients, two moments: what a run holds beyond the weights of the base.
  int64_t trained_bytes() {
    return 16 * static_cast<int64_t>(state_.model->trained_values().size());
  }
  int64_t peak_tensor_bytes() {
    return PeakTensorBytes([this] { AddGradients(); });
  }
  // Returns the share of the choices of layers, over all examples, that are not the layer itself.
  double OtherLayers() {
    double others = 0, all = 0;
    for (const LayerChoiceCounts& choices : AddGradients(/*measure_routing=*/true).layer_choices) {
      for (size_t layer = 0; layer < choices.counts.size(); ++layer) {
        const auto count = static_cast<double>(choices.counts[layer]);
        all += count;
        if (static_cast<int>(layer) != choices.layer) others += count;
      }
    }
    return others / all;
  }

 private:
  TrainResult AddGradients(bool measure_routing = false) {
    return OrExit(state_.model->ForwardBackward(data_.inputs, data_.targets, data_.num_sequences,
                                                1.0 / static_cast<double>(data_.inputs.size()),
                                                measure_routing, nullptr,
                                                {.first_visible = data_.first_visible}));
  }

  TrainingState state_;
  SingleProcess alone_;
  v1::OptimizerConfig optimizer_;
  const TrainingSequences data_;
  std::vector<double> seconds_;
};

// A model that decodes one sequence of random tokens.
class Generator {
 public:
  Generator(const Settings& s, const v1::ModelConfig& config)
      : tokens_(RandomTokens(s, s.tokens)), model_(OrExit(LanguageModel::Create(config, 1))) {}

  void Decode() {
    const std::unique_ptr<Decoder> decoder = model_->NewDecoder(MergeMode::kSegment);
    OrExit(decoder->Prefill(std::span(tokens_).first(1)));
    const double begin = ProcessorSeconds();
    for (size_t i = 1; i < tokens_.size(); ++i) OrExit(decoder->Step(tokens_[i]));
    seconds_.push_back(ProcessorSeconds() - begin);
  }

  double seconds() const { return Median({seconds_.begin() + 1, seconds_.end()}); }

 private:
  std::vector<int32_t> tokens_;
  std::unique_ptr<LanguageModel> model_;
  std::vector<double> seconds_;
};

// Returns the arithmetic of mixed layers over that of plain ones, forward, for sequences of
// `length`.
double MixedFlops(v1::ModelConfig plain, int length) {
  plain.set_sequence_length(length);
  plain.mutable_routing()->set_segment_length(length);
  return FlopsPerToken(MixedConfig(plain)).forward / FlopsPerToken(plain).forward;
}

// Returns the arithmetic of layers that a gate chooses over that of plain ones, for a step that
// trains adapters on examples, of whose choices the share `others` is another layer.
double ChoosingFlops(const Settings& s, const v1::ModelConfig& plain,
                     const TrainingSequences& examples, double others) {
  const auto size = static_cast<double>(examples.inputs.size());
  const double targets = 1 - std::ranges::count(examples.targets, -1) / size;
  // The attention within examples is negligible.
  const auto flops = [&](const v1::ModelConfig& config) {
    return FlopsPerToken(config, AdaptersFrom(s, config, 0),
                         {.visible_keys = 0, .target_share = targets})
        .active();
  };
  // Those of mixed layers are for other layers alone.
  return 1 + others * (flops(GatedConfig(plain, false)) / flops(plain) - 1);
}

nlohmann::json Measure(const Settings& s) {
  const v1::ModelConfig config = ConfigOf(s), split = RoutedConfig(config),
                        mixing = MixedConfig(config), gated = GatedConfig(config, true),
                        one_gate = GatedConfig(config, false);
  const auto trainee = [&](const v1::ModelConfig& model, const TrainingSequences& data) {
    return Trainee(model, AdaptersFrom(s, model, 0), data);
  };
  const TrainingSequences text = RandomText(s), sentences = PackedSentences(64);
  Trainee full(config, {}, text),
      adapters = trainee(config, text), upper(config, AdaptersFrom(s, config, s.layers / 2), text),
      routed = trainee(split, text), mixed = trainee(mixing, text), own = trainee(gated, text),
      examples = trainee(config, sentences), choosing = trainee(one_gate, sentences);
  PreferOwnLayers(own.model());
  Generator plain_text(s, config), mixed_text(s, mixing);
  // What ran before a case changes its time, so the order changes with every round.
  std::vector<std::function<void()>> cases;
  for (Trainee* t : {&full, &adapters, &upper, &routed, &mixed, &own, &examples, &choosing}) {
    cases.push_back([t] { t->Step(); });
  }
  for (Generator* g : {&plain_text, &mixed_text}) cases.push_back([g] { g->Decode(); });
  std::mt19937 order(1);
  for (int round = 0; round <= s.rounds; ++round) {
    std::ranges::shuffle(cases, order);
    for (const auto& run : cases) run();
  }
  const double step_flops = MixedFlops(config, s.length),
               token_flops = MixedFlops(config, s.tokens);
  const double speed = plain_text.seconds() / mixed_text.seconds();
  const double others = choosing.OtherLayers(),
               choosing_flops = ChoosingFlops(s, config, sentences, others),
               choosing_time = choosing.seconds() / examples.seconds();
  const auto memory = [](Trainee& t) { return static_cast<double>(t.peak_tensor_bytes()); };
  const PackingFigures packing = MeasurePacking(adapters.model(), s.rounds);
  const DatasetFigures dataset = MeasureDataset();
  return {
      {"full_step_seconds", full.seconds()},
      {"adapter_step_seconds", adapters.seconds()},
      {"upper_half_step_seconds", upper.seconds()},
      {"routed_step_seconds", routed.seconds()},
      {"mixed_step_seconds", mixed.seconds()},
      {"own_layer_step_seconds", own.seconds()},
      {"example_step_seconds", examples.seconds()},
      {"choosing_step_seconds", choosing.seconds()},
      {"choosing_other_layers", others},
      {"choosing_step_flops_over_plain", choosing_flops},
      {"choosing_step_over_plain", choosing_time},
      {"choosing_step_over_flops", choosing_time / choosing_flops},
      {"plain_decoding_seconds", plain_text.seconds()},
      {"mixed_decoding_seconds", mixed_text.seconds()},
      {"alpaca_tokens", dataset.num_tokens},
      {"adapter_bytes", adapters.trained_bytes()},
      {"upper_half_bytes", upper.trained_bytes()},
      {"adapter_peak_tensor_bytes", adapters.peak_tensor_bytes()},
      {"routed_peak_tensor_bytes", routed.peak_tensor_bytes()},
      {"mixed_step_flops_over_plain", step_flops},
      {"mixed_decoding_flops_over_plain", token_flops},
      {"bars",
       {{"adapter_over_full", AtMost(adapters.seconds() / full.seconds(), 0.76)},
        {"upper_half_over_full", AtMost(upper.seconds() / full.seconds(), 0.62)},
        {"routed_over_adapter", AtMost(routed.seconds() / adapters.seconds(), 1)},
        {"packed_examples_over_padded", AtLeast(packing.speed, 3)},
        {"filled_sst2", AtLeast(packing.filled, 0.95)},
        {"filled_alpaca", AtLeast(dataset.filled, 0.95)},
        {"alpaca_dataset_seconds", AtMost(dataset.processor_seconds, 10)},
        {"example_attention_over_causal", AtMost(MeasureExampleAttention(s.rounds), 0.5)},
        {"merged_logit_difference",
         AtMost(MeasureMergedLogits(config, AdaptersFrom(s, config, 0)), 1e-4)},
        {"mixed_step_over_plain", AtMost(mixed.seconds() / adapters.seconds(), 1.03 * step_flops)},
        {"own_layer_step_over_plain", AtMost(own.seconds() / adapters.seconds(), 1.05)},
        {"mixed_decoding_speed_over_plain", AtLeast(speed, 0.95 / token_flops)},
        {"routed_memory_over_plain", AtMost(memory(routed) / memory(adapters), 1.01)}}}};
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
    Trainee(first, AdaptersFrom(small, first, 0), RandomText(small)).Step();
  }
  const double before = StatusBytes("VmRSS");
  Trainee adapters(config, request.finetuning(), RandomText(s));
  for (int round = 0; round <= s.rounds; ++round) adapters.Step();
  const double used = StatusBytes("VmHWM") - before;
  const auto added = static_cast<double>(adapters.trained_bytes());
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
  ReexecForBlas(argv);
  Settings s;
  CLI::App app("Measure steps that train adapters");
  app.add_option("--layers", s.layers, "Layers, at least 4 (default: 6)");
  app.add_option("--d-model", s.width, "Model width, a multiple of 64 (default: 512)");
  app.add_option("--sequence-length", s.length, "Sequence length (default: 1024)");
  app.add_option("--vocab-size", s.vocabulary, "Vocabulary (default: 8192)");
  app.add_option("--rank", s.rank, "Rank of the adapters (default: 8)");
  app.add_option("--rounds", s.rounds, "Measured steps of each case (default: 7)");
  app.add_option("--tokens", s.tokens, "Tokens decoded in a round (default: 256)");
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
