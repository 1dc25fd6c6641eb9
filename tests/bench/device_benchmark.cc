// Measures forward and backward passes of models with random weights on one device: tokens per
// second of several kinds of models and number types. `braid train` runs on CPUs only; this shows
// what the tensor code does elsewhere. A GPU needs a build with a LibTorch that supports it.
//
//   braid-bench-device --device cuda [--batch 16] [--length 1024] [--repeats 10] [--json FILE]
#include <ATen/ATen.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "model/config/finetuning_config.h"
#include "model/config/model_config.h"
#include "model/kernels/cross_entropy.h"
#include "model/transformer.h"
#include "nlohmann/json.hpp"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

struct Settings {
  std::string device = "cpu", json;
  int64_t batch = 16, length = 1024, layers = 8, width = 512, hidden = 2048, vocab_size = 32000;
  int repeats = 10;
};

// Fields of a ModelConfig, as text.
struct Kind {
  const char* name;
  const char* fields;
};

constexpr Kind kKinds[] = {
    {"dense", "routing { router: DENSE }"},
    {"soft merge, 8 experts", "routing { router: CAUSAL_SEGMENT num_experts: 8 }"},
    {"token choice, 8 of 16 experts",
     "routing { router: TOKEN_CHOICE num_experts: 16 token { active_experts: 8 } }"},
    {"mixed layers, one other layer per batch", "layer_mixing { alpha: 0.9 decision: BATCH_MODE }"},
};

class Passes {
 public:
  Passes(const Settings& s, const Kind& kind, at::Device device, at::ScalarType type) {
    config_.set_num_layers(static_cast<int32_t>(s.layers));
    config_.set_d_model(static_cast<int32_t>(s.width));
    config_.set_d_ff(static_cast<int32_t>(s.hidden));
    config_.set_vocab_size(static_cast<int32_t>(s.vocab_size));
    config_.set_sequence_length(static_cast<int32_t>(s.length));
    config_.mutable_routing()->set_segment_length(static_cast<int32_t>(s.length / 4));
    google::protobuf::TextFormat::Parser parser;
    if (!parser.MergeFromString(kind.fields, &config_)) OrExit(absl::InternalError(kind.name));
    config_ = OrExit(ResolveModelConfig(config_));
    finetuning_ = OrExit(ResolveFinetuning({}, config_));
    const ParameterSpec last = FinetunedLayout(config_, finetuning_).back();
    values_ = at::randn({last.offset + last.size}, at::device(device).dtype(type)).mul_(0.02);
    gradients_ = at::zeros_like(values_);
    weights_ = BindWeights(config_, finetuning_, values_, gradients_);
    tables_ = TablesFor(config_, values_.options());
    tokens_ = at::randint(0, s.vocab_size, {s.batch, s.length}, values_.options().dtype(at::kLong));
    instances_.resize(s.batch);
  }

  void Run() {
    RoutingContext context;
    context.instances = instances_;
    context.counted = at::ones(tokens_.sizes(), values_.options().dtype(at::kFloat));
    const HiddenStates states =
        RunTransformer(config_, weights_, tables_, tokens_, MergeMode::kTraining, context);
    const double scale = 1 / static_cast<double>(tokens_.numel());
    CrossEntropy(states.hidden, weights_.head, tokens_.flatten(), scale).total.backward();
  }

  // Waits for the device: copies a number of the last result.
  void Wait() const { gradients_[0].item<float>(); }

 private:
  v1::ModelConfig config_;
  v1::Finetuning finetuning_;
  at::Tensor values_, gradients_, tokens_;
  TransformerWeights weights_;
  AttentionTables tables_;
  std::vector<int64_t> instances_;
};

// Returns the median over the repeats, after two that are not counted.
double TokensPerSecond(const Settings& s, const Kind& kind, at::Device device,
                       at::ScalarType type) {
  Passes passes(s, kind, device, type);
  std::vector<double> seconds;
  for (int i = 0; i < s.repeats + 2; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    passes.Run();
    passes.Wait();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    if (i >= 2) seconds.push_back(taken.count());
  }
  std::ranges::nth_element(seconds, seconds.begin() + s.repeats / 2);
  return static_cast<double>(s.batch * s.length) / seconds[s.repeats / 2];
}

int Run(const Settings& s) {
  const at::Device device(s.device);
  if (device.is_cuda() && !at::hasCUDA()) {
    std::cerr << "error: --device: got " << s.device << ", but this LibTorch finds no GPU"
              << std::endl;
    return 1;
  }
  nlohmann::json result = {{"device", s.device},   {"batch", s.batch},
                           {"length", s.length},   {"layers", s.layers},
                           {"d_model", s.width},   {"d_ff", s.hidden},
                           {"repeats", s.repeats}, {"vocab_size", s.vocab_size}};
  for (const Kind& kind : kKinds) {
    nlohmann::json& row = result["tokens_per_second"][kind.name];
    at::globalContext().setAllowTF32CuBLAS(false);
    row["fp32"] = TokensPerSecond(s, kind, device, at::kFloat);
    if (device.is_cuda()) {
      at::globalContext().setAllowTF32CuBLAS(true);
      row["tf32"] = TokensPerSecond(s, kind, device, at::kFloat);
      row["bf16"] = TokensPerSecond(s, kind, device, at::kBFloat16);
    }
    std::cout << kind.name << ": " << row.dump() << std::endl;
  }
  if (!s.json.empty()) std::ofstream(s.json) << result.dump(2) << std::endl;
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Settings s;
  CLI::App app("Measure forward and backward passes on a device");
  app.add_option("--device", s.device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  const CLI::Range positive(1, 1 << 20);
  app.add_option("--batch", s.batch, "Sequences")->check(positive)->capture_default_str();
  app.add_option("--length", s.length, "Tokens of a sequence, a multiple of 4")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--layers", s.layers, "Layers")->check(positive)->capture_default_str();
  app.add_option("--d-model", s.width, "Model width")->check(positive)->capture_default_str();
  app.add_option("--d-ff", s.hidden, "Hidden units")->check(positive)->capture_default_str();
  app.add_option("--repeats", s.repeats, "Passes that are measured")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--json", s.json, "File for the results");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s);
}
